"""Notices at once that another broker's process is gone: its connection ends, its port refuses.

One quiet connection is held to the other broker. The kernel ends it in the moment in which the
process ends. That alone says little, because connections end for many reasons. So a new one is
tried at once. A process that lives accepts it, even one that is paused: its kernel does that. If
the port refuses connections twice, nobody listens there any more. Silence is no evidence: a network
may be cut, and a session says when that has lasted too long.

It only looks. What follows from it is decided elsewhere (ADR 0017).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Final

from moldau.base.network import Address, Network, Nobody, Stream

SECOND_LOOK_S: Final = 0.02
"""Between two refusals that count as evidence."""

RETRY_S: Final = 0.5
"""Between later looks, and a short life of a connection."""

SHORT_LIVES_MAX: Final = 10

CONNECT_TIMEOUT_S: Final = 2.0


class Sign(Enum):
    """What is known of the other process."""

    UNKNOWN = "not reached yet"
    ALIVE = "connected"
    LOST = "the connection has ended"
    GONE = "the connection has ended, or never was, and the port refuses others"


class ProcessWatch:
    """Watches one process. Owned by the event loop's thread."""

    def __init__(self, network: Network, address: Address, changed: Callable[[], None]) -> None:
        """`changed` is called whenever the sign changes."""
        self._network = network
        self._address = address
        self._changed = changed
        self._sign = Sign.UNKNOWN
        self._ended = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    @property
    def sign(self) -> Sign:
        """What is known now."""
        return self._sign

    @property
    def is_suspicious(self) -> bool:
        """Whether the process was there and may have ended."""
        return self._sign in (Sign.LOST, Sign.GONE)

    def cancel(self) -> asyncio.Task[None]:
        """Look no more; the task ends soon."""
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        refusals = short_lives = 0
        while True:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    stream = await self._connect()
            except ConnectionRefusedError:
                refusals += 1
                if refusals >= 2:
                    self._enter(Sign.GONE)
                await asyncio.sleep(SECOND_LOOK_S if refusals < 2 else RETRY_S)
            except (OSError, TimeoutError, ValueError, OverflowError):
                # Also an address that no broker can have: nothing is known of it.
                refusals = 0
                await asyncio.sleep(RETRY_S)
            else:
                refusals = 0
                if await self._hold(stream):
                    short_lives = 0
                else:
                    # A kernel that clears up after a process ends its connections before its
                    # port. One that goes on like that is alive, and has too many connections.
                    await asyncio.sleep(min(RETRY_S, SECOND_LOOK_S * 2**short_lives))
                    short_lives = min(short_lives + 1, SHORT_LIVES_MAX)

    async def _connect(self) -> Stream:
        self._ended.clear()
        host, port = self._address
        return await self._network.connect(host, port, lambda _: _Quiet(self._stream_ended))

    async def _hold(self, stream: Stream) -> bool:
        """Hold a connection until it ends; tell whether that took a while."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self._enter(Sign.ALIVE)
        try:
            await self._ended.wait()
        finally:
            stream.abort()
        return loop.time() - began_s >= RETRY_S

    def _stream_ended(self) -> None:
        self._ended.set()
        if self._sign is Sign.ALIVE:
            # Told here and not by the task: whoever is asked in between must know already.
            self._enter(Sign.LOST)

    def _enter(self, sign: Sign) -> None:
        if sign is not self._sign:
            self._sign = sign
            self._changed()


class _Quiet(Nobody):
    """Receives nothing, and tells that the stream is over."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._told = ended

    def closed(self, error: Exception | None) -> None:
        del error
        self._told()
