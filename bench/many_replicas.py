"""`python -m bench.many_replicas`: thousands of replicated partitions, both sides on ZooKeeper.

Three brokers against three of Kafka 3.9, the last line with ZooKeeper. Rounds, turns and table are
those of `bench.run`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.kafka_harness.ending import exit_on_sigterm
from tests.kafka_harness.memberships import Keeping

from bench import page as pages
from bench.bars import Measure, less
from bench.page import Page
from bench.run import main
from bench.scale import FULL, QUICK, Scale

MEASURES: tuple[Measure, ...] = (
    less("replicated_partitions", "create", "create until all leaders serve", "s", 0.7),
    less("replicated_partitions", "failover",
         "controller killed, until the others serve all partitions", "s", 0.7),
    less("replicated_partitions", "idle", "CPU while idle, ZooKeeper included", "ms/s", 0.7),
    less("replicated_partitions", "memory", "peak memory, ZooKeeper included", "MB", 0.25),
)  # fmt: skip


def _describe(scale: Scale) -> str:
    return (
        f"{scale.partitions} partitions with three replicas each; sessions of 9 s; a ZooKeeper "
        "with a heap of 256 MB for each side"
    )


MANY_REPLICAS = Page(
    title="Many replicas on ZooKeeper",
    command="python -m bench.many_replicas",
    measures=MEASURES,
    scales={pages.QUICK: QUICK, pages.FULL: FULL},
    describe_scale=_describe,
    rounds=5,
    path=Path(__file__).parent / "MANY_REPLICAS.md",
    broker_count=3,
    baseline="kafka-3.9",
    candidate="moldau-compiled",
    keeping=(Keeping.ZOOKEEPER, Keeping.ZOOKEEPER),
)


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:], MANY_REPLICAS))
