"""`moldau collect metrics`: measures a machine at a steady beat and sends what it found.

Samples are taken at whole multiples of the interval, on the clock that all machines share, so that
series of many hosts fit together. Rates are over the time that really passed. What is decided about
values stands in the pure modules beside this one.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from moldau.base.clock import Clock
from moldau.client.producer import AsyncDelivery
from moldau.collect.complaints import Complaints
from moldau.collect.framing import Framing, Piece
from moldau.collect.gathering import Gathering
from moldau.collect.metrics.access_logs import AccessSamples
from moldau.collect.metrics.host import HostSamples, ProcessSamples
from moldau.collect.metrics.readings import Machine
from moldau.collect.metrics.samples import Sample, encode
from moldau.collect.outages import Silence
from moldau.collect.outlet import Producer, flush_within, wait_for_room
from moldau.collect.positions import Positions
from moldau.collect.running import until_stopped
from moldau.collect.sources import Sources
from moldau.collect.state import Entry
from moldau.collect.wanted import WantedFiles

WATCH_S: Final = 1.0
"""How often it is looked at what was acknowledged."""

LINE_SIZE_MAX: Final = 65_536
"""No web server writes longer lines: it refuses such requests."""

SAMPLES: Final = "samples"
"""What complaints about samples are kept under; it is no path."""

MACHINE: Final = "machine"
"""What complaints about measuring are kept under; it is no path."""

TURNS: Final = 64
"""Turns of reading access logs before other tasks may run."""


class Beat:
    """One interval, as its lines see it: they are delivered when all its samples are."""

    def __init__(self) -> None:
        self._sent: Sequence[AsyncDelivery] | None = None

    def end(self, sent: Sequence[AsyncDelivery]) -> None:
        """Take note of the samples that were made of it."""
        self._sent = sent

    def done(self) -> bool:
        """Tell whether it is over and known of all samples what became of them."""
        return self._sent is not None and all(one.done() for one in self._sent)

    def exception(self) -> Exception | None:
        """Return why one of its samples failed; None if none did."""
        errors = (one.exception() for one in self._sent or ())
        return next((error for error in errors if error is not None), None)


class AccessLog:
    """The access logs of one service, from where the last run left them, or from their ends on.

    Lines of a beat whose samples were not delivered are read and counted again.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        samples: AccessSamples,
        sources: Sources,
        complaints: Complaints,
        saved: Sequence[Entry] | None = None,
    ) -> None:
        own = None
        if saved is not None:
            own = [entry for entry in saved if entry.service == samples.service]
        wanted = WantedFiles(patterns, Framing(LINE_SIZE_MAX), from_end=True)
        self.samples = samples
        self.gathering = Gathering(wanted, sources, self._count, complaints, own)
        self._beat = Beat()

    def _count(self, name: str, piece: Piece) -> Beat:
        del name
        self.samples.add(piece.value)
        return self._beat

    def read(self, now: float, now_ms: int) -> bool:
        """Count some of what is there; tell whether there may be more."""
        if now >= self.gathering.scan_due:
            self.gathering.scan(now, now_ms)
            self.gathering.settle()
        return all(self.gathering.turn(now) for _ in range(TURNS))

    def end_beat(self, sent: Sequence[AsyncDelivery]) -> None:
        """Take note of the samples of what was counted; what is read from now on makes others."""
        self._beat.end(sent)
        self._beat = Beat()

    def entries(self) -> list[Entry]:
        """Return up to where requests have been delivered, to be written down."""
        self.gathering.settle()
        service = self.samples.service
        return [entry._replace(service=service) for entry in self.gathering.entries()]


@dataclass(slots=True)
class Measured:
    """What is measured; each part may be left out."""

    machine: Machine | None = None
    processes: ProcessSamples | None = None
    access_logs: Sequence[AccessLog] = ()
    host: HostSamples = field(default_factory=HostSamples)
    refusal: OSError | None = None
    """Why the machine, or its processes, could not be measured the last time."""

    def observe(self, time_s: float, interval_s: float) -> list[Sample]:
        """Take samples of everything that the system lets us see."""
        samples: list[Sample] = []
        self.refusal = None
        if self.machine is not None:
            try:
                samples += self.host.observe(time_s, self.machine.host())
                if self.processes is not None:
                    samples += self.processes.observe(time_s, self.machine.processes())
            except OSError as error:
                self.refusal = error
        for log in self.access_logs:
            samples += log.samples.take(interval_s)
        return samples


