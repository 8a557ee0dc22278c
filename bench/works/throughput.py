"""Produce and fetch as fast as one client can, and what a gigabyte costs the broker in CPU."""

from __future__ import annotations

from tests.kafka_harness.broker import BrokerProcess

from bench.scale import GB, MB, Scale
from bench.stage import RECORD_SIZES, Stage, data_topic, fill, read_back, warm_up
from bench.usage import cpu_seconds


def run(stage: Stage) -> dict[str, float]:
    figures: dict[str, float] = {}
    with stage.broker() as broker:
        warm_up(broker, stage.scale)
        for name, size in RECORD_SIZES.items():
            figures |= _one_size(broker, stage.scale, name, size)
    return figures


def _one_size(broker: BrokerProcess, scale: Scale, name: str, size: int) -> dict[str, float]:
    """Write, then read back what was just written, which the page cache still holds."""
    topic = data_topic(broker, f"size-{name}")
    start = cpu_seconds(broker.pid)
    written = fill(broker, topic, size, scale.throughput_bytes, scale.small_records)
    middle = cpu_seconds(broker.pid)
    read = read_back(broker, topic, written)
    end = cpu_seconds(broker.pid)
    return {
        **_figures(f"produce_{name}", size, written, middle - start),
        **_figures(f"fetch_{name}", size, read, end - middle),
    }


def _figures(name: str, size: int, result: dict[str, float], cpu: float) -> dict[str, float]:
    # Where records are small it is their number that bounds a client, not their bytes.
    if size < 1_000:
        rate = result["records"] / result["seconds"] / 1_000
    else:
        rate = result["bytes"] / result["seconds"] / MB
    return {name: rate, f"{name}_cpu": cpu / (result["bytes"] / GB)}
