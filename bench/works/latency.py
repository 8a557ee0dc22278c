"""One record at a time: how long a producer waits for each acknowledgement."""

from __future__ import annotations

from bench.stage import Stage, data_topic, load, warm_up

_RECORD_SIZE = 100


def run(stage: Stage) -> dict[str, float]:
    return measure(stage, "one_at_a_time")


def measure(stage: Stage, load_name: str) -> dict[str, float]:
    """Run a load that sends one record after the other to warm brokers."""
    with stage.brokers() as brokers:
        warm_up(brokers, stage.scale)
        topic = data_topic(brokers, "latency", 1)
        count = stage.scale.latency_records
        measured = load(
            load_name,
            address=brokers.address,
            topic=topic,
            size=_RECORD_SIZE,
            warm_up=count // 2,
            count=count,
        )
    return {"p50": measured["p50"], "p99": measured["p99"]}
