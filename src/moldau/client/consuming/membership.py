"""One client's membership in a group, as a pure machine: state, event and `now` in, steps out.

    IDLE --subscribe--> PREPARING --Join--> JOINING --+--> DISTRIBUTING (the leader) --+
                          ^   ^                       +----------> SYNCING <-----------+
                          |   |                                        |
                          |   +--- refused for a time, rebalance ------+
                          |                                            v
                          +------ rebalance, new subscription ----- ADOPTING --> STABLE

`next` says what to do now; the driver does it and reports. `pulse` is asked apart from it, because
heartbeats go on while a step waits for the user. Both may be asked as often as one likes: only
reports change anything. After every wait the driver asks again, since the answer may have changed.

Two ways to rebalance. EAGER: everything is given up before joining. COOPERATIVE (KIP-429): a member
keeps what it has while it joins, gives up only what the new assignment takes away, and joins once
more so that the next owner may have it.

A client *loses* its partitions when the group went on without it (fenced, forgotten, too slow):
they may be somebody else's already, so they are dropped at once and committed no more.

Pure: knows no connection, no clock, no listener.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from moldau.base.checks import invariant
from moldau.client.assignors.consumer_protocol import PROTOCOL_TYPE
from moldau.client.assignors.interface import NO_GENERATION
from moldau.client.consuming.steps import (
    NOBODY,
    NONE_OWNED,
    Adopt,
    Beat,
    Distribute,
    Expire,
    Join,
    Lose,
    MemberIdentity,
    Partitions,
    Pulse,
    Refuse,
    Revoke,
    Step,
    Synchronise,
    Wait,
)
from moldau.client.errors import broker_error
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

SHUT_OUT = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
"""The group went on without this member."""


class Phase(Enum):
    """Where a member stands."""

    IDLE = "not subscribed"
    PREPARING = "about to join"
    JOINING = "waiting for the next generation"
    DISTRIBUTING = "assigning partitions as the leader"
    SYNCING = "waiting for its assignment"
    ADOPTING = "taking over its assignment"
    STABLE = "has its assignment"
    RESTING = "out of the group until the user asks for records again"
    REFUSED = "refused by the group"


_BEATING = frozenset(
    {Phase.PREPARING, Phase.DISTRIBUTING, Phase.SYNCING, Phase.ADOPTING, Phase.STABLE}
)
"""Not JOINING: the coordinator holds the member then, and while it makes a new generation, the
answer to a heartbeat of the old one could overtake the answer to the join."""

_SETTLED = frozenset({Phase.ADOPTING, Phase.STABLE})


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """What the rules of membership depend on."""

    protocol_names: tuple[str, ...]
    """The assignors this client knows, the one it likes best first."""
    is_cooperative: bool
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    group_instance_id: str | None = None


class Membership:
    """One client's place in one group."""

    def __init__(self, settings: MembershipSettings, pause_s: Callable[[int], float]) -> None:
        """`pause_s` tells how long to wait after so many failures in a row."""
        self._settings = settings
        self._pause_s = pause_s
        self.phase = Phase.IDLE
        self.identity = NOBODY
        self.topics: frozenset[str] = frozenset()
        self.owned: Partitions = NONE_OWNED
        self._owned_generation = NO_GENERATION
        self._is_lost = False
        """What is owned was taken away already."""
        self._is_bereft = False
        """The user may still hold records of partitions that were lost."""
        self._rejoin_reason: str | None = None
        self._joined_topics: frozenset[str] = frozenset()
        self._failure_count = 0
        self._retry_at = 0.0
        self._protocol_name = ""
        self._distribute: Distribute | None = None
        self._assignments: Mapping[str, bytes] = {}
        self._pending: Partitions = NONE_OWNED
        self._distributed_over: Mapping[str, int] | None = None
        """Partitions of each topic of the group when this leader assigned them; else None."""
        self._refusal: Exception | None = None
        self._is_refusal_told = False
        self._is_fenced = False
        self._is_user_waiting = False
        self._answered_at = 0.0
        self._beat_at = 0.0

    @property
    def is_member(self) -> bool:
        """Tell whether the group, as far as is known, counts this client among its members."""
        return self.identity.generation != NO_GENERATION and not self._is_lost

    @property
    def committer(self) -> MemberIdentity | None:
        """Who commits right now; None where a commit of this member must not be taken.

        A consumer that is not subscribed commits as nobody in particular. A coordinator takes from
        a member offsets of any partition, so one that lost its own and has joined again must not
        commit before its user has let go of their records: those are for others to commit now.
        """
        if self.phase is Phase.IDLE:
            return NOBODY
        return self.identity if self.is_member and not self._is_bereft else None

    @property
    def is_bereft(self) -> bool:
        """Tell whether the user may hold records of partitions that were lost."""
        return self._is_bereft or self._is_lost

    @property
    def is_joining(self) -> bool:
        """Tell whether the generation is about to change without any doing of the user."""
        return self.phase in {Phase.JOINING, Phase.DISTRIBUTING, Phase.SYNCING}

    # What the user does

    def subscribe(self, topics: Iterable[str], now: float) -> None:
        """Want partitions of these topics from now on."""
        self.topics = frozenset(topics)
        if self.phase is Phase.IDLE:
            self._answered_at = now
            self._prepare("the consumer subscribed")
        elif self.topics != self._joined_topics:
            self.rejoin("the subscription changed")

    def rejoin(self, reason: str) -> None:
        """Take part in another rebalance as soon as this one, if there is one, is over."""
        if self.phase is Phase.STABLE:
            self._prepare(reason)
        elif self.phase is not Phase.IDLE:
            self._rejoin_reason = reason

    def asked(self, now: float) -> bool:
        """Note that the user asks for records, and perhaps waits; tell if that changes anything."""
        self._is_user_waiting = True
        self._is_bereft = False
        if self.phase is Phase.RESTING:
            self._prepare("the consumer asks for records again")
        elif self.phase is not Phase.REFUSED:
            return False
        elif self._is_fenced:
            self._is_refusal_told = False
        else:
            self._retry_at = now + self._pause_s(self._failure_count)
            self._prepare("the consumer tries again")
        return True

    def answered(self, now: float) -> None:
        """Note that the user has got what it asked for, or does not wait for it any longer."""
        self._is_user_waiting = False
        self._answered_at = now

    def left(self) -> None:
        """Note that the user is out of the group by its own wish, and owns nothing."""
        self.phase = Phase.IDLE
        self.identity = NOBODY
        self.topics = self._joined_topics = frozenset()
        self.owned, self._owned_generation = NONE_OWNED, NO_GENERATION
        self._is_lost = self._is_bereft = self._is_fenced = False
        self._rejoin_reason = self._refusal = self._distributed_over = None
        self._failure_count = 0

    # What to do next

    def next(self, now: float) -> Step:
        """Return the step to take now."""
        if self._is_lost:
            return Lose(self.owned)
        if self.phase is Phase.PREPARING:
            return self._next_before_joining(now)
        return self._next_with_the_group()

    def _next_with_the_group(self) -> Step:
        if self.phase is Phase.DISTRIBUTING:
            assert self._distribute is not None
            return self._distribute
        if self.phase is Phase.SYNCING:
            return Synchronise(self.identity, self._protocol_name, self._assignments)
        if self.phase is Phase.ADOPTING:
            return self._adoption()
        if self.phase is Phase.REFUSED and not self._is_refusal_told:
            assert self._refusal is not None
            return Refuse(self._refusal)
        return Wait()

    def _next_before_joining(self, now: float) -> Step:
        if now < self._retry_at:
            return Wait(self._retry_at)
        if revoked := self._revoked_before_joining():
            return Revoke(revoked)
        return Join(
            self.identity,
            self.topics,
            self.owned,
            self._owned_generation,
            self._rejoin_reason or "",
        )

    def _revoked_before_joining(self) -> Partitions:
        if self._settings.is_cooperative:
            return frozenset(one for one in self.owned if one.topic not in self.topics)
        return self.owned

    def _adoption(self) -> Adopt:
        return Adopt(
            self._pending,
            self._pending - self.owned,
            self.owned - self._pending,
            self.identity,
        )

    # How steps ended

    def revoked(self, partitions: Partitions) -> None:
        """Note that these were given up."""
        self.owned -= partitions
        self._is_lost = self._is_lost and bool(self.owned)

    def forfeited(self) -> None:
        """Note that what was lost is dropped."""
        self.owned, self._owned_generation = NONE_OWNED, NO_GENERATION
        self._is_lost, self._is_bereft = False, not self._is_user_waiting

    def join_begun(self) -> None:
        """Note that the request to join is on its way: it says all there is to say until now."""
        invariant(self.phase is Phase.PREPARING, "only who is about to join joins")
        self.phase = Phase.JOINING
        self._joined_topics = self.topics
        self._rejoin_reason = None

    def joined(self, answer: JoinGroupResponse, now: float) -> None:
        """Take the answer to a join."""
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._enter_generation(answer, now)
        elif code is ErrorCode.MEMBER_ID_REQUIRED and not self.identity.member_id:
            # KIP-394: whoever joins without an id comes again with the one it is given.
            self.identity = MemberIdentity(answer.member_id)
            self._prepare("the consumer was given its member id")
        else:
            self._trouble(code, now)

    def _enter_generation(self, answer: JoinGroupResponse, now: float) -> None:
        self.identity = MemberIdentity(answer.member_id, answer.generation_id)
        self._beat_at = now + self._settings.heartbeat_interval_ms / 1000
        self._distributed_over = None
        self._assignments = {}
        known = answer.protocol_name in self._settings.protocol_names
        if not known or answer.protocol_type not in {None, PROTOCOL_TYPE}:
            self._trouble(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, now)
            return
        assert answer.protocol_name is not None
        self._protocol_name = answer.protocol_name
        if answer.leader == answer.member_id:
            self.phase = Phase.DISTRIBUTING
            self._distribute = Distribute(
                answer.protocol_name, tuple(answer.members), answer.skip_assignment
            )
        else:
            self.phase = Phase.SYNCING

    def distributed(self, assignments: Mapping[str, bytes], over: Mapping[str, int]) -> None:
        """Take the leader's decision and the partition counts it rests on."""
        if self.phase is Phase.DISTRIBUTING:
            self.phase = Phase.SYNCING
            self._assignments, self._distributed_over = assignments, over

    def synced(
        self, asked_as: MemberIdentity, answer: SyncGroupResponse, assigned: Partitions, now: float
    ) -> None:
        """Take the answer to a sync; `assigned` is what it brings if it brings anything."""
        if asked_as != self.identity or self.phase is not Phase.SYNCING:
            return  # a heartbeat has told worse meanwhile
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._prepare("the group rebalances once more")
        elif code is not ErrorCode.NONE:
            self._trouble(code, now)
        elif any(one.topic not in self.topics for one in assigned):
            # The subscription changed on the way, or the leader is wrong; it has to decide again.
            self._try_again(now, "the assignment does not fit the subscription")
        else:
            self._failure_count = 0
            self._pending = assigned
            self.phase = Phase.ADOPTING

    def adopted(self, adoption: Adopt) -> None:
        """Note that an assignment is in force."""
        self.owned, self._owned_generation = adoption.assigned, adoption.identity.generation
        self._is_bereft = False
        if self.phase is not Phase.ADOPTING or adoption.identity != self.identity:
            self._is_lost = True  # taken away again while the listener heard of it
            return
        self.phase = Phase.STABLE
        if self._rejoin_reason is not None:
            self._prepare(self._rejoin_reason)
        elif adoption.revoked:
            self._prepare("partitions were given up for others to take")

    def interrupted(self, now: float) -> None:
        """Note that a join, a sync or what leads to it did not come to an end; try again."""
        if self.is_joining:
            self._try_again(now, "the coordinator did not answer")

    def refused(self, error: Exception) -> None:
        """Note that no membership is possible until the user does something about this error."""
        if self.phase is not Phase.IDLE:
            self.phase = Phase.REFUSED
            self._refusal, self._is_refusal_told = error, False
            self._failure_count += 1

    def refusal_told(self) -> None:
        """Note that the user will hear of the refusal."""
        self._is_refusal_told = True

    # Heartbeats

    def pulse(self, now: float) -> Pulse:
        """Return what the background has to do now, whatever the user does."""
        if self.phase not in _BEATING or self.identity.generation == NO_GENERATION:
            return Wait()
        asleep_at = self._answered_at + self._settings.max_poll_interval_ms / 1000
        if self._is_user_waiting:
            asleep_at = float("inf")
        if now >= asleep_at:
            return Expire(self.identity)
        if now >= self._beat_at:
            return Beat(self.identity)
        return Wait(min(self._beat_at, asleep_at))

    def beat_begun(self, now: float) -> None:
        """Note that a heartbeat is on its way."""
        self._beat_at = now + self._settings.heartbeat_interval_ms / 1000

    def beat_failed(self, failure_count: int, now: float) -> None:
        """Note that a heartbeat was not answered; the next must not wait for its interval."""
        self._beat_at = min(self._beat_at, now + self._pause_s(failure_count))

    def beat_answered(self, asked_as: MemberIdentity, code: ErrorCode, now: float) -> None:
        """Take the answer to a heartbeat."""
        self._told(asked_as, code, now)

    def commit_refused(self, asked_as: MemberIdentity, code: ErrorCode, now: float) -> None:
        """Take what the refusal of a commit says about the membership."""
        if code is ErrorCode.REBALANCE_IN_PROGRESS or code in SHUT_OUT:
            self._told(asked_as, code, now)

    def _told(self, asked_as: MemberIdentity, code: ErrorCode, now: float) -> None:
        if asked_as != self.identity or self.phase not in _BEATING or code is ErrorCode.NONE:
            return  # of an earlier life, or overtaken by a join
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.phase in _SETTLED:
                self.rejoin("the group rebalances")
        elif not code.retriable:
            self._trouble(code, now)

    def expired(self) -> None:
        """Note that the member left because its user does not ask for records."""
        self._forfeit(NOBODY)
        self.phase = Phase.RESTING

    # What the cluster does

    def partitions_seen(self, counts: Mapping[str, int]) -> None:
        """Compare the partitions there are with those the leader assigned.

        Only the leader looks: it knows what the whole group has subscribed to.
        """
        over = self._distributed_over
        if over is None or self.phase not in {*_SETTLED, Phase.SYNCING}:
            return
        if changed := sorted(topic for topic in over if counts.get(topic, 0) != over[topic]):
            self._distributed_over = None
            self.rejoin(f"partitions of {', '.join(changed)} changed")

    @property
    def partitions_led(self) -> Mapping[str, int]:
        """The topics this member assigned as the leader, and how many partitions they had."""
        return self._distributed_over or {}

    # Transitions

    def _prepare(self, reason: str) -> None:
        self.phase = Phase.PREPARING
        self._rejoin_reason = reason

    def _try_again(self, now: float, reason: str) -> None:
        self._failure_count += 1
        self._retry_at = now + self._pause_s(self._failure_count)
        self._prepare(reason)

    def _trouble(self, code: ErrorCode, now: float) -> None:
        """Do what an error code asks for."""
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forfeit(NOBODY)
            self._try_again(now, "the group does not know this member")
        elif code is ErrorCode.ILLEGAL_GENERATION:
            # The group still knows the member id; a second one would only have to time out.
            self._forfeit(MemberIdentity(self.identity.member_id))
            self._try_again(now, "the group went on to another generation")
        elif code.retriable or code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._try_again(now, f"the coordinator answered {code.name}")
        else:
            self._is_fenced = code is ErrorCode.FENCED_INSTANCE_ID
            self._forfeit(NOBODY)
            self.refused(broker_error(code))

    def _forfeit(self, identity: MemberIdentity) -> None:
        self.identity = identity
        self._is_lost = bool(self.owned)
        self._distributed_over = None
