"""Operations that wait until the high watermark has reached what they appended.

A produce request with acks=all, an outcome of a coordinator and a transaction marker are told to
somebody only when every in-sync replica has them. Each waits here, at its partition, for one
offset. Operations complete in the order of their offsets, whenever the high watermark moves.

With one in-sync replica a batch is committed when it is appended. Then nothing ever waits here, and
a write costs neither a future nor a timer: whoever appended looks first (`committed_offset`).

An operation with a timeout has a client that waits for the answer. It fails when the time is up,
and when too few replicas are in sync. One without a timeout is work that must follow its commit
however long that takes. Only a lost leadership ends it: then the next leader decides what happens.
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
"""Told once: NONE when the offset is committed, else why that is not waited for any more.

It must not raise: others wait behind it."""

_OFFSET: Final = attrgetter("offset")


class Delayed:
    """One operation that waits."""

    __slots__ = ("_done", "_operations", "_timer", "offset")

    def __init__(
        self, operations: DelayedOperations, offset: int, done: Done, timeout_s: float | None
    ) -> None:
        self.offset = offset
        """Everything below has to be committed."""
        self._operations = operations
        self._done: Done | None = done
        self._timer: asyncio.TimerHandle | None = None
        if timeout_s is not None:
            self._timer = asyncio.get_running_loop().call_later(timeout_s, self._time_out)

    @property
    def has_timeout(self) -> bool:
        """Whether somebody waits for the answer, and not for ever."""
        return self._timer is not None

    def complete(self, code: ErrorCode) -> None:
        """Tell how the wait has ended, unless it was told or cancelled before."""
        done, self._done = self._done, None
        if self._timer is not None:
            self._timer.cancel()
        if done is not None:
            done(code)

    def cancel(self) -> None:
        """Wait no more, and tell nobody; harmless when the wait is over."""
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
        """By offset; those of one offset in the order in which they came. A retried batch waits
        for the place that it was given the first time, so that not every new one is the last."""
        self._committed_offset: int = -1
        self._is_completing = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, done: Done, timeout_s: float | None) -> Delayed:
        """Let an operation wait until everything below an offset is committed."""
        delayed = Delayed(self, offset, done, timeout_s)
        insort(self._waiting, delayed, key=_OFFSET)
        return delayed

    def discard(self, delayed: Delayed) -> None:
        """Forget an operation; harmless when it does not wait here."""
        number = bisect_right(self._waiting, delayed.offset, key=_OFFSET)
        while number and self._waiting[number - 1].offset == delayed.offset:
            number -= 1
            if self._waiting[number] is delayed:
                del self._waiting[number]
                return

    def complete(self, committed_offset: int) -> None:
        """Complete, in order, the operations whose offsets are committed now.

        One that is completed may append more, and so come back here before the others had their
        turn. They go first: the inner call only says how far the outer one may go.
        """
        self._committed_offset = committed_offset
        if self._is_completing:
            return
        self._is_completing = True
        try:
            while self._waiting and self._waiting[0].offset <= self._committed_offset:
                for delayed in self._take(self._committed_offset):
                    delayed.complete(ErrorCode.NONE)
        finally:
            self._is_completing = False

    def _take(self, committed_offset: int) -> list[Delayed]:
        count = bisect_right(self._waiting, committed_offset, key=_OFFSET)
        taken = self._waiting[:count]
        del self._waiting[:count]
        invariant(taken, "an operation that is due is among those waiting")
        return taken

    def fail(self, code: ErrorCode) -> None:
        """Fail the operations that have a timeout; the others wait on."""
        failed = [delayed for delayed in self._waiting if delayed.has_timeout]
        self._waiting = [delayed for delayed in self._waiting if not delayed.has_timeout]
        for delayed in failed:
            delayed.complete(code)

    def fail_all(self, code: ErrorCode) -> None:
        """Fail every operation: this broker does not decide any more what is committed."""
        failed, self._waiting = self._waiting, []
        for delayed in failed:
            delayed.complete(code)
