"""One simulated run: a seed, and everything that is decided by it.

Each purpose draws from a stream of its own, derived from the seed and a name, so that one more
draw in the network does not change what happens to the disk.
"""

from __future__ import annotations

import contextlib
import gc
import math
import random
from collections.abc import Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from moldau.sim.loop import SimLoop
from moldau.sim.trace import Trace

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000
"""When every run begins by the wall clock: 14 November 2023, after everything Kafka compares to."""

RUN_LIMIT_S = 3_600.0
"""Virtual seconds after which a run that was given no limit counts as stuck."""


class SimClock:
    """A machine's clock on virtual time. Wall time may be set wrong, as it is on real machines."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._started_s = loop.time()
        self._wrong_ms = 0.0
        self._drift = 0.0
        self._drifts_since_s = self._started_s

    def monotonic(self) -> float:
        return self._loop.time()

    def wall_ms(self) -> int:
        elapsed_s = self._loop.time() - self._started_s
        return EPOCH_MS + math.floor(elapsed_s * 1000 + self._wrong_ms + self._drifted_ms())

    def _drifted_ms(self) -> float:
        return (self._loop.time() - self._drifts_since_s) * 1000 * self._drift

    def jump(self, by_ms: int) -> None:
        """Set wall time forward, or back; the monotonic clock does not notice."""
        self._wrong_ms += by_ms
        self._loop.trace.note("clock jump", by_ms)

    def drift(self, rate: float) -> None:
        """Let wall time run faster from now on, or slower if the rate is below 0."""
        self._wrong_ms += self._drifted_ms()
        self._drifts_since_s, self._drift = self._loop.time(), rate
        self._loop.trace.note("clock drift", rate)


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """Leave it to the loop when garbage is collected."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class World:
    """The seed, the loop, the clock and the dice of one run. Use it in a `with` statement."""

    def __init__(self, seed: int | str, *, fifo: bool = False) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}
        self.loop = SimLoop(self.random("loop"), fifo=fifo)
        self.trace: Trace = self.loop.trace
        self.clock = SimClock(self.loop)

    def random(self, name: str) -> random.Random:
        """The stream of chance for one purpose; the same one each time it is asked for."""
        stream = self._streams.get(name)
        if stream is None:
            # A text is hashed with SHA-512 here, not with the interpreter's changing hash.
            stream = self._streams[name] = random.Random(f"{self.seed}/{name}")
        return stream

    def run(self, main: Coroutine[Any, Any, T], *, limit_s: float = RUN_LIMIT_S) -> T:
        """Run until `main` is done; what it started besides stays for the next run."""
        self.loop.deadline_s = self.loop.time() + limit_s
        try:
            with _collector_off():
                result = self.loop.run_until_complete(main)
                gc.collect(1)
            self.loop.raise_unhandled()
        finally:
            self.loop.deadline_s = math.inf
        return result

    def close(self) -> None:
        """Cancel whatever still runs."""
        if not self.loop.is_closed():
            self.loop.drop_everything()
            self.loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
