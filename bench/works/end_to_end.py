"""From a producer to a consumer that waits: what a record takes through all replicas."""

from __future__ import annotations

from bench.stage import Stage, data_topic, load, warm_up


def run(stage: Stage) -> dict[str, float]:
    with stage.brokers() as brokers:
        warm_up(brokers, stage.scale)
        topic = data_topic(brokers, "end-to-end", 1)
        count = stage.scale.latency_records
        measured = load(
            "deliver",
            address=brokers.address,
            topic=topic,
            size=100,
            warm_up=count // 2,
            count=count,
        )
    return {"p50": measured["p50"], "p99": measured["p99"]}
