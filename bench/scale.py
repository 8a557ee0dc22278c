"""How much work is done: enough for figures one can stand by, or just enough to try the harness."""

from __future__ import annotations

from dataclasses import dataclass

MB = 1_000_000
GB = 1_000 * MB


@dataclass(frozen=True, slots=True)
class Scale:
    """The amounts of every kind of work."""

    warm_up_bytes: int
    """Written before anything is timed: a JVM needs it to compile its hot code."""
    throughput_bytes: int
    """Written and read per record size."""
    small_records: int
    """The most records per size: at 100 bytes the client, not the disk, bounds a run."""
    latency_records: int
    history_bytes: int
    """What the cold reader reads, and what recovery finds."""
    connections: int
    connection_seconds: int
    partitions: int
    created_topics: int
    """Of three partitions. As many again before, untimed."""
    records_per_partition: int
    group_members: int
    group_rounds: int
    """As many again are done before, untimed."""
    commit_seconds: float
    """As many again before, untimed."""
    transactions: int
    """As many again before, untimed."""
    offset_groups: int
    """Each with a hundred offsets."""
    compaction_bytes: int
    missed_bytes: int
    """Of a replica that was away."""


FULL = Scale(
    warm_up_bytes=GB,
    throughput_bytes=2 * GB,
    small_records=5_000_000,
    latency_records=20_000,
    history_bytes=5 * GB,
    connections=2_000,
    connection_seconds=30,
    partitions=2_000,
    created_topics=400,
    records_per_partition=10,
    group_members=100,
    group_rounds=100,
    commit_seconds=20,
    transactions=1_000,
    offset_groups=2_000,
    compaction_bytes=2 * GB,
    missed_bytes=GB,
)

QUICK = Scale(
    warm_up_bytes=30 * MB,
    throughput_bytes=100 * MB,
    small_records=300_000,
    latency_records=1_000,
    history_bytes=200 * MB,
    connections=200,
    connection_seconds=3,
    partitions=100,
    created_topics=50,
    records_per_partition=10,
    group_members=100,
    group_rounds=10,
    commit_seconds=3,
    transactions=200,
    offset_groups=500,
    compaction_bytes=300 * MB,
    missed_bytes=100 * MB,
)
