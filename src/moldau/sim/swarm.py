"""What a seed makes of a run: sizes, clients, and which faults happen at which rate.

Swarm testing: each run leaves most faults out and has some of them often, because a fault that is
always there hides what only happens in its absence.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from moldau.records.compression import Codec
from moldau.sim.workload.consumer import ConsumerPlan
from moldau.sim.workload.producer import ProducerPlan

FAULTS = (
    "kill",
    "crash point",
    "power cut",
    "power cut at a crash point",
    "orderly restart",
    "reset",
    "partition",
    "disk error",
    "disk full",
    "cold pages",
)


@dataclass(frozen=True)
class Swarm:
    """The settings of one run."""

    duration_s: float
    fault_mean_s: float
    """How long it takes on average until the next fault."""
    faults: tuple[str, ...]
    chunk_size_max: int
    reset_chance: float
    log_dirs: tuple[str, ...]
    broker: dict[str, str]
    topics: tuple[dict[str, str], ...]
    partition_count: int
    topics_change: bool
    """Topics are created and deleted on the way."""
    records_deleted: bool
    producers: tuple[ProducerPlan, ...]
    consumers: tuple[ConsumerPlan, ...]


def draw_swarm(chance: random.Random) -> Swarm:
    """Draw the settings of a run."""
    tiny = {
        "log.segment.bytes": str(chance.choice((2_000, 5_000, 20_000))),
        "log.index.interval.bytes": str(chance.choice((0, 300, 1_000, 4_096))),
        "log.index.size.max.bytes": str(chance.choice((48, 200, 10_000))),
    }
    intervals = {
        "log.retention.check.interval.ms": str(chance.choice((700, 3_000))),
        "log.flush.offset.checkpoint.interval.ms": str(chance.choice((400, 2_500, 60_000))),
        "log.segment.delete.delay.ms": str(chance.choice((0, 500, 60_000))),
        "max.incremental.fetch.session.cache.slots": str(chance.choice((1, 1000))),
    }
    return Swarm(
        duration_s=chance.uniform(4.0, 10.0),
        fault_mean_s=chance.choice((0.3, 0.8, 2.0)),
        faults=tuple(chance.sample(FAULTS, chance.randrange(1, 5))),
        chunk_size_max=chance.choice((64, 700, 16_384)),
        reset_chance=chance.choice((0.0, 0.0, 0.002, 0.01)),
        log_dirs=chance.choice((("/data",), ("/data", "/more"))),
        broker=tiny | intervals,
        topics=tuple(_draw_topic(chance) for _ in range(chance.randrange(1, 4))),
        partition_count=chance.randrange(1, 4),
        topics_change=chance.random() < 0.4,
        records_deleted=chance.random() < 0.3,
        producers=tuple(_draw_producer(chance) for _ in range(chance.randrange(1, 5))),
        consumers=tuple(_draw_consumer(chance) for _ in range(chance.randrange(1, 4))),
    )


def _draw_topic(chance: random.Random) -> dict[str, str]:
    configs: dict[str, str] = {}
    if chance.random() < 0.2:
        configs["retention.bytes"] = str(chance.choice((4_000, 15_000)))
    if chance.random() < 0.1:
        configs["retention.ms"] = "2000"
    if chance.random() < 0.3:
        configs["flush.ms"] = str(chance.choice((100, 1_500)))
    if chance.random() < 0.2:
        configs["flush.messages"] = chance.choice(("1", "1", "20"))
    if chance.random() < 0.15:
        configs["message.timestamp.type"] = "LogAppendTime"
    if chance.random() < 0.15:
        configs["compression.type"] = chance.choice(("gzip", "lz4", "zstd"))
    if chance.random() < 0.2:
        configs["segment.ms"] = "900"
    return configs


def _draw_producer(chance: random.Random) -> ProducerPlan:
    idempotent = chance.random() < 0.6
    return ProducerPlan(
        acks=-1 if idempotent else chance.choice((0, 1, -1)),
        idempotent=idempotent,
        in_flight=chance.choice((1, 5)),
        codec=chance.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4)),
        pause_s=chance.choice((0.02, 0.06, 0.3)),
    )


def _draw_consumer(chance: random.Random) -> ConsumerPlan:
    version = chance.choice((4, 6, 7, 12, 12, 13, 17, 18))
    return ConsumerPlan(
        version=version,
        session=version >= 7 and chance.random() < 0.6,
        committed_only=chance.random() < 0.3,
        max_bytes=chance.choice((100, 2_000, 100_000)),
        min_bytes=chance.choice((0, 1, 5_000)),
        max_wait_ms=chance.choice((20, 300)),
    )