class MetricsCollector:
    """One run of the collector."""

    def __init__(
        self,
        topic: str,
        host: str,
        measured: Measured,
        producer: Producer,
        clock: Clock,
        complaints: Complaints,
        positions: Positions | None = None,
    ) -> None:
        self.delivered_count = 0
        self.lost_count = 0
        self._topic = topic
        self._host = host
        self._measured = measured
        self._producer = producer
        self._clock = clock
        self._complaints = complaints
        self._positions = positions
        self._underway: deque[AsyncDelivery] = deque()

    async def run(
        self, stop: asyncio.Event, *, interval_ms: int, rounds: int | None, grace_s: float
    ) -> None:
        """Measure until told to stop, or so many times; then see to it that all is delivered.

        Raises what makes going on useless. Cancelled, what was not acknowledged is given up.
        """
        try:
            await self._begin()
            await until_stopped(stop, self._measure(interval_ms, rounds), self._watch())
        except asyncio.CancelledError:
            grace_s = 0.0
            raise
        finally:
            await self._finish(grace_s)

    async def _begin(self) -> None:
        """Find the access logs, and write down where counting begins before anything is counted."""
        for log in self._logs:
            log.gathering.scan(self._clock.monotonic(), self._clock.wall_ms())
        await self._save()

    async def _finish(self, grace_s: float) -> None:
        try:
            if not await flush_within(self._producer, grace_s):
                self._complaints.tell("not all samples were acknowledged in time")
            self._sweep()
        finally:
            await self._save()
            for log in self._logs:
                log.gathering.close()

    async def _measure(self, interval_ms: int, rounds: int | None) -> None:
        clock = self._clock
        self._observe(clock.monotonic(), 1.0)  # rates are known from the second look on
        await self._read_logs()
        last_s = clock.monotonic()
        # Not the very next beat if that is at hand: rates over a moment say nothing.
        due_ms = _next_beat(clock.wall_ms() + interval_ms // 2, interval_ms)
        while rounds is None or rounds > 0:
            due_ms = await self._wait(due_ms, interval_ms)
            now_s = clock.monotonic()
            passed_s, last_s = now_s - last_s, now_s
            self._send(self._observe(now_s, passed_s), due_ms, passed_s)
            await wait_for_room(self._producer)
            due_ms = _next_beat(clock.wall_ms(), interval_ms)
            rounds = None if rounds is None else rounds - 1

    def _observe(self, time_s: float, interval_s: float) -> list[Sample]:
        """Take samples; what cannot be measured is said, and the rest goes on."""
        samples = self._measured.observe(time_s, interval_s)
        refusal = self._measured.refusal
        if refusal is None:
            self._complaints.withdraw(MACHINE, "this machine can be measured again")
        else:
            self._complaints.say(MACHINE, f"cannot measure this machine: {refusal}")
        return samples

    async def _wait(self, due_ms: int, interval_ms: int) -> int:
        """Read access logs until a beat is due; return its time, earlier if clocks went back.

        By the time that was meant first nothing would be measured for as long as they went back.
        """
        while (left_ms := due_ms - self._clock.wall_ms()) > 0:
            if left_ms > 2 * interval_ms:
                due_ms = _next_beat(self._clock.wall_ms(), interval_ms)
                self._complaints.tell("the clock was set back; samples go on by its new time")
                continue
            await asyncio.sleep(min(left_ms / 1000, self._reading_s()))
            await self._read_logs()
        return due_ms

    def _reading_s(self) -> float:
        """Return how long access logs may wait to be looked at again."""
        now = self._clock.monotonic()
        return max(0.0, min((log.gathering.next_due - now for log in self._logs), default=3600.0))

    @property
    def _logs(self) -> Sequence[AccessLog]:
        return self._measured.access_logs

    async def _read_logs(self) -> None:
        unread = list(self._logs)
        while unread:
            now, now_ms = self._clock.monotonic(), self._clock.wall_ms()
            unread = [log for log in unread if log.read(now, now_ms)]
            await asyncio.sleep(0)

    def _send(self, samples: Sequence[Sample], time_ms: int, interval_s: float) -> None:
        key = os.fsencode(self._host)
        sent: list[AsyncDelivery] = []
        for sample in samples:
            value = encode(sample, self._host, time_ms, round(interval_s, 3))
            sent.append(self._producer.send(self._topic, value, key, timestamp_ms=time_ms))
            self._underway.append(sent[-1])
        for log in self._logs:
            log.end_beat(sent)

    # What becomes of samples

    async def _watch(self) -> None:
        silence = Silence()
        while True:
            await asyncio.sleep(WATCH_S)
            self._sweep()
            line = silence.observe(
                self._clock.monotonic(), self.delivered_count, is_waiting=bool(self._underway)
            )
            if line is not None:
                self._complaints.tell(line)
            await self._save()

    async def _save(self) -> None:
        """Write down up to where requests have been delivered, if anybody wants to know."""
        if self._positions is not None:
            await self._positions.save([entry for log in self._logs for entry in log.entries()])

    def _sweep(self) -> None:
        """Take note of what was acknowledged; raise what makes going on useless."""
        while self._underway and self._underway[0].done():
            error = self._underway.popleft().exception()
            if error is None:
                self.delivered_count += 1
                self._complaints.withdraw(SAMPLES)
                continue
            self.lost_count += 1
            if not error.retriable:
                raise error
            self._complaints.say(SAMPLES, f"samples were lost: {error}")


def _next_beat(now_ms: int, interval_ms: int) -> int:
    return (now_ms // interval_ms + 1) * interval_ms
