"""`moldau collect files`: follows log files and sends what is written to them, at least once.

Two tasks on one loop: one reads and sends, and waits while the producer has no room; the other
looks once a second at what was acknowledged, writes that down, and says when nothing gets through.
What is decided about files stands in `gathering`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from moldau.base.clock import Clock
from moldau.client.producer import AsyncDelivery
from moldau.client.records import Header
from moldau.collect.complaints import Complaints
from moldau.collect.framing import Piece
from moldau.collect.gathering import Gathering, Tally
from moldau.collect.outages import Silence
from moldau.collect.outlet import Producer, flush_within, wait_for_room
from moldau.collect.positions import Positions
from moldau.collect.running import until_stopped
from moldau.collect.sources import Sources
from moldau.collect.state import StateFile
from moldau.collect.wanted import WantedFiles

COMMIT_S: Final = 1.0
"""How often positions are written down: what a crash repeats, against a sync of the disk."""

SCAN_PART: Final = 50
"""Looking for files takes at most this part of the time, however many folders there are."""

BREATH_TURNS: Final = 64
"""The other task may run after so many turns that found nothing to send."""

FILES_AT_HAND: Final = 1024
"""Files whose paths are kept as bytes: making them anew would cost as much as cutting a line."""

Key = Literal["path", "host", "none"]


@dataclass(frozen=True, slots=True)
class Labels:
    """What every record says about where it is from."""

    topic: str
    host: str
    key: Key = "path"
    headers: Sequence[Header] = ()

    def sender(self, producer: Producer) -> Callable[[str, Piece], AsyncDelivery]:
        """Return what sends a record of a file."""
        host = os.fsencode(self.host)
        own = tuple(self.headers)
        topic, send = self.topic, producer.send

        @lru_cache(maxsize=FILES_AT_HAND)
        def named(name: str) -> tuple[bytes, bytes | None]:
            path = os.fsencode(name)
            return path, {"path": path, "host": host, "none": None}[self.key]

        def send_piece(name: str, piece: Piece) -> AsyncDelivery:
            path, key = named(name)
            headers = (("host", host), ("path", path), ("position", b"%d" % piece.position), *own)
            if not piece.is_whole:
                headers = (*headers, ("size", b"%d" % piece.size))
            return send(topic, piece.value, key, headers=headers)

        return send_piece


class FileCollector:
    """One run of the collector; make another for the next."""

    def __init__(
        self,
        wanted: WantedFiles,
        labels: Labels,
        producer: Producer,
        sources: Sources,
        state: StateFile,
        clock: Clock,
        complaints: Complaints,
    ) -> None:
        self._producer = producer
        self._positions = Positions(state, complaints)
        self._clock = clock
        self._complaints = complaints
        self._gathering = Gathering(
            wanted, sources, labels.sender(producer), complaints, self._positions.load()
        )

    @property
    def tally(self) -> Tally:
        """What has happened so far."""
        return self._gathering.tally

    @property
    def file_count(self) -> int:
        """How many files are followed."""
        return self._gathering.file_count

    # Running

    async def run(self, stop: asyncio.Event, *, once: bool, grace_s: float) -> None:
        """Collect until told to stop, or with `once` until all there is has been delivered.

        Then what was read is delivered, if the brokers take it in time, and positions are written.
        Raises what makes going on useless. Cancelled, positions are written all the same.
        """
        try:
            await until_stopped(stop, self._read(once=once), self._keep())
        except asyncio.CancelledError:
            grace_s = 0.0
            raise
        finally:
            await self._finish(grace_s)

    async def _finish(self, grace_s: float) -> None:
        try:
            if self._gathering.fatal is None and not await flush_within(self._producer, grace_s):
                self._complaints.tell("not all was acknowledged in time: it will be sent again")
        finally:
            self._gathering.settle()
            await self._positions.save(self._gathering.entries())
            self._gathering.close()

    async def _read(self, *, once: bool) -> None:
        gathering, clock = self._gathering, self._clock
        turns = 0
        while True:
            now = clock.monotonic()
            if now >= gathering.scan_due:
                gathering.scan(now, clock.wall_ms())
                took_s = clock.monotonic() - now
                gathering.scan_due = max(gathering.scan_due, now + took_s * SCAN_PART)
            elif gathering.turn(now):
                await wait_for_room(self._producer)
                turns += 1
                if turns % BREATH_TURNS == 0:
                    await asyncio.sleep(0)
            elif once and await self._is_complete():
                return
            else:
                await asyncio.sleep(gathering.next_due - now)

    async def _is_complete(self) -> bool:
        """Tell whether everything there was has been read and delivered."""
        if not self._gathering.is_at_end:
            return False
        await self._producer.flush()
        self._gathering.settle()
        return self._gathering.is_idle and self._gathering.is_at_end

    async def _keep(self) -> None:
        """Write down what was delivered; ends with what makes going on useless."""
        gathering, silence = self._gathering, Silence()
        while True:
            await asyncio.sleep(COMMIT_S)
            gathering.settle()
            if gathering.fatal is not None:
                raise gathering.fatal
            line = silence.observe(
                self._clock.monotonic(),
                gathering.tally.delivered_count,
                is_waiting=not gathering.is_idle,
            )
            if line is not None:
                self._complaints.tell(line)
            await self._positions.save(self._gathering.entries())
