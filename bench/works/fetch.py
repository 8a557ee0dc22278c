"""Fetch from the page cache, by a broker whose code for it is hot.

`throughput` reads each size once, after producing it. Here the same records are read in every
round, and were read twice before: a JVM has nothing left to compile. 100 B records make up as many
bytes as the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.scale import GB, MB
from bench.stage import RECORD_SIZES, Stage, data_topic, fill, read_back
from bench.usage import cpu_seconds

_READS_BEFORE = 2


@contextmanager
def prepared(stage: Stage) -> Iterator[Callable[[], dict[str, float]]]:
    with stage.broker() as broker:
        filled: dict[str, tuple[str, dict[str, float]]] = {}
        for name, size in RECORD_SIZES.items():
            topic = data_topic(broker, f"size-{name}")
            filled[name] = (
                topic,
                fill(broker, topic, size, stage.scale.throughput_bytes, sys.maxsize),
            )
            for _ in range(_READS_BEFORE):
                read_back(broker, *filled[name])

        def measure() -> dict[str, float]:
            figures: dict[str, float] = {}
            for name, contents in filled.items():
                before = cpu_seconds(broker.pid)
                read = read_back(broker, *contents)
                used = cpu_seconds(broker.pid) - before
                figures |= {
                    f"{name}_rate": read["bytes"] / read["seconds"] / MB,
                    f"{name}_cpu": used / (read["bytes"] / GB),
                }
            return figures

        yield measure
