"""One end of a simulated connection: what TCP does, with every freedom TCP has taken at random.

Bytes leave in pieces of drawn sizes as far as the peer's window allows, travel for a drawn time,
arrive in order, and open the window again only when the peer has read them and word of that has
travelled back. So `unsent` grows against a slow reader, a frame comes in as many pieces as chance
likes, and a connection that breaks does so in the middle of one.

A stream knows its other end and the wire between them, never the hosts' affairs.
"""

from __future__ import annotations

import errno
import functools
import random
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Protocol

from moldau.base.checks import invariant
from moldau.base.files import FileRegion, check_intact
from moldau.base.memory_budget import MemoryAccount, MemoryBudget
from moldau.base.network import Accept, Address, Part, Receiver

SMALL_CHUNK = 16
SMALL_CHUNK_CHANCE = 0.1
"""Now and then only a few bytes come: less than a frame's header."""

LATE_SEND_CHANCE = 0.25
"""How often the socket takes nothing at first, as a real one with a full buffer does."""

SCRIBBLE = b"\xdb"
"""What a view shows once its call is over, so that code that kept it is caught."""


class Signal(Enum):
    """What travels on a connection besides bytes."""

    OPENED = auto()
    FINISHED = auto()
    RESET = auto()


class Wire(Protocol):
    """What a stream needs of its network."""

    chance: random.Random
    memory: MemoryBudget
    window_size: int
    chunk_size_max: int

    def transmit(self, source: str, target: str, arrive: Callable[[], None]) -> None:
        """Let something arrive after the time it takes from one host to the other."""
        ...

    def later(self, act: Callable[[], None]) -> None:
        """Let something happen on this machine after a little while."""
        ...

    def soon(self, act: Callable[[], None]) -> None:
        """Let something happen on a later turn of the loop."""
        ...

    def delivered(self, source: Address, target: Address, size: int) -> bool:
        """Take note of bytes about to arrive; False if the connection breaks instead."""
        ...

    def ended(self, stream: SimStream) -> None:
        """Learn that a stream is over."""
        ...

    def is_up(self, host: str) -> bool:
        """Tell whether a host runs now."""
        ...


