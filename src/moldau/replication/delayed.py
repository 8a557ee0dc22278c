"""Operations that wait until the high watermark has passed the records that they appended.

A produce request with acks=all, an outcome of a coordinator or a transaction marker is answered
only when every in-sync replica has the records. Each waits here, at its partition, for one offset.
When the high watermark moves, operations complete in the order of their offsets.

With one in-sync replica a batch is committed when it is appended. Then no operation waits here, and
a write costs neither a future nor a timer: the caller checks `committed_offset` first.

An operation with a timeout has a client that waits for the answer. It fails when the time is up,
and when too few replicas are in sync. An operation without a timeout is work that must follow its
commit, however long that takes. It fails only when this broker loses the leadership or the
partition: then the next leader continues.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections.abc import Callable
from operator import attrgetter
from typing import Final, TypeAlias

from moldau.base.checks import invariant
from moldau.protocol.errors import ErrorCode

Done: TypeAlias = Callable[[ErrorCode], None]
"""Called once: with NONE when the offset is committed, else with an error.

It must not raise: operations behind it would not be completed."""

_OFFSET: Final = attrgetter("offset")
_NO_ERROR: Final = ErrorCode.NONE
"""As a global, for every batch: Python 3.11 looks a member of an enum up by a call."""


class Delayed:
    """One waiting operation."""

    __slots__ = ("_done", "_operations", "_timer", "offset")

    def __init__(
        self, operations: DelayedOperations, offset: int, done: Done, timeout_s: float | None
    ) -> None:
        self.offset = offset
        """The operation completes when everything below is committed."""
        self._operations = operations
        self._done: Done | None = done
        self._timer: asyncio.TimerHandle | None = None
        if timeout_s is not None:
            self._timer = asyncio.get_running_loop().call_later(timeout_s, self._time_out)

    @property
    def has_timeout(self) -> bool:
        """Whether a client waits for the answer."""
        return self._timer is not None

    def complete(self, code: ErrorCode) -> None:
        """Call `done`, unless it was called or the wait was cancelled."""
        # Cleared before the call: `done` may cancel this wait, or complete others.
        done, self._done = self._done, None
        if self._timer is not None:
            self._timer.cancel()
        if done is not None:
            done(code)

    def cancel(self) -> None:
        """Stop waiting without a call of `done`; does nothing when the wait is over."""
        self._done = None
        if self._timer is not None:
            self._timer.cancel()
        self._operations.discard(self)

    def _time_out(self) -> None:
        self._operations.discard(self)
        self.complete(ErrorCode.REQUEST_TIMED_OUT)


class DelayedOperations:
    """The operations that wait at one partition."""

    __slots__ = ("_committed_offset", "_is_completing", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[Delayed] = []
        """Sorted by offset; those of one offset in the order in which they were added. A retried
        batch waits for its first offset, so a new operation is not always the last one."""
        self._committed_offset: int = -1
        self._is_completing = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, done: Done, timeout_s: float | None) -> Delayed:
        """Let an operation wait until everything below an offset is committed."""
        delayed = Delayed(self, offset, done, timeout_s)
        waiting = self._waiting
        if not waiting or waiting[-1].offset <= offset:
            waiting.append(delayed)
        else:
            insort(waiting, delayed, key=_OFFSET)
        return delayed

    def discard(self, delayed: Delayed) -> None:
        """Remove an operation; does nothing if it does not wait here."""
        number = bisect_right(self._waiting, delayed.offset, key=_OFFSET)
        while number and self._waiting[number - 1].offset == delayed.offset:
            number -= 1
            if self._waiting[number] is delayed:
                del self._waiting[number]
                return

    def complete(self, committed_offset: int) -> None:
        """Complete, in order, the operations whose offsets are committed now.

        An operation that completes may append more records, which calls this again. The inner call
        only notes the new committed offset; the outer one completes the rest. So the order of
        offsets holds.
        """
        self._committed_offset = committed_offset
        if self._is_completing:
            return
        self._is_completing = True
        try:
            while self._waiting and self._waiting[0].offset <= self._committed_offset:
                for delayed in self._take(self._committed_offset):
                    delayed.complete(_NO_ERROR)
        finally:
            self._is_completing = False

    def _take(self, committed_offset: int) -> list[Delayed]:
        count = bisect_right(self._waiting, committed_offset, key=_OFFSET)
        taken = self._waiting[:count]
        del self._waiting[:count]
        invariant(taken, "an operation that is due is among those waiting")
        return taken

    def fail(self, code: ErrorCode) -> None:
        """Fail the operations with a timeout; the others keep waiting."""
        failed = [delayed for delayed in self._waiting if delayed.has_timeout]
        self._waiting = [delayed for delayed in self._waiting if not delayed.has_timeout]
        for delayed in failed:
            delayed.complete(code)

    def fail_all(self, code: ErrorCode) -> None:
        """Fail every operation: this broker no longer decides what is committed."""
        failed, self._waiting = self._waiting, []
        for delayed in failed:
            delayed.complete(code)
