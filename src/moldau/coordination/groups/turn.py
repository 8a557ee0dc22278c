"""What one event of a group leads to, gathered while the group changes, then made an `Outcome`.

A group changes its members and timers before the runtime has written anything, and a refusal of
the log makes the runtime forget the whole outcome. So a turn knows which of its parts do not
depend on the record: those are named again in what happens after a refusal, which is told before
any other event. At most one record is written in a turn: the group's own.
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
    """session: of one member; join, sync: the time a rebalance has for either phase."""
    group_id: str
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class GroupNote:
    """An effect: a line for the log of the broker. The text may quote a client."""

    group_id: str
    text: str


class _Write(NamedTuple):
    record: StateRecord
    committed: Callable[[Turn], None] | None
    refused: Callable[[ErrorCode, Turn], None] | None


class _Promise(NamedTuple):
    """An answer that holds only if the record, where there is one, is written."""

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
        """Answer, whatever becomes of the record."""
        self._replies.append(Reply(ticket, response))

    def promise(
        self, ticket: Ticket, response: object, failed: Callable[[ErrorCode], object]
    ) -> None:
        """Answer once the record of this turn is committed; `failed` makes the other answer."""
        self._promises.append(_Promise(ticket, response, failed))

    def arm(self, key: GroupTimer, after_ms: float) -> None:
        """Set a timer."""
        self._timers.append(Timer(key, after_ms / 1000))

    def cancel(self, key: GroupTimer) -> None:
        """Forget a timer."""
        self._timers.append(TimerCancelled(key))

    def note(self, group_id: str, text: str) -> None:
        """Say in the log what happens and why."""
        self._notes.append(GroupNote(group_id, text))

    def write(
        self,
        record: StateRecord,
        committed: Callable[[Turn], None] | None = None,
        refused: Callable[[ErrorCode, Turn], None] | None = None,
    ) -> None:
        """Write the group's record; `refused` is told the code in the words of a coordinator."""
        invariant(self._write is None, "a group writes one record in a turn")
        self._write = _Write(record, committed, refused)

    def outcome(self, *, at_once: bool = False) -> Outcome:
        """Return all of it for the runtime; `at_once` where nothing in the log decides."""
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
