"""Produce as fast as one client can to replicas on all brokers, with librdkafka and with Java."""

from __future__ import annotations

from bench.scale import GB, MB, Scale
from bench.stage import Served, Stage, data_topic, fill, load, warm_up
from bench.usage import cpu_seconds

_RECORD_SIZE = 1_000
_JAVA_BATCH_BYTES = 16_384
"""The default of Java's producer."""


def run(stage: Stage) -> dict[str, float]:
    with stage.brokers() as brokers:
        warm_up(brokers, stage.scale, ["1kb"])
        return _librdkafka(brokers, stage.scale) | _java(brokers, stage.scale)


def _librdkafka(brokers: Served, scale: Scale) -> dict[str, float]:
    topic = data_topic(brokers, "librdkafka")
    before = cpu_seconds(*brokers.pids)
    written = fill(brokers, topic, _RECORD_SIZE, scale.throughput_bytes, scale.small_records)
    return _figures("librdkafka", written, written["bytes"], cpu_seconds(*brokers.pids) - before)


def _java(brokers: Served, scale: Scale) -> dict[str, float]:
    topic = data_topic(brokers, "java")
    count = scale.throughput_bytes // 2 // _RECORD_SIZE
    warm = count // 4
    before = cpu_seconds(*brokers.pids)
    written = load(
        "produce_java",
        address=brokers.address,
        topic=topic,
        size=_RECORD_SIZE,
        batch_size=_JAVA_BATCH_BYTES,
        warm_up=warm,
        count=count,
    )
    used = cpu_seconds(*brokers.pids) - before
    return _figures("java", written, (warm + count) * _RECORD_SIZE, used)


def _figures(client: str, timed: dict[str, float], amount: float, cpu: float) -> dict[str, float]:
    """Name the rate of what was timed, and the CPU of all that was written."""
    return {client: timed["bytes"] / timed["seconds"] / MB, f"{client}_cpu": cpu / (amount / GB)}
