"""The network port: byte streams that can also carry regions of files.

`received(view)` comes in, `send(parts)` goes out. Implementations: `transport.sockets` (plain
sockets, `sendfile`) and `sim.network` (in memory, virtual time); TLS follows. Only they know how
a file region reaches the peer. Everything here happens on the event loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from moldau.base.files import Buffer, FileRegion
from moldau.base.memory_budget import MemoryAccount
from moldau.base.tuples import NamedTuple

Part = Buffer | FileRegion


class Address(NamedTuple):
    """One end of a stream."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Receiver(Protocol):
    """What a stream tells its owner."""

    def received(self, data: memoryview) -> int:
        """Take what has arrived and return how many bytes were used.

        The rest is presented again, with more behind it. The view is only valid during the call:
        keep a copy of what must live longer. Raising closes the stream.
        """
        ...

    def drained(self) -> None:
        """Bytes had to wait, and now everything handed to `send` has left; more is welcome."""
        ...

    def closed(self, error: Exception | None) -> None:
        """Learn that the stream is over: by the peer (None) or by an error. Called once, last."""
        ...


class Nobody:
    """Receives for a stream that has no owner: not yet, or refused on arrival."""

    def received(self, data: memoryview) -> int:
        """Drop what arrives."""
        return len(data)

    def drained(self) -> None:
        """Nobody waits."""

    def closed(self, error: Exception | None) -> None:
        """Nobody minds."""


class Stream(Protocol):
    """One connection."""

    @property
    def peer(self) -> Address:
        """The other end."""
        ...

    @property
    def local(self) -> Address:
        """This end."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes handed to `send` that the peer's window has not taken yet."""
        ...

    @property
    def memory(self) -> MemoryAccount:
        """What the peer makes us hold. The stream charges its own buffers to it."""
        ...

    def send(self, parts: Sequence[Part]) -> None:
        """Queue these parts, in order. Buffers must not change until `drained`."""
        ...

    def expect(self, size: int) -> None:
        """Say how many bytes the frame at the head needs, so that the buffer grows once."""
        ...

    def lend(self) -> Callable[[], None] | None:
        """Leave the buffer with the bytes that are being shown to the receiver, all of them.

        To be called from `received`, which has to use all it is shown. They stay as they are until
        what is returned is called, once. None if they will not: who needs them has to copy them.
        """
        ...

    def pause(self) -> None:
        """Stop reading: the peer will feel it."""
        ...

    def resume(self) -> None:
        """Read again; what is left over is presented at once, on a later turn of the loop."""
        ...

    def close(self) -> None:
        """Send what is queued, then close."""
        ...

    def abort(self) -> None:
        """Close now and forget what is queued."""
        ...


class Listener(Protocol):
    """An open port."""

    @property
    def address(self) -> Address:
        """Where it listens; the port is the real one also when 0 was asked for."""
        ...

    def close(self) -> None:
        """Accept no more; streams already accepted stay."""
        ...


Accept = Callable[[Stream], Receiver]
"""Makes the owner of a new stream. One that closes the stream at once is not told that it ended."""


class Network(Protocol):
    """One machine's network."""

    async def listen(self, host: str, port: int, accept: Accept) -> Listener:
        """Open a port; OSError says why it cannot be had."""
        ...

    async def connect(self, host: str, port: int, receiver: Accept) -> Stream:
        """Open a stream to a peer; OSError says why it cannot be had."""
        ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call once the streams that are ready are read, in this turn of the loop or the next.

        It is never called from within this call.
        """
        ...
