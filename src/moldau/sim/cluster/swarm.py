"""The settings that a seed draws for a cluster: brokers, time-outs, clients and faults.

All time-outs are short, so that a run of half a virtual minute sees sessions end and ISRs change.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from moldau.sim.swarm import Coordination, draw_coordination, draw_coordinator_settings
from moldau.sim.workload.committed_reader import ReaderPlan


@dataclass(frozen=True)
class WriterPlan:
    """What kind of writer it is."""

    acks: int
    idempotent: bool
    in_flight: int
    pause_s: float


@dataclass(frozen=True)
class TopicPlan:
    """One topic of a run."""

    name: str
    partition_count: int
    replication_factor: int
    min_insync_replicas: int
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ClusterSwarm:
    """The settings of one run."""

    broker_count: int
    duration_s: float
    fault_mean_s: float
    """How long it takes on average until the next fault."""
    faults: tuple[str, ...]
    fault_length_s: float
    """How long a fault lasts on average."""
    chunk_size_max: int
    reset_chance: float
    broker: dict[str, str]
    topics: tuple[TopicPlan, ...]
    writers: tuple[WriterPlan, ...]
    reader_count: int
    topics_change: bool = False
    """A topic is created and deleted on the way, over and over."""
    coordination: Coordination = field(default_factory=Coordination)

    @property
    def clocks_are_wrong(self) -> bool:
        return not {"clock jump", "clock drift"}.isdisjoint(self.faults)

    @property
    def session_s(self) -> float:
        """How long a broker may be silent before it counts as dead."""
        return int(self.broker["broker.session.timeout.ms"]) / 1000

    @property
    def lag_s(self) -> float:
        """How long a follower may lag before its leader asks for an ISR without it."""
        return int(self.broker["replica.lag.time.max.ms"]) / 1000


def draw_cluster_swarm(chance: random.Random, faults: Sequence[str]) -> ClusterSwarm:
    """Draw the settings of a run, and some of the faults; every other run has coordinators."""
    swarm = _draw_data(chance, faults)
    if chance.random() < 0.5:
        return swarm
    return replace(
        swarm,
        broker=swarm.broker | draw_coordinator_settings(chance) | _COORDINATED,
        coordination=_draw_coordination(chance),
    )


def with_more_faults(
    swarm: ClusterSwarm, chance: random.Random, faults: Sequence[str]
) -> ClusterSwarm:
    """Return the settings of a run with some of these faults beside the others."""
    more = chance.sample(faults, chance.randrange(1, 5))
    return replace(swarm, faults=(*swarm.faults, *more))


def with_quorum(
    swarm: ClusterSwarm, chance: random.Random, rare_faults: Sequence[str]
) -> ClusterSwarm:
    """Return the settings of a run with a quorum: its time-outs, and how often it has snapshots.

    One of the rare faults is added.
    """
    faults = (*swarm.faults, chance.choice(rare_faults))
    return replace(swarm, faults=faults, broker=swarm.broker | _draw_quorum(chance))


def _draw_quorum(chance: random.Random) -> dict[str, str]:
    quorum = "controller.quorum."
    return {
        f"{quorum}election.timeout.ms": str(chance.choice((200, 500, 1_000))),
        f"{quorum}fetch.timeout.ms": str(chance.choice((400, 1_000, 2_000))),
        f"{quorum}request.timeout.ms": str(chance.choice((400, 1_000, 2_000))),
        f"{quorum}election.backoff.max.ms": str(chance.choice((100, 1_000))),
        f"{quorum}fetch.max.bytes": str(chance.choice((200, 1_000, 1_048_576))),
        "metadata.log.max.record.bytes.between.snapshots": str(
            chance.choice((1_000, 3_000, 20_971_520))
        ),
        "metadata.max.retention.bytes": str(chance.choice((1, 1, 104_857_600))),
    }


_COORDINATED = {"min.insync.replicas": "2", "transaction.state.log.min.isr": "2"}


def _draw_coordination(chance: random.Random) -> Coordination:
    """Draw groups and transactions; a coordinator may be away for as long as a session."""
    drawn = draw_coordination(chance)
    return replace(
        drawn,
        groups=tuple(
            tuple(member._replace(session_timeout_ms=3_000, pause_s=0.1) for member in group)
            for group in drawn.groups[:1]
        ),
        transactors=tuple(
            one._replace(timeout_ms=chance.choice((4_000, 10_000)), pause_s=0.1)
            for one in drawn.transactors[:2]
        ),
        readers=tuple(
            ReaderPlan(chance.choice((12, 13, 17)), one.committed_only, one.max_bytes)
            for one in drawn.readers[:1]
        ),
        keyed_writers=0,
    )


def _draw_data(chance: random.Random, faults: Sequence[str]) -> ClusterSwarm:
    """Draw everything but the work of coordinators."""
    broker_count = chance.choice((3, 3, 3, 4, 5))
    session_ms = chance.choice((600, 1_000, 3_000))
    lag_ms = chance.choice((400, 1_000, 3_000))
    return ClusterSwarm(
        broker_count=broker_count,
        duration_s=chance.uniform(20.0, 30.0),
        fault_mean_s=chance.choice((0.5, 1.0, 2.0)),
        faults=tuple(chance.sample(faults, chance.randrange(2, 8))),
        fault_length_s=session_ms / 1000 * chance.choice((0.3, 1.0, 2.0)),
        chunk_size_max=chance.choice((700, 16_384)),
        reset_chance=chance.choice((0.0, 0.0, 0.002)),
        broker={
            "broker.session.timeout.ms": str(session_ms),
            "zookeeper.session.timeout.ms": str(session_ms),
            "broker.heartbeat.interval.ms": str(session_ms // 5),
            "replica.lag.time.max.ms": str(lag_ms),
            "replica.fetch.wait.max.ms": str(min(chance.choice((50, 200, 500)), lag_ms // 2)),
            "replica.fetch.backoff.ms": str(chance.choice((50, 300))),
            "replica.fetch.max.bytes": str(chance.choice((500, 5_000, 1_048_576))),
            "replica.socket.timeout.ms": "2000",
            "controller.socket.timeout.ms": str(session_ms),
            "leader.imbalance.check.interval.seconds": str(chance.choice((2, 300))),
            "log.segment.bytes": str(chance.choice((2_000, 5_000, 20_000))),
            "log.index.interval.bytes": str(chance.choice((0, 300, 4_096))),
            "log.flush.offset.checkpoint.interval.ms": str(chance.choice((400, 2_500, 60_000))),
            "log.segment.delete.delay.ms": str(chance.choice((0, 500))),
            # A record of the right time must be taken by a broker whose clock is days behind.
            "log.message.timestamp.after.max.ms": str(2**63 - 1),
            "max.incremental.fetch.session.cache.slots": str(chance.choice((1, 1000))),
        },
        topics=tuple(
            _draw_topic(chance, number, broker_count) for number in range(chance.randrange(1, 3))
        ),
        writers=(
            WriterPlan(-1, True, chance.choice((1, 5)), 0.05),
            *(_draw_writer(chance) for _ in range(chance.randrange(0, 3))),
        ),
        reader_count=chance.randrange(1, 3),
        topics_change=chance.random() < 0.25,
    )


def _draw_topic(chance: random.Random, number: int, broker_count: int) -> TopicPlan:
    factor = min(broker_count, chance.choice((1, 2, 3, 3, 3, 3, 5)))
    flushed = chance.random() < 0.2
    return TopicPlan(
        f"topic-{number}",
        chance.randrange(1, 4),
        factor,
        min(factor, chance.choice((1, 2, 2, 2, 3))),
        (("flush.ms", "200"),) if flushed else (),
    )


def _draw_writer(chance: random.Random) -> WriterPlan:
    idempotent = chance.random() < 0.6
    return WriterPlan(
        acks=-1 if idempotent else chance.choice((1, -1)),
        idempotent=idempotent,
        in_flight=chance.choice((1, 5)),
        pause_s=chance.choice((0.02, 0.1, 0.3)),
    )