class SimStream:
    """One end of one connection."""

    def __init__(self, wire: Wire, local: Address, peer: Address) -> None:
        self._wire = wire
        self.local = local
        self.peer = peer
        self.unsent = 0
        self.over = False
        """Nothing comes or goes any more."""
        self.stale = False
        """Its machine went silently: what arrives is unanswered, and refused once it is back."""
        self.other: SimStream
        self._receiver: Receiver | None = None
        self._end_error: Exception | None = None
        self._outgoing: deque[Part] = deque()
        self._window_left = wire.window_size
        self._flight: deque[bytes | Signal] = deque()
        self._arrived = bytearray()
        self._left_over = bytearray()
        self._paused = False
        self._closing = False
        self._waited = False
        self._warming = False
        self._peer_finished = False
        self.opened: Callable[[], None] = _nothing
        """Called when the other end has accepted."""

    def join(self, other: SimStream) -> None:
        """Make two streams the ends of one connection."""
        self.other, other.other = other, self

    def start(self, accept: Accept) -> None:
        """Hand the stream to its owner and begin to read.

        One that closes it while accepting it knows, and is not told.
        """
        was_over = self.over
        self._receiver = receiver = accept(self)
        if was_over:
            receiver.closed(self._end_error)
        elif not self.over:
            self._wire.soon(self._read)

    # Sending

    def send(self, parts: Sequence[Part]) -> None:
        if self.over or self._closing:
            return
        idle = not self._outgoing
        for part in parts:
            size = _size(part)
            if size:
                self._outgoing.append(part)
                self.unsent += size
        if not idle or not self._outgoing:
            return
        if self._wire.chance.random() < LATE_SEND_CHANCE:
            self._waited = True
            self._wire.later(self._pump)
        else:
            self._pump()

    def _pump(self) -> None:
        """Send what the peer's window takes."""
        if self.over:
            return
        try:
            while self._outgoing and self._window_left and not self._warming:
                self._send_piece()
        except OSError as error:
            self._break_off(error)
            return
        if self._outgoing:
            self._waited = True
        elif self._closing:
            self._finish()
        elif self._waited:
            self._waited = False
            assert self._receiver is not None
            self._receiver.drained()

    def _send_piece(self) -> None:
        size = min(self._draw_chunk_size(), self._window_left)
        head = self._outgoing[0]
        if isinstance(head, FileRegion):
            size = min(size, head.size)
            check_intact(head)
            if not head.file.resident(head.position, size):
                self._warming = True
                self._wire.later(functools.partial(self._warm, head, size))
                return
            data = _read_exactly(head, size)
            rest: Part = FileRegion(head.file, head.position + size, head.size - size)
        else:
            data = bytes(head[:size])
            rest = memoryview(head)[size:]
        if _size(rest):
            self._outgoing[0] = rest
        else:
            self._outgoing.popleft()
        self.unsent -= len(data)
        self._window_left -= len(data)
        self._launch(data)

    def _draw_chunk_size(self) -> int:
        chance, size_max = self._wire.chance, self._wire.chunk_size_max
        if chance.random() < SMALL_CHUNK_CHANCE:
            size_max = min(size_max, SMALL_CHUNK)
        return 1 + chance.randrange(size_max)

    def _warm(self, region: FileRegion, size: int) -> None:
        self._warming = False
        if self.over:
            return
        try:
            region.file.warm(region.position, size)
        except OSError as error:
            self._break_off(error)
        else:
            self._pump()

    def _launch(self, item: bytes | Signal) -> None:
        self._flight.append(item)
        self._wire.transmit(self.local.host, self.peer.host, self._land)

    def _land(self) -> None:
        """Let the first of what is on its way arrive, whichever piece was due: order is kept."""
        if not self._flight:
            return
        item = self._flight.popleft()
        if isinstance(item, Signal):
            self.other.signalled(item)
        elif self._wire.delivered(self.local, self.peer, len(item)):
            self.other.take(item)
        else:
            self.reset()

    def announce(self) -> None:
        """Tell the side that asked for the connection that it is open."""
        self._launch(Signal.OPENED)

    def credit(self, size: int) -> None:
        """Learn that the peer has read some of what was sent."""
        self._window_left += size
        if self._outgoing:
            self._pump()

    @property
    def memory(self) -> MemoryAccount:
        """Simulated streams hold as much as they are sent: only work on answers is charged."""
        return MemoryAccount(self._wire.memory, self)

    def reading_is_blocked(self) -> bool:
        return self._paused

    def sending_is_blocked(self) -> bool:
        return self._warming

    # Receiving

    def take(self, data: bytes) -> None:
        if not self.over:
            self._arrived += data
            self._read()
        elif self.stale and self._wire.is_up(self.local.host):
            self._launch(Signal.RESET)

    def signalled(self, signal: Signal) -> None:
        if self.over:
            return
        if signal is Signal.OPENED:
            self.opened()
        elif signal is Signal.FINISHED:
            self._peer_finished = True
            self._read()
        else:
            self._end(_reset_error())

    def _read(self) -> None:
        if self.over or self._paused or self._receiver is None:
            return
        size = len(self._arrived)
        if size:
            self._left_over += self._arrived
            self._arrived.clear()
            word = functools.partial(self.other.credit, size)
            self._wire.transmit(self.local.host, self.peer.host, word)
            self._present(self._receiver)
        if self._peer_finished and not self._paused:
            self._end(None)

    def _present(self, receiver: Receiver) -> None:
        shown = bytearray(self._left_over)
        try:
            with memoryview(shown).toreadonly() as view:
                used = receiver.received(view)
        except Exception as error:  # noqa: BLE001 - by the port, raising closes the stream
            self._break_off(error)
            return
        finally:
            shown[:] = SCRIBBLE * len(shown)
        invariant(0 <= used <= len(shown), f"{used} of {len(shown)} received bytes used")
        del self._left_over[:used]

    def expect(self, size: int) -> None:
        """Nothing is to be prepared: simulated buffers grow by themselves."""

    def lend(self) -> None:
        """Bytes are never lent: who keeps them uncopied reads scribble."""

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._wire.soon(self._read_on)

    def _read_on(self) -> None:
        if self._left_over and not self._paused and not self.over and self._receiver is not None:
            self._present(self._receiver)
        self._read()

    # Ending

    def close(self) -> None:
        if not self.over:
            self._closing = True
            if not self._outgoing:
                self._finish()

    def abort(self) -> None:
        if not self.over:
            self._lose_some()
            self._launch(Signal.RESET)
            self._end(None)

    def reset(self) -> None:
        """Break the connection for both ends, with what is on its way."""
        self.break_down()
        self.other.break_down()

    def break_down(self) -> None:
        """Break one end."""
        self._flight.clear()
        self._end(_reset_error())

    def vanish(self, *, silent: bool) -> None:
        """End with its process, which hears nothing of it; the peer does unless it is silent."""
        if not self.over:
            self.over = True
            self.stale = silent
            self._outgoing.clear()
            self._lose_some()
            if not silent:
                self._launch(Signal.RESET)

    def refuse_peer(self) -> None:
        """Answer a peer that still talks to a machine that has started anew."""
        if self.other.awaits_word:
            self._launch(Signal.RESET)

    @property
    def awaits_word(self) -> bool:
        """Something was sent of which the peer has not said that it was read."""
        return not self.over and (self.unsent > 0 or self._window_left < self._wire.window_size)

    def _finish(self) -> None:
        self._launch(Signal.FINISHED)
        self._end(None)

    def _break_off(self, error: Exception) -> None:
        if not self.over:
            self._launch(Signal.RESET)
            self._end(error)

    def _lose_some(self) -> None:
        """Let some of what is on its way never arrive."""
        kept_count = self._wire.chance.randrange(len(self._flight) + 1)
        while len(self._flight) > kept_count:
            self._flight.pop()

    def _end(self, error: Exception | None) -> None:
        if self.over:
            return
        self.over = True
        self._end_error = error
        self._outgoing.clear()
        self.unsent = 0
        self._arrived.clear()
        self._left_over.clear()
        self._wire.ended(self)
        if self._receiver is not None:
            self._receiver.closed(error)


def _nothing() -> None:
    """Stand in until somebody wants to know."""


def _size(part: Part) -> int:
    return part.size if isinstance(part, FileRegion) else len(part)


def _read_exactly(region: FileRegion, size: int) -> bytes:
    data = region.file.read(region.position, size)
    if len(data) < size:
        message = f"{region.file.path} ended before a region that was promised"
        raise OSError(errno.EIO, message)
    return data


def _reset_error() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, "connection reset by peer")
