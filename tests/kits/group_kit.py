"""A group on virtual time, and clients that speak to it: what tests of the group machine share.

The desk does what the coordinator's runtime does, in its order, on a log that commits at once,
later or not at all. Every answer passes the codec of its version, as a client would see it, and a
ticket that is answered twice fails the test.
"""

from __future__ import annotations

import random
from typing import Any

from moldau.coordination.groups.counters import GroupCounters
from moldau.coordination.groups.group import Group
from moldau.coordination.groups.responses import join_refusal, sync_refusal
from moldau.coordination.groups.settings import GroupSettings
from moldau.coordination.groups.snapshot import GroupSnapshot
from moldau.coordination.groups.turn import GroupNote, GroupTimer
from moldau.coordination.outcome import Caller, Now, Outcome, StateRecord, Timer
from moldau.protocol.compiler import decode, encode
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupMember,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

GROUP_ID = "readers"
START_MS = 1_700_000_000_000
SETTINGS = GroupSettings()
NEWEST_JOIN, NEWEST_SYNC, NEWEST_HEARTBEAT, NEWEST_LEAVE = 9, 5, 4, 5


def subscription(*topics: str, version: int = 0, rest: bytes = b"\xff\xff\xff\xff") -> bytes:
    """Return what a consumer hands in that reads these topics."""
    encoded = [topic.encode() for topic in topics]
    names = b"".join(len(name).to_bytes(2, "big") + name for name in encoded)
    return version.to_bytes(2, "big") + len(topics).to_bytes(4, "big") + names + rest


ORDERS = (("range", subscription("orders")),)
"""What a member offers unless a test says otherwise."""


