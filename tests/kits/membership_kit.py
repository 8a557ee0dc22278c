"""Members on virtual time: the client's membership machine against the broker's group machine.

A `Player` does what the client's driver does, without a loop: takes the steps its `Membership`
decides on, sends heartbeats when they are due, and hands answers back when the desk has them. Its
user can be busy (no turn), its answers can be lost, and it can be cut off. What the user is told is
kept as a story and checked as it grows.
"""

from __future__ import annotations

import json

from kits.group_kit import Desk
from moldau.client.consuming.membership import Membership, MembershipSettings, Phase
from moldau.client.consuming.steps import (
    Adopt,
    Beat,
    Distribute,
    Expire,
    Join,
    Lose,
    Refuse,
    Revoke,
    Synchronise,
    Wait,
)
from moldau.client.records import TopicPartition
from moldau.protocol.errors import ErrorCode

SESSION_MS, HEARTBEAT_MS, MAX_POLL_MS = 10_000, 3_000, 30_000


def settings(*, cooperative: bool = False, instance: str | None = None) -> MembershipSettings:
    return MembershipSettings(
        protocol_names=("range",),
        is_cooperative=cooperative,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=MAX_POLL_MS,
        group_instance_id=instance,
    )


def pause_s(failure_count: int) -> float:
    return min(0.1 * 2**failure_count, 1.0)


def partitions(topic: str, *numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


def packed(some: frozenset[TopicPartition]) -> bytes:
    return json.dumps(sorted(some)).encode()


def unpacked(data: bytes) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(*one) for one in json.loads(data or b"[]"))


def shares(members: dict[str, dict], counts: dict[str, int], *, cooperative: bool):
    """Deal partitions round; a cooperative leader keeps back what another member still owns."""
    dealt = {member: set() for member in members}
    ordered = sorted(members)
    for topic, count in sorted(counts.items()):
        willing = [one for one in ordered if topic in members[one]["topics"]]
        for number in range(count if willing else 0):
            dealt[willing[number % len(willing)]].add(TopicPartition(topic, number))
    if cooperative:
        owners: dict[TopicPartition, tuple[int, str]] = {}
        for member, told in members.items():
            for one in told["owned"]:
                key = TopicPartition(*one)
                owners[key] = max(owners.get(key, (-2, "")), (told["generation"], member))
        for member, given in dealt.items():
            given -= {key for key in given if owners.get(key, (0, member))[1] != member}
    return {member: packed(frozenset(given)) for member, given in dealt.items()}


