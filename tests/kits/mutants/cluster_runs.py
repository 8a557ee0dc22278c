"""Short runs of a simulated cluster under faults of one's choice, for mutants."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kits.coordination_runs import GROUPS, TRANSACTIONS
from moldau.sim.cluster.scenario import run_cluster_seed
from moldau.sim.cluster.swarm import ClusterSwarm, TopicPlan, WriterPlan
from moldau.sim.scenarios import ScenarioOutcome
from moldau.sim.swarm import Coordination, draw_coordinator_settings

Run = Callable[[int], ScenarioOutcome]

DATA: dict[str, Any] = {
    "broker_count": 3,
    "duration_s": 10.0,
    "fault_mean_s": 0.5,
    "fault_length_s": 0.7,
    "topics": (TopicPlan("topic-0", 2, 3, 2),),
    "writers": (WriterPlan(-1, True, 5, 0.03), WriterPlan(1, False, 1, 0.05)),
    "reader_count": 1,
    "topics_change": False,
    "coordination": Coordination(),
}
"""Three brokers, two partitions, and writers with and without acknowledgement by all."""

COORDINATED: dict[str, Any] = {
    "topics": (TopicPlan("topic-0", 1, 3, 2),),
    "writers": (WriterPlan(-1, True, 1, 0.3),),
    "coordination": Coordination(
        groups=(
            tuple(one._replace(session_timeout_ms=3_000, pause_s=0.1) for one in GROUPS.groups[0]),
        ),
        committers=("plain",),
        transactors=tuple(
            one._replace(timeout_ms=4_000, pause_s=0.05) for one in TRANSACTIONS.transactors
        ),
        readers=tuple(one._replace(version=17) for one in TRANSACTIONS.readers),
    ),
}
"""The same three brokers with groups and transactions."""

COORDINATOR_SETTINGS = {"min.insync.replicas": "2", "transaction.state.log.min.isr": "2"}

KILLS = ("kill", "pause", "broker partition")
LAGS = ("isolation", "short pause", "kill")
POWER = ("power cut", "kill")
CUTS = ("isolation", "broker partition", "ring partition", "swizzled partition")
ZOMBIES = ("zombie leader", "kill of a leader", "short pause", "ring partition")
LOST_ANSWERS = ("lost ISR answers",)
COORDINATORS = ("kill of a coordinator", "kill of a leader", "isolation", "ring partition")


QUICK_LAG = {"replica.lag.time.max.ms": "400", "replica.fetch.wait.max.ms": "50"}
SLOW_LAG = {"replica.lag.time.max.ms": "3000", "broker.session.timeout.ms": "600"}


def data(*faults: str, settings: Mapping[str, str] = {}, **changes: Any) -> Run:
    """Make a run with plain writers and readers, these faults and these settings of brokers."""
    focus = DATA | {"faults": faults} | changes

    def adjust(swarm: ClusterSwarm) -> ClusterSwarm:
        return replace(swarm, **focus, broker=swarm.broker | settings)

    return lambda seed: run_cluster_seed(seed, adjust=adjust)


def on_zookeeper(*faults: str, settings: Mapping[str, str] = {}, **changes: Any) -> Run:
    """Make the same kind of run for a cluster on ZooKeeper, where a topic comes and goes."""
    focus = DATA | {"faults": faults, "topics_change": True} | changes

    def adjust(swarm: ClusterSwarm) -> ClusterSwarm:
        return replace(swarm, **focus, broker=swarm.broker | settings)

    return lambda seed: run_cluster_seed(seed, zookeeper=True, adjust=adjust)


def in_quorum(*faults: str, settings: Mapping[str, str] = {}, **changes: Any) -> Run:
    """Make the same kind of run for a cluster on a quorum, where a topic comes and goes."""
    focus = DATA | {"faults": faults, "topics_change": True} | changes

    def adjust(swarm: ClusterSwarm) -> ClusterSwarm:
        return replace(swarm, **focus, broker=swarm.broker | settings)

    return lambda seed: run_cluster_seed(seed, quorum=True, adjust=adjust)


def coordinated(*faults: str, **changes: Any) -> Run:
    """Make a run in which coordinators have most of the work, with these faults."""

    def run(seed: int) -> ScenarioOutcome:
        drawn = draw_coordinator_settings(random.Random(seed))
        settings = drawn | COORDINATOR_SETTINGS
        return data(*faults, settings=settings, **(COORDINATED | changes))(seed)

    return run
