"""One record at a time: what a caller waits for who needs each acknowledgement."""

from __future__ import annotations

from bench.stage import Stage, data_topic, load, warm_up


def run(stage: Stage) -> dict[str, float]:
    with stage.brokers() as brokers:
        warm_up(brokers, stage.scale)
        topic = data_topic(brokers, "latency", 1)
        count = stage.scale.latency_records
        measured = load(
            "one_at_a_time",
            address=brokers.address,
            topic=topic,
            size=100,
            warm_up=count // 2,
            count=count,
        )
    return {"p50": measured["p50"], "p99": measured["p99"]}