class Waiter:
    """One request that waits for its answer."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.answers: list[Any] = []

    @property
    def answer(self) -> Any:
        """The answer, as the client reads it; None if there is none yet."""
        return self.answers[0] if self.answers else None

    @property
    def error(self) -> ErrorCode:
        """The error code of an answer that must be there."""
        assert self.answers, "not answered yet"
        return ErrorCode(self.answers[0].error_code)


class Desk:
    """One group and the runtime around it."""

    def __init__(self, settings: GroupSettings = SETTINGS, seed: int = 1) -> None:
        self.settings = settings
        self.random = random.Random(seed)
        self.counters = GroupCounters()
        self.seconds = 1000.0
        self.timers: dict[GroupTimer, float] = {}
        self.notes: list[str] = []
        self.log: list[GroupSnapshot | None] = []
        self.waiters: list[Waiter] = []
        self.commits_at_once = True
        self.refuses: ErrorCode | None = None
        self._encoded: list[GroupSnapshot | None] = []
        self._held: list[Outcome] = []
        self.group = self.make_group(loading=False)

    def make_group(self, *, loading: bool) -> Group:
        return Group(
            GROUP_ID, self.settings, self.random, self._encode, self.counters, loading=loading
        )

    def _encode(self, group_id: str, snapshot: GroupSnapshot | None) -> StateRecord:
        self._encoded.append(snapshot)
        return StateRecord(group_id.encode(), str(len(self._encoded) - 1).encode())

    # Time

    @property
    def now(self) -> Now:
        return Now(START_MS + round(self.seconds * 1000), self.seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass; timers fire when they are due."""
        end = self.seconds + seconds
        while self.timers:
            key, due = min(self.timers.items(), key=lambda item: item[1])
            if due > end:
                break
            del self.timers[key]
            self.seconds = max(self.seconds, due)
            self.carry_out(self.group.timer_fired(key, self.now))
        self.seconds = end

    # The runtime

    def carry_out(self, outcome: Outcome) -> None:
        """Do what the runtime does with an outcome."""
        if outcome.records and self.refuses is not None:
            assert outcome.refused is not None
            self.carry_out(outcome.refused(self.refuses, self.now))
            return
        for record in outcome.records:
            assert record.value is not None
            snapshot = self._encoded[int(record.value)]
            self.log.append(snapshot)
            assert snapshot is not None
            self.group.replay(snapshot)
        for timer in outcome.timers:
            if isinstance(timer, Timer):
                self.timers[timer.key] = self.seconds + timer.after_s
            else:
                self.timers.pop(timer.key, None)
        if outcome.at_once or (self.commits_at_once and not self._held):
            self._finish(outcome)
        elif outcome.records or self._held:
            self._held.append(outcome)
        else:
            self._finish(outcome)

    def _finish(self, outcome: Outcome) -> None:
        for waiter, response in outcome.replies:
            assert isinstance(waiter, Waiter)
            assert not waiter.answers, "a ticket is answered once"
            version = waiter.version
            waiter.answers.append(decode(type(response), version, encode(response, version)))
        self.notes += [effect.text for effect in outcome.effects if isinstance(effect, GroupNote)]
        if outcome.then is not None:
            self.carry_out(outcome.then(self.now))

    def commit(self) -> None:
        """Commit what is in the log."""
        held, self._held = self._held, []
        for outcome in held:
            self._finish(outcome)

    def restart(self) -> None:
        """Throw everything away but the log, and load it."""
        self.timers.clear()
        self._held.clear()
        self.group.ended()
        self.group = self.make_group(loading=True)
        for snapshot in self.log:
            assert snapshot is not None
            self.group.replay(snapshot)
        self.group.loaded()
        self.carry_out(self.group.begin_sessions(self.now))

    def waiter(self, version: int) -> Waiter:
        waiter = Waiter(version)
        self.waiters.append(waiter)
        return waiter

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Any = ORDERS,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = NEWEST_JOIN,
        client_id: str = "app",
        reason: str | None = None,
    ) -> Waiter:
        request = JoinGroupRequest(
            group_id=GROUP_ID,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols],
            reason=reason,
        )
        caller = Caller(version, client_id, "/127.0.0.1")
        waiter = self.waiter(version)
        refusal = join_refusal(request, caller, self.settings)
        if refusal is not None:
            waiter.answers.append(refusal)
        else:
            self.carry_out(self.group.join(request, caller, waiter, self.now))
        return waiter

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
        version: int = NEWEST_SYNC,
    ) -> Waiter:
        request = SyncGroupRequest(
            group_id=GROUP_ID,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type if version >= 5 else None,
            protocol_name=protocol if version >= 5 else None,
            assignments=[
                SyncGroupRequestAssignment(name, part) for name, part in (assignments or {}).items()
            ],
        )
        waiter = self.waiter(version)
        refusal = sync_refusal(request, Caller(version, "app", "/127.0.0.1"))
        if refusal is not None:
            waiter.answers.append(refusal)
        else:
            self.carry_out(self.group.sync(request, waiter, self.now))
        return waiter

    def heartbeat(
        self, member_id: str, generation: int, *, instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(GROUP_ID, generation, member_id, instance)
        waiter = self.waiter(NEWEST_HEARTBEAT)
        self.carry_out(self.group.heartbeat(request, waiter, self.now))
        return waiter.error

    def leave(self, *members: str | LeaveGroupMember, version: int = NEWEST_LEAVE) -> Waiter:
        leaving = [LeaveGroupMember(one) if isinstance(one, str) else one for one in members]
        request = (
            LeaveGroupRequest(GROUP_ID, members=leaving)
            if version >= 3
            else LeaveGroupRequest(GROUP_ID, leaving[0].member_id)
        )
        waiter = self.waiter(version)
        caller = Caller(version, "app", "/127.0.0.1")
        self.carry_out(self.group.leave(request, caller, waiter, self.now))
        return waiter

    # What takes several requests

    def member_id(self, **join: Any) -> str:
        """Ask for a member id, as a dynamic member does first."""
        answer = self.join(**join).answer
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return str(answer.member_id)

    def members(self, count: int, **join: Any) -> list[str]:
        """Form the first generation out of new dynamic members, up to where they are to sync."""
        member_ids = [self.member_id(**join) for _ in range(count)]
        joins = [self.join(member_id, **join) for member_id in member_ids]
        self.advance(self.settings.initial_rebalance_delay_ms / 1000 * 2)
        assert [join.error for join in joins] == [ErrorCode.NONE] * count
        return member_ids

    def stable(self, count: int, **join: Any) -> list[str]:
        """Form a stable group; the first member leads."""
        member_ids = self.members(count, **join)
        self.sync_all(member_ids)
        return member_ids

    def sync_all(self, member_ids: list[str]) -> list[Waiter]:
        """Let the members fetch their assignments; the first of them leads."""
        generation = self.group.generation
        parts = {member_id: f"{generation}:{member_id}".encode() for member_id in member_ids}
        return [
            self.sync(member_id, generation, parts if member_id == member_ids[0] else None)
            for member_id in member_ids
        ]
