"""Which sockets are ready: asked once a turn of the event loop, for all streams together.

asyncio makes a handle of every ready descriptor and runs it in its context, half a dozen Python
calls that cost a broker with many small requests a good part of its time. So the streams of a
network have an epoll of their own, and the event loop watches that one: when it wakes up, the
streams that are ready are called in a row.

After such a batch of streams come the callbacks that they left behind (`call_after_batch`). So
their small answers leave together. Sending to a process that sleeps wakes it up, at the sender's
cost; a client with many connections is then woken up once for several answers.

Where there is no epoll the event loop itself serves.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

Callback = Callable[[], None]

CALLED_TOGETHER: Final = 16
"""So many streams are called in a row: nearly all wake-ups are saved, and an answer waits for what
fifteen other streams have brought, at most."""


TURN_S: Final = 0.005
"""Streams are called for so long in one turn of the event loop; timers and signals come next."""


class Readiness(Protocol):
    """Calls back whenever a descriptor can be read from, or written to, until it is removed."""

    def add_reader(self, descriptor: int, callback: Callback, /) -> None:
        """Call whenever there is something to read, or the peer is gone."""
        ...

    def remove_reader(self, descriptor: int, /) -> object:
        """Call no more; harmless if nobody was called."""
        ...

    def add_writer(self, descriptor: int, callback: Callback, /) -> None:
        """Call whenever there is room to write, or the peer is gone."""
        ...

    def remove_writer(self, descriptor: int, /) -> object:
        """Call no more; harmless if nobody was called."""
        ...

    def call_after_batch(self, callback: Callback, /) -> None:
        """Call once, behind those who are being called in a row; at once if it is one or nobody."""
        ...

    def call_soon(self, callback: Callback, /) -> object:
        """Call once, behind those who are being called in a row; in the next turn if nobody is."""
        ...


def readiness_of(loop: asyncio.AbstractEventLoop) -> Readiness:
    """Return what watches the descriptors of many streams on this loop."""
    return EpollReadiness(loop) if hasattr(select, "epoll") else LoopReadiness(loop)


class LoopReadiness:
    """The event loop calls everybody by itself, so that nobody is ever called in a row."""

    __slots__ = ("add_reader", "add_writer", "call_soon", "remove_reader", "remove_writer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.add_reader = loop.add_reader
        self.remove_reader = loop.remove_reader
        self.add_writer = loop.add_writer
        self.remove_writer = loop.remove_writer
        self.call_soon = loop.call_soon

    def call_after_batch(self, callback: Callback) -> None:
        callback()


class _Watched(NamedTuple):
    """Who is called for a descriptor."""

    reader: Callback | None
    writer: Callback | None


_NOBODY = _Watched(None, None)


class EpollReadiness:
    """An epoll within that of the event loop. There while anything is watched."""

    __slots__ = ("_behind", "_calling", "_in_row", "_loop", "_poll", "_uncalled", "_watched")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._poll: select.epoll | None = None
        self._watched: dict[int, _Watched] = {}
        self._calling = False
        self._in_row = False
        """Whether more than one is being called: what one alone leaves behind need not wait."""
        self._behind: list[Callback] = []
        self._uncalled: list[tuple[int, int]] = []
        """Those whom the last turn had no time for: they come before all others."""

    def add_reader(self, descriptor: int, callback: Callback) -> None:
        self._watch(descriptor, _Watched(callback, self._of(descriptor).writer))

    def remove_reader(self, descriptor: int) -> None:
        self._watch(descriptor, _Watched(None, self._of(descriptor).writer))

    def add_writer(self, descriptor: int, callback: Callback) -> None:
        self._watch(descriptor, _Watched(self._of(descriptor).reader, callback))

    def remove_writer(self, descriptor: int) -> None:
        self._watch(descriptor, _Watched(self._of(descriptor).reader, None))

    def _of(self, descriptor: int) -> _Watched:
        return self._watched.get(descriptor, _NOBODY)

    def _watch(self, descriptor: int, watched: _Watched) -> None:
        """Have these called, and nobody else."""
        is_new = descriptor not in self._watched
        if watched == _NOBODY:
            if not is_new:
                self._forget(descriptor)
            return
        reads = 0 if watched.reader is None else select.EPOLLIN
        writes = 0 if watched.writer is None else select.EPOLLOUT
        poll = self._poll or self._begin()
        change = poll.register if is_new else poll.modify
        change(descriptor, reads | writes)
        self._watched[descriptor] = watched

    def _forget(self, descriptor: int) -> None:
        poll = self._poll
        assert poll is not None
        del self._watched[descriptor]
        with contextlib.suppress(OSError):  # the kernel forgets who was closed
            poll.unregister(descriptor)
        if not self._watched:
            self._poll = None
            self._uncalled = []
            self._loop.remove_reader(poll.fileno())
            poll.close()

    def _begin(self) -> select.epoll:
        poll = self._poll = select.epoll()
        self._loop.add_reader(poll.fileno(), self._ready)
        return poll

    def call_after_batch(self, callback: Callback) -> None:
        if self._in_row:
            self._behind.append(callback)
        else:
            callback()

    def call_soon(self, callback: Callback) -> None:
        if self._calling:
            self._behind.append(callback)
        else:
            self._loop.call_soon(callback)

    def _ready(self) -> None:
        """Call those who are ready. One of them may end another, or itself."""
        if self._poll is None:
            return
        events, self._uncalled = self._uncalled or self._poll.poll(0), []
        turn_end = self._loop.time() + TURN_S if len(events) > CALLED_TOGETHER else 0.0
        self._calling = True
        self._in_row = len(events) > 1
        try:
            for first in range(0, len(events), CALLED_TOGETHER):
                if first and self._loop.time() >= turn_end:
                    # The event loop calls again: what is not read keeps the epoll ready.
                    self._uncalled = events[first:]
                    return
                try:
                    self._call(events[first : first + CALLED_TOGETHER])
                finally:
                    self._call_those_behind()
        finally:
            self._calling = self._in_row = False

    def _call(self, events: list[tuple[int, int]]) -> None:
        """Call those who watch these descriptors."""
        of = self._watched.get
        # Errors and hang-ups concern both directions.
        reading, writing = ~select.EPOLLOUT, ~select.EPOLLIN
        for descriptor, event in events:
            try:
                if event & reading:
                    reader = of(descriptor, _NOBODY)[0]
                    if reader is not None:
                        reader()
                if event & writing:
                    writer = of(descriptor, _NOBODY)[1]
                    if writer is not None:
                        writer()
            except Exception as error:  # noqa: BLE001 - the others are not to suffer
                self._tell(f"a bug while serving descriptor {descriptor}", error)

    def _call_those_behind(self) -> None:
        """Call those who have asked for it in this row; they may bring more of them."""
        for callback in self._behind:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - the others are not to suffer
                self._tell(f"a bug behind a row of streams, in {callback}", error)
        self._behind.clear()

    def _tell(self, message: str, error: Exception) -> None:
        self._loop.call_exception_handler({"message": message, "exception": error})