class Player:
    """One client of the group."""

    def __init__(self, desk: Desk, counts: dict[str, int], topics, *, cooperative, instance=None):
        self.desk = desk
        self.counts = counts
        self.cooperative = cooperative
        self.instance = instance
        self.membership = Membership(settings(cooperative=cooperative, instance=instance), pause_s)
        self.membership.subscribe(topics, desk.seconds)
        self.membership.asked(desk.seconds)
        self.is_busy = False
        """The user holds records, so nothing may be taken from it."""
        self.is_cut = False
        self.is_gone = False
        self.held = frozenset()
        """What the user was told to read."""
        self.story: list[tuple[str, frozenset[TopicPartition]]] = []
        self.errors: list[Exception] = []
        self._request = None
        self._request_step = None
        self._beat_failures = 0

    # The user

    def work(self) -> None:
        """Hold records for a while."""
        if not self.is_busy:
            self.is_busy = True
            self.membership.answered(self.desk.seconds)

    def ask(self) -> None:
        """Be done with them, and ask for more."""
        self.is_busy = False
        self.membership.asked(self.desk.seconds)

    def leave(self) -> None:
        identity = self.membership.identity
        if identity.member_id and not self.is_cut and self.instance is None:
            self.desk.leave(identity.member_id)
        self.membership.left()
        self.is_gone = True

    # The driver

    def act(self) -> bool:
        """Do all there is to do now; tell whether anything was."""
        if self.is_gone:
            return False
        acted = self._take_answer()
        while self._request is None and self._step():
            acted = True
        while self._pulse():
            acted = True
        self.check()
        return acted

    def _step(self) -> bool:
        membership = self.membership
        step = membership.next(self.desk.seconds)
        assert membership.next(self.desk.seconds) == step, "asking changes nothing"
        if isinstance(step, Wait) or (isinstance(step, (Revoke, Adopt)) and self.is_busy):
            return False
        if isinstance(step, Revoke):
            self._tell("revoked", step.partitions)
            membership.revoked(step.partitions)
        elif isinstance(step, Adopt):
            if step.revoked:
                self._tell("revoked", step.revoked)
            self._tell("assigned", step.added)
            membership.adopted(step)
        elif isinstance(step, Lose):
            membership.forfeited()
            self._tell("lost", step.partitions)
        elif isinstance(step, Refuse):
            membership.refusal_told()
            self.errors.append(step.error)
        else:
            self._send(step)
        return True

    def _tell(self, what, some) -> None:
        self.story.append((what, some))
        if what == "assigned":
            assert not some & self.held, "assigned what it had"
            self.held |= some
        else:
            assert some, "told of nothing"
            assert some <= self.held, "took away what it had not"
            self.held -= some

    def _send(self, step) -> None:
        membership = self.membership
        if isinstance(step, Distribute):
            told = {one.member_id: json.loads(one.metadata) for one in step.members}
            over = {
                topic: self.counts.get(topic, 0) for one in told.values() for topic in one["topics"]
            }
            given = (
                {} if step.is_settled else shares(told, self.counts, cooperative=self.cooperative)
            )
            membership.distributed(given, over)
            return
        if isinstance(step, Join):
            membership.join_begun()
        if self.is_cut:
            membership.interrupted(self.desk.seconds)
            return
        self._request_step = step
        if isinstance(step, Join):
            metadata = {
                "topics": sorted(step.topics),
                "owned": sorted(step.owned),
                "generation": step.owned_generation,
            }
            self._request = self.desk.join(
                step.identity.member_id,
                instance=self.instance,
                protocols=(("range", json.dumps(metadata).encode()),),
                session_ms=SESSION_MS,
                rebalance_ms=MAX_POLL_MS,
                reason=step.reason,
            )
        else:
            assert isinstance(step, Synchronise)
            self._request = self.desk.sync(
                step.identity.member_id,
                step.identity.generation,
                dict(step.assignments),
                instance=self.instance,
                protocol=step.protocol_name,
            )

    def _take_answer(self) -> bool:
        request, step, now = self._request, self._request_step, self.desk.seconds
        if request is None or not (request.answers or self.is_cut):
            return False
        self._request = None
        if self.is_cut:
            self.membership.interrupted(now)
        elif isinstance(step, Join):
            self.membership.joined(request.answer, now)
        else:
            given = unpacked(request.answer.assignment)
            self.membership.synced(step.identity, request.answer, given, now)
        return True

    def _pulse(self) -> bool:
        membership, now = self.membership, self.desk.seconds
        pulse = membership.pulse(now)
        if isinstance(pulse, Wait):
            return False
        if isinstance(pulse, Expire):
            membership.expired()
            if not self.is_cut and self.instance is None:
                self.desk.leave(pulse.identity.member_id)
            return True
        assert isinstance(pulse, Beat)
        membership.beat_begun(now)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not self.is_cut:
            code = self.desk.heartbeat(*pulse.identity, instance=self.instance)
        if code.retriable:
            self._beat_failures += 1
            membership.beat_failed(self._beat_failures, now)
            return False
        self._beat_failures = 0
        membership.beat_answered(pulse.identity, code, now)
        return True

    def check(self) -> None:
        assert self.membership.owned == self.held

    @property
    def is_settled(self) -> bool:
        membership = self.membership
        return membership.phase is Phase.STABLE and isinstance(
            membership.next(self.desk.seconds), Wait
        )

    @property
    def is_in_roster(self) -> bool:
        """Tell whether the group counts it in, by the id it goes by."""
        member_id = self.membership.identity.member_id
        return bool(member_id) and self.desk.group._core.roster.get(member_id) is not None
