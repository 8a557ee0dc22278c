"""The most memory a broker has held: doing nothing, and after a gigabyte or two in and out."""

from __future__ import annotations

from bench.stage import Stage, data_topic, fill, read_back
from bench.usage import peak_memory_mb


def run(stage: Stage) -> dict[str, float]:
    with stage.brokers() as brokers:
        idle = peak_memory_mb(*brokers.pids)
        topic = data_topic(brokers, "memory")
        scale = stage.scale
        written = fill(brokers, topic, 1_000, scale.throughput_bytes, scale.small_records)
        read_back(brokers, topic, written)
        return {"idle": idle, "loaded": peak_memory_mb(*brokers.pids)}
