"""One record at a time, from a producer through all replicas to a consumer that waits for it."""

from __future__ import annotations

from bench.stage import Stage
from bench.works.latency import measure


def run(stage: Stage) -> dict[str, float]:
    return measure(stage, "deliver")
