"""`python -m bench.cluster`: three Moldau brokers against three of Apache Kafka.

Rounds, turns and table are those of `bench.run`. One broker of each cluster is also the controller.
All topics have three replicas, and acks=all needs two of them in sync.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from tests.kafka_harness.ending import exit_on_sigterm

from bench import page as pages
from bench.bars import Better, Measure, less, more
from bench.page import Page
from bench.run import main
from bench.scale import FULL, MB, QUICK, Scale

_CPU = "CPU of all brokers"


def _produce(client: str, title: str) -> tuple[Measure, Measure]:
    return (
        more("replicated_produce", client, title, "MB/s", 2.0),
        less("replicated_produce", f"{client}_cpu", f"{title}: {_CPU}", "s/GB", 0.35),
    )


MEASURES: tuple[Measure, ...] = (
    *_produce("librdkafka", "produce 1 KB, 6 partitions, acks=all, librdkafka"),
    *_produce("java", "produce 1 KB, 6 partitions, acks=all, Java with 16 KB batches"),
    less("latency", "p50", "one record at a time, acks=all, p50", "us", 0.5),
    less("latency", "p99", "one record at a time, acks=all, p99", "us", 0.4),
    less("end_to_end", "p50", "from producer to consumer, p50", "us", 0.6),
    less("end_to_end", "p99", "from producer to consumer, p99", "us", 0.5),
    more("commits", "rate", "offset commits, 50 groups, one at a time", "commits/s", 1.5),
    more("transactions", "rate", "consume-transform-produce by 100", "records/s", 1.5),
    less("memory", "idle", "peak memory of all brokers, idle", "MB", 0.12),
    less("memory", "loaded", "peak memory of all brokers after load", "MB", 0.08),
    more("catch_up", "speed", "a follower catches up: fetch rate", "MB/s"),
    less("catch_up", "seconds", "a follower catches up: process start to in sync", "s"),
    less("catch_up", "p99", "a follower catches up: produce p99 meanwhile", "us"),
    less("leader_killed", "librdkafka",
         "a leader is killed: longest wait for an acknowledgement", "s", 1.1),
    Measure("truncation", "stall", "a segment is truncated: longest stall of the event loop",
            "ms", Better.LESS, None),
)  # fmt: skip


def _describe(scale: Scale) -> str:
    return (
        f"{scale.throughput_bytes / 1e9:g} GB produced with librdkafka, half as much with Java, "
        f"{scale.latency_records:,} records one at a time, {scale.transactions:,} transactions, "
        f"offset commits for {scale.commit_seconds:g} s, {scale.missed_bytes / 1e9:g} GB for a "
        "follower to fetch or truncate. Three replicas of each partition, two of which must be in "
        "sync; broker sessions of 9 s"
    )


CLUSTER = Page(
    title="Three brokers",
    command="python -m bench.cluster",
    measures=MEASURES,
    scales={
        pages.QUICK: QUICK,
        # Three brokers and a client share the machine, so the scale of one broker would take long.
        pages.FULL: replace(
            FULL, warm_up_bytes=500 * MB, throughput_bytes=1_000 * MB, small_records=2_000_000,
            latency_records=10_000, commit_seconds=10, transactions=500,
        ),
    },
    describe_scale=_describe,
    rounds=5,
    path=Path(__file__).parent / "CLUSTER.md",
    broker_count=3,
    candidate="moldau-compiled",
)  # fmt: skip


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:], CLUSTER))
