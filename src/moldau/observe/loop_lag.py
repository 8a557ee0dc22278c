"""How long the event loop was held up: measured, kept for the metrics page, and told of.

A tick is due every 50 ms, and comes late by as long as somebody held the loop. So every stall is
seen, but for up to one tick of its length, and nobody is known to have caused it. Therefore whoever
measures a piece of work anyway (a request, a slice of one) also notes it here if it took long: the
tick that follows then knows the whole length, and whom to name. So are full runs of the garbage
collector, on whichever thread they happen. Of a stall that nobody has noted it is told how long the
loop's thread was on the processor: all the time means work of the broker, none means the disk, or
others on the machine.

This knows neither requests nor connections: `who` is anything whose text names the cause.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

logger = logging.getLogger(__name__)

TICK_S = 0.05
"""Twenty wake-ups a second cost an idle broker less than a thousandth of a processor."""

NOTED_S: Final = 0.01
"""Work that holds the loop for longer is noted."""

WARNED_S = 1.0
"""Clients notice a stall of this length."""

WARNINGS_EVERY_S = 10.0
"""A broker that stalls all the time says so this often, and not for each stall."""

FULL_RUN = 2
"""The generation of the garbage collector that holds all that lives for long."""

RECENT_S = 60.0
"""How far back `recent` looks, at least; at most twice as far."""

LAG_BUCKETS_S: tuple[float, ...] = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class LoopLag:
    """The stalls of one event loop. Changed on that loop only."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        """Since the start."""
        self.seconds = 0.0
        self.buckets = [0] * (len(LAG_BUCKETS_S) + 1)
        """How many ticks were how late."""
        self.unnamed: list[float] = []
        """Times of work that took long, from places that cannot name the cause."""
        self._noted_s = 0.0
        self._who: object = None
        self._recent = [0.0, 0.0]
        self._window_end = 0.0
        self._quiet_until = 0.0
        self._collector_began = 0.0

    @property
    def recent_s(self) -> float:
        """The longest stall of the last minute or two."""
        return max(self._recent)

    def note(self, seconds: float, who: object) -> None:
        """Remember who held the loop for longest since the last tick."""
        if seconds > self._noted_s:
            self._noted_s = seconds
            self._who = who

    def collector_ran(self, phase: str, info: Mapping[str, int]) -> None:
        """Note a full run of the garbage collector; for `gc.callbacks`."""
        if info["generation"] < FULL_RUN:
            return
        if phase == "start":
            self._collector_began = time.perf_counter()
        else:
            took_s = time.perf_counter() - self._collector_began
            if took_s > NOTED_S:
                self.note(took_s, "a full run of the garbage collector")

    def tick(self, now: float, late_s: float, busy_s: float = 0.0) -> None:
        """Take in what happened since the last tick, and warn if it was long.

        `busy_s` is how long the loop's thread was on the processor meanwhile.
        """
        noted_s, who = self._noted_s, self._who
        self._noted_s, self._who = 0.0, None
        stall_s = max(late_s, noted_s)
        self.seconds += stall_s
        self.buckets[bisect_left(LAG_BUCKETS_S, stall_s)] += 1
        self.longest_s = max(self.longest_s, stall_s)
        if now >= self._window_end:
            self._recent = [0.0, self._recent[0]]
            self._window_end = now + RECENT_S
        self._recent[0] = max(self._recent[0], stall_s)
        if stall_s > WARNED_S and now >= self._quiet_until:
            self._quiet_until = now + WARNINGS_EVERY_S
            _warn(stall_s, noted_s, who, busy_s)


def _warn(stall_s: float, noted_s: float, who: object, busy_s: float) -> None:
    if noted_s * 2 > stall_s:
        logger.warning("the event loop stood still for %.2f s, for %s", stall_s, who)
        return
    if busy_s * 2 > stall_s:
        cause = "for work of the broker itself, or of many small requests"
    else:
        cause = "look at the disk, and at what else runs on this machine"
    logger.warning(
        "the event loop stood still for %.2f s, for no request that is known, "
        "%.2f s of it on the processor: %s",
        stall_s, busy_s, cause,
    )  # fmt: skip


async def watch_loop(lag: LoopLag) -> None:
    """Tick until cancelled."""
    loop = asyncio.get_running_loop()
    gc.callbacks.append(lag.collector_ran)
    try:
        while True:
            due, busy_s = loop.time() + TICK_S, time.thread_time()
            await asyncio.sleep(TICK_S)
            now = loop.time()
            lag.tick(now, max(0.0, now - due), time.thread_time() - busy_s)
    finally:
        gc.callbacks.remove(lag.collector_ran)
