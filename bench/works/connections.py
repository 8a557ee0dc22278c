"""Many clients that each do little: what a connection costs in CPU and memory."""

from __future__ import annotations

from bench.stage import DATA_PARTITIONS, Stage, data_topic, load, warm_up
from bench.usage import cpu_seconds, peak_memory_mb


def run(stage: Stage) -> dict[str, float]:
    with stage.broker() as broker:
        warm_up(broker, stage.scale)
        topic = data_topic(broker, "connections")
        before = cpu_seconds(broker.pid)
        result = load(
            "many_connections",
            address=broker.address,
            topic=topic,
            partitions=DATA_PARTITIONS,
            connections=stage.scale.connections,
            seconds=stage.scale.connection_seconds,
        )
        cpu = cpu_seconds(broker.pid) - before
        return {
            "cpu": cpu * 1_000 / result["requests"],
            "p99": result["p99"],
            "memory": peak_memory_mb(broker.pid),
        }
