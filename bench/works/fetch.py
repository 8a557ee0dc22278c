"""Fetch from the page cache, by a broker whose code for it is hot.

`throughput` reads each size once, after producing it. Here every size is read twice before it is
timed, and 100 B records make up as many bytes as the others: a JVM has nothing left to compile.
"""

from __future__ import annotations

import sys

from bench.scale import GB, MB
from bench.stage import RECORD_SIZES, Stage, data_topic, fill, read_back
from bench.usage import cpu_seconds

_READS_BEFORE = 2


def run(stage: Stage) -> dict[str, float]:
    figures: dict[str, float] = {}
    with stage.broker() as broker:
        for name, size in RECORD_SIZES.items():
            topic = data_topic(broker, f"size-{name}")
            written = fill(broker, topic, size, stage.scale.throughput_bytes, sys.maxsize)
            for _ in range(_READS_BEFORE):
                read_back(broker, topic, written)
            before = cpu_seconds(broker.pid)
            read = read_back(broker, topic, written)
            used = cpu_seconds(broker.pid) - before
            figures |= {
                f"{name}_rate": read["bytes"] / read["seconds"] / MB,
                f"{name}_cpu": used / (read["bytes"] / GB),
            }
    return figures
