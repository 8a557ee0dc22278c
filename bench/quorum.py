"""`python -m bench.quorum`: three nodes that all vote, against three of Apache Kafka.

Each node is broker and controller. Rounds, turns and table are those of `bench.run`. Leaders that
fail and many replicas are measured as on ZooKeeper (`bench.failover`, `bench.many_replicas`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.kafka_harness.ending import exit_on_sigterm
from tests.kafka_harness.memberships import Keeping

from bench import page as pages
from bench.bars import Measure, less
from bench.failover import describe_writers, longest_wait_measures
from bench.page import Page
from bench.run import main
from bench.scale import FULL, QUICK, Scale

MEASURES: tuple[Measure, ...] = (
    *longest_wait_measures(
        {"leader_killed": 0.1, "controller_killed": 0.2, "leader_paused": 1.0,
         "clean_restart": 0.3}
    ),
    less("topic_creation", "p50", "create a topic, 3 partitions with 3 replicas, p50", "ms", 0.5),
    less("topic_creation", "p99", "create a topic, 3 partitions with 3 replicas, p99", "ms", 0.5),
    less("quorum_partitions", "create", "many partitions: create until all leaders serve",
         "s", 0.5),
    less("quorum_partitions", "failover",
         "many partitions: controller killed, until the others serve all", "s", 0.5),
    less("quorum_partitions", "restart",
         "many partitions: a node is stopped and started, until it is in all ISRs", "s", 0.5),
    less("quorum_partitions", "idle", "many partitions: CPU of all nodes while idle",
         "ms/s", 0.5),
    less("quorum_partitions", "memory", "many partitions: peak memory of all nodes",
         "MB", 0.12),
)  # fmt: skip


def _describe(scale: Scale) -> str:
    return (
        f"{describe_writers(scale)}. {scale.created_topics} topics created one after the other, "
        f"and as many before, untimed. {scale.partitions:,} partitions with three replicas each"
    )


QUORUM = Page(
    title="Three voters",
    command="python -m bench.quorum",
    measures=MEASURES,
    scales={pages.QUICK: QUICK, pages.FULL: FULL},
    describe_scale=_describe,
    rounds=5,
    path=Path(__file__).parent / "QUORUM.md",
    broker_count=3,
    candidate="moldau-compiled",
    keeping=(Keeping.ALL_VOTE, Keeping.ALL_VOTE),
)


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:], QUORUM))
