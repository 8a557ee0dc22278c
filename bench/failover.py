"""`python -m bench.failover`: what happens to writers when a leader fails, on ZooKeeper.

Three brokers on ZooKeeper against three nodes of Apache Kafka, all voters of its quorum. Sessions
have 9 s on both. Rounds, turns and table are those of `bench.run`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.kafka_harness.ending import exit_on_sigterm
from tests.kafka_harness.memberships import Keeping

from bench import page as pages
from bench.bars import Measure, less
from bench.page import Page
from bench.run import main
from bench.scale import FULL, QUICK, Scale
from bench.steady_writers import CLIENTS

_EVENTS = {
    "leader_killed": "leader killed",
    "controller_killed": "leader and controller killed",
    "leader_paused": "leader paused",
    "clean_restart": "leader stopped and started again",
}
_NAMES = {"librdkafka": "librdkafka", "java": "Java", "own": "our client"}


def longest_wait_measures(bars: Mapping[str, float]) -> tuple[Measure, ...]:
    """Return a row for each client and each kind of work, of which each has its bar."""
    return tuple(
        less(work, client, f"{_EVENTS[work]}: longest wait of {_NAMES[client]}", "s", bar)
        for work, bar in bars.items()
        for client in CLIENTS
    )


def describe_writers(_: Scale) -> str:
    """Say what the writers do, and how long the cluster waits for a broker that is silent."""
    return (
        "a record every 5 ms from each client, one at a time, acks=all, to one partition with "
        "three replicas, two of which must be in sync; sessions of 9 s. Request time-outs are the "
        "clients' defaults, except 1 s where the leader is paused"
    )


FAILOVER = Page(
    title="Leaders that fail",
    command="python -m bench.failover",
    measures=longest_wait_measures(
        {"leader_killed": 0.1, "controller_killed": 0.25, "leader_paused": 1.0,
         "clean_restart": 0.3}
    ),
    scales={pages.QUICK: QUICK, pages.FULL: FULL},
    describe_scale=describe_writers,
    rounds=5,
    path=Path(__file__).parent / "FAILOVER.md",
    broker_count=3,
    candidate="moldau-compiled",
    keeping=(Keeping.ALL_VOTE, Keeping.ZOOKEEPER),
)  # fmt: skip


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:], FAILOVER))
