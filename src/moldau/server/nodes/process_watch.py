"""Notices at once that another broker's process is gone: its connection ends, its port refuses.

One quiet connection is held to the other broker. The kernel ends it in the moment in which the
process ends. That alone says little, because connections end for many reasons. So a new one is
tried at once. A process that lives accepts it, even one that is paused: its kernel does that. If
the port refuses connections twice, nobody listens there any more. Silence is no evidence: a network
may be cut, and a session says when that has lasted too long.

It is a hint, though. Whoever has waited too long for an answer of the process has it probed: a
small request goes over the quiet connection, which is answered at once by a process that runs.

It only looks. What follows from it is decided elsewhere (ADR 0017).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Final

from moldau.base.network import Address, Network, Nobody, Stream
from moldau.protocol.messages.metadata import ApiVersionsRequest
from moldau.protocol.registry import API_VERSIONS_KEY, encode_request, find_api

SECOND_LOOK_S: Final = 0.02
"""Between two refusals that count as evidence."""

RETRY_S: Final = 0.5
"""Between later looks, and a short life of a connection."""

SHORT_LIVES_MAX: Final = 10

CONNECT_TIMEOUT_S: Final = 2.0

PROBE_S: Final = 0.2
"""A process that runs answers a probe in a millisecond; one whose loop is busy, in some tens."""

_PROBE: Final = encode_request(find_api(API_VERSIONS_KEY), 0, 0, "", ApiVersionsRequest())


class Sign(Enum):
    """What is known of the other process."""

    UNKNOWN = "not reached yet"
    ALIVE = "connected"
    SILENT = "connected, but a probe is not answered"
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
        self._stream: Stream | None = None
        self._probed: asyncio.TimerHandle | None = None
        """Set while a probe may still be answered in time."""
        self._ended = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    @property
    def sign(self) -> Sign:
        """What is known now."""
        return self._sign

    @property
    def is_suspicious(self) -> bool:
        """Whether the process was there and may have ended, or does not run."""
        return self._sign in (Sign.SILENT, Sign.LOST, Sign.GONE)

    def probe(self) -> None:
        """Ask the process for a sign of life; it is SILENT if there is none for a moment."""
        if self._sign is Sign.ALIVE and self._probed is None and self._stream is not None:
            self._stream.send(_PROBE)
            loop = asyncio.get_running_loop()
            self._probed = loop.call_later(PROBE_S, self._enter, Sign.SILENT)

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
        return await self._network.connect(
            host, port, lambda _: _Quiet(self._heard, self._stream_ended)
        )

    async def _hold(self, stream: Stream) -> bool:
        """Hold a connection until it ends; tell whether that took a while."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self._stream = stream
        self._enter(Sign.ALIVE)
        try:
            await self._ended.wait()
        finally:
            self._stream = None
            self._stop_waiting()
            stream.abort()
        return loop.time() - began_s >= RETRY_S

    def _heard(self) -> None:
        self._stop_waiting()
        if self._sign is Sign.SILENT:
            self._enter(Sign.ALIVE)

    def _stop_waiting(self) -> None:
        if self._probed is not None:
            self._probed.cancel()
            self._probed = None

    def _stream_ended(self) -> None:
        self._ended.set()
        self._stop_waiting()
        if self._sign in (Sign.ALIVE, Sign.SILENT):
            # Told here and not by the task: whoever is asked in between must know already.
            self._enter(Sign.LOST)

    def _enter(self, sign: Sign) -> None:
        if sign is not self._sign:
            self._sign = sign
            self._changed()


class _Quiet(Nobody):
    """Takes the answers to probes, whatever they say, and tells that the stream is over."""

    def __init__(self, heard: Callable[[], None], ended: Callable[[], None]) -> None:
        self._heard = heard
        self._told = ended

    def received(self, data: memoryview) -> int:
        self._heard()
        return len(data)

    def closed(self, error: Exception | None) -> None:
        del error
        self._told()
