"""Runs of the simulation in which coordinators have all the work, under faults of one's choice."""

from __future__ import annotations

import random
from dataclasses import replace

from moldau.sim.scenarios import ScenarioOutcome, run_seed
from moldau.sim.swarm import Coordination, Swarm, draw_coordinator_settings
from moldau.sim.workload.committed_reader import ReaderPlan
from moldau.sim.workload.group_member import NEW, OLD, STATIC, WITH_IDS, MemberPlan
from moldau.sim.workload.transactor import Age, TransactorPlan

GROUPS = Coordination(
    groups=(
        (
            MemberPlan(OLD, static=False, session_timeout_ms=1_000, pause_s=0.03),
            MemberPlan(NEW, static=False, session_timeout_ms=300, pause_s=0.03),
            MemberPlan(STATIC, static=True, session_timeout_ms=1_000, pause_s=0.03),
        ),
        (
            MemberPlan(NEW, static=True, session_timeout_ms=1_000, pause_s=0.03),
            MemberPlan(WITH_IDS, static=False, session_timeout_ms=500, pause_s=0.03),
        ),
    ),
    committers=("plain", "plain"),
)
TRANSACTIONS = Coordination(
    transactors=tuple(
        TransactorPlan(age, timeout_ms=800, pause_s=0.02, abandons=age is Age.VERIFIED)
        for age in Age
    ),
    readers=(
        ReaderPlan(version=4, committed_only=True, max_bytes=2_000),
        ReaderPlan(version=17, committed_only=True, max_bytes=200),
    ),
)
COMPACTION = Coordination(
    committers=("plain",) * 4,
    keyed_writers=3,
    keyed_configs=(("delete.retention.ms", "500"),),
)
EVERYTHING = replace(
    COMPACTION,
    groups=GROUPS.groups[:1],
    transactors=TRANSACTIONS.transactors,
    readers=TRANSACTIONS.readers[:1],
)

KILLS = ("kill", "orderly restart")
POWER = ("power cut", "power cut at a crash point")
POINTS = ("crash point", "power cut at a crash point")
NETWORK = ("reset", "partition")
DISKS = ("disk error", "disk full")
FAULTS = {"kills": KILLS, "power": POWER, "points": POINTS, "network": NETWORK, "disks": DISKS}


def run_coordinators(
    seed: int,
    work: Coordination,
    faults: tuple[str, ...],
    duration_s: float = 4.0,
    crash_points: tuple[str, ...] = (),
) -> ScenarioOutcome:
    """Run one seed with nothing but this work and these faults."""

    def adjust(swarm: Swarm) -> Swarm:
        settings = draw_coordinator_settings(random.Random(seed))
        return replace(
            swarm,
            duration_s=duration_s,
            fault_mean_s=0.4,
            faults=faults,
            topics=(),
            topics_change=False,
            records_deleted=False,
            producers=(),
            consumers=(),
            broker=swarm.broker | settings,
            coordination=work,
            crash_points=crash_points,
        )

    return run_seed(seed, adjust=adjust)
