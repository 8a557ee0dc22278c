"""Collects the replies, timers and record of one event while a group changes; makes an `Outcome`.

A group changes its members and timers before the runtime appends the record. If the log refuses the
record, the runtime drops the whole outcome. So a turn separates the parts that depend on the record
(`promise`) from those that do not (`reply`, timers, notes). After a refusal the latter are part of
the replacing outcome, which the runtime carries out before any other event. A turn writes at most
one record: the group's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from moldau.base.checks import invariant
from moldau.coordination.outcome import (
    NOTHING,
    Now,
    Outcome,
    Reply,
    StateRecord,
    Ticket,
    Timer,
    TimerCancelled,
)
from moldau.coordination.refusals import coordinator_error
from moldau.protocol.errors import ErrorCode


class GroupTimer(NamedTuple):
    """The key of a timer that belongs to a group."""

    kind: Literal["session", "join", "sync"]
    """session: of one member; join, sync: the time limit of that phase of a rebalance."""
    group_id: str
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class GroupNote:
    """An effect: a line for the broker's log. The text may quote a client."""

    group_id: str
    text: str


class _Write(NamedTuple):
    record: StateRecord
    committed: Callable[[Turn], None] | None
    refused: Callable[[ErrorCode, Turn], None] | None


class _Promise(NamedTuple):
    """An answer that is true only if the record of this turn, if there is one, is committed."""

    ticket: Ticket
    response: Any
    failed: Callable[[ErrorCode], Any]


class Turn:
    """Replies, timers, notes and the one record of an event."""

    __slots__ = ("_notes", "_promises", "_replies", "_timers", "_write", "now")

    def __init__(self, now: Now) -> None:
        self.now = now
        self._replies: list[Reply] = []
        self._promises: list[_Promise] = []
        self._timers: list[Timer | TimerCancelled] = []
        self._notes: list[GroupNote] = []
        self._write: _Write | None = None

    def reply(self, ticket: Ticket, response: object) -> None:
        """Answer, also if the log refuses the record."""
        self._replies.append(Reply(ticket, response))

    def promise(
        self, ticket: Ticket, response: object, failed: Callable[[ErrorCode], object]
    ) -> None:
        """Answer once the record of this turn is committed; `failed` answers after a refusal."""
        self._promises.append(_Promise(ticket, response, failed))

    def arm(self, key: GroupTimer, after_ms: float) -> None:
        """Set a timer."""
        self._timers.append(Timer(key, after_ms / 1000))

    def cancel(self, key: GroupTimer) -> None:
        """Cancel a timer."""
        self._timers.append(TimerCancelled(key))

    def note(self, group_id: str, text: str) -> None:
        """Log what happens and why."""
        self._notes.append(GroupNote(group_id, text))

    def write(
        self,
        record: StateRecord,
        committed: Callable[[Turn], None] | None = None,
        refused: Callable[[ErrorCode, Turn], None] | None = None,
    ) -> None:
        """Write the group's record.

        `committed` runs after the commit. Other events may have changed the group meanwhile, so it
        must check state and generation again. `refused` gets the error that clients get.
        """
        # The callbacks of a first record would be lost with it.
        invariant(self._write is None, "a group writes one record in a turn")
        self._write = _Write(record, committed, refused)

    def outcome(self, *, at_once: bool = False) -> Outcome:
        """Return the outcome of this turn; `at_once` if no record decides about its replies."""
        replies = self._replies + [Reply(made.ticket, made.response) for made in self._promises]
        if self._write is None:
            if not (replies or self._timers or self._notes):
                return NOTHING
            return Outcome(
                replies=replies, timers=self._timers, effects=self._notes, at_once=at_once
            )
        return Outcome(
            records=(self._write.record,),
            replies=replies,
            timers=self._timers,
            effects=self._notes,
            then=None if self._write.committed is None else self._then,
            refused=self._refused,
        )

    def _then(self, now: Now) -> Outcome:
        turn = Turn(now)
        assert self._write is not None
        assert self._write.committed is not None
        self._write.committed(turn)
        return turn.outcome()

    def _refused(self, code: ErrorCode, now: Now) -> Outcome:
        told = coordinator_error(code)
        turn = Turn(now)
        turn._replies = [*self._replies]
        turn._timers = [*self._timers]
        turn._notes = [*self._notes]
        for made in self._promises:
            turn.reply(made.ticket, made.failed(told))
        assert self._write is not None
        if self._write.refused is not None:
            self._write.refused(told, turn)
        return turn.outcome()
