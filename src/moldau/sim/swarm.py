"""What a seed makes of a run: sizes, clients, and which faults happen at which rate.

Swarm testing: each run leaves most faults out and has some of them often, because a fault that is
always there hides what only happens in its absence.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from moldau.records.compression import Codec
from moldau.sim.workload import group_member, transactor
from moldau.sim.workload.committed_reader import ReaderPlan
from moldau.sim.workload.consumer import ConsumerPlan
from moldau.sim.workload.group_member import MemberPlan
from moldau.sim.workload.producer import ProducerPlan
from moldau.sim.workload.transactor import TransactorPlan

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
    "slow disk",
)


POWER_FAULTS = frozenset({"power cut", "power cut at a crash point"})


@dataclass(frozen=True)
class Coordination:
    """What coordinators and the cleaner have to do in a run: nothing, in many."""

    groups: tuple[tuple[MemberPlan, ...], ...] = ()
    committers: tuple[str, ...] = ()
    """By name of the group to which each commits."""
    transactors: tuple[TransactorPlan, ...] = ()
    readers: tuple[ReaderPlan, ...] = ()
    keyed_writers: int = 0
    """Of a compacted topic: the logs of coordinators are compacted, and so may others be."""
    keyed_configs: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.groups or self.committers or self.transactors or self.keyed_writers)


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
    coordination: Coordination = Coordination()
    crash_points: tuple[str, ...] = ()
    """The only ones at which the broker may crash; all that it can pass if there are none."""

    @property
    def settings(self) -> dict[str, str]:
        """The broker's settings.

        Without another replica what coordinators promise survives a power cut only if it is synced.
        """
        if self.coordination and not POWER_FAULTS.isdisjoint(self.faults):
            return self.broker | {"log.flush.interval.messages": "1"}
        return self.broker


def draw_swarm(chance: random.Random) -> Swarm:
    """Draw the settings of a run."""
    swarm = _draw_data(chance)
    if chance.random() < 0.5:
        return swarm
    settings = draw_coordinator_settings(chance)
    return replace(swarm, broker=swarm.broker | settings, coordination=draw_coordination(chance))


def draw_coordinator_settings(chance: random.Random) -> dict[str, str]:
    """Draw the broker's settings for coordinators: everything small and soon."""
    return {
        "offsets.topic.num.partitions": str(chance.choice((1, 3))),
        "offsets.topic.segment.bytes": str(chance.choice((1_500, 20_000))),
        "offsets.load.buffer.size": str(chance.choice((300, 5_000_000))),
        "transaction.state.log.num.partitions": str(chance.choice((1, 3))),
        "transaction.state.log.segment.bytes": str(chance.choice((1_500, 20_000))),
        "group.initial.rebalance.delay.ms": str(chance.choice((0, 200))),
        "group.min.session.timeout.ms": "100",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
        "log.cleaner.backoff.ms": str(chance.choice((100, 1_000))),
        "log.cleaner.min.cleanable.ratio": "0.1",
    }


def draw_coordination(chance: random.Random) -> Coordination:
    """Draw the work of coordinators: groups, transactions or both, and something to clean."""
    groups, transactions = chance.choice(((True, False), (False, True), (True, True)))
    return Coordination(
        tuple(
            tuple(_draw_member(chance) for _ in range(chance.randint(1, 4)))
            for _ in range(chance.randint(1, 2) if groups else 0)
        ),
        chance.choice((("plain",), ("plain", "plain"), ("plain", "plain", "other")))
        if groups
        else (),
        tuple(_draw_transactor(chance) for _ in range(chance.randint(1, 3) if transactions else 0)),
        tuple(_draw_reader(chance) for _ in range(chance.randint(1, 2) if transactions else 0)),
        keyed_writers=chance.choice((0, 1, 3)),
        keyed_configs=(
            ("delete.retention.ms", chance.choice(("0", "1500"))),
            ("min.compaction.lag.ms", chance.choice(("0", "0", "800"))),
        ),
    )


def _draw_member(chance: random.Random) -> MemberPlan:
    static = chance.random() < 0.3
    ages = (group_member.STATIC, group_member.NEW) if static else group_member.AGES
    return MemberPlan(
        chance.choice(ages),
        static,
        session_timeout_ms=chance.choice((300, 1_000, 3_000)),
        pause_s=chance.choice((0.02, 0.1)),
    )


def _draw_transactor(chance: random.Random) -> TransactorPlan:
    return TransactorPlan(
        chance.choice(tuple(transactor.Age)),
        timeout_ms=chance.choice((600, 2_000, 10_000)),
        pause_s=chance.choice((0.01, 0.1)),
        abandons=chance.random() < 0.2,
    )


def _draw_reader(chance: random.Random) -> ReaderPlan:
    return ReaderPlan(
        chance.choice((4, 6, 11, 12, 13, 17)),
        committed_only=chance.random() < 0.8,
        max_bytes=chance.choice((200, 2_000, 100_000)),
    )


def _draw_data(chance: random.Random) -> Swarm:
    """Draw everything but the work of coordinators."""
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
