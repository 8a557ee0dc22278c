"""The partitioners a user can choose, and how their own are asked."""

from __future__ import annotations

import random

from moldau.client.producing.partitioners import MetadataAgePartitioner, RoundRobinPartitioner
from moldau.engine.murmur2 import partition_for_key


class Cluster:
    """Four partitions, one of which has no leader."""

    def partition_count(self, topic):
        return 4

    def available_partitions(self, topic):
        return [0, 1, 3]


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def monotonic(self):
        return self.now

    def wall_ms(self):
        return 0


def chosen(partitioner, key=None, topic="t"):
    return partitioner.partition(topic, key, key, None, None, Cluster())


def test_round_robin_takes_each_led_partition_in_turn_whatever_the_key():
    partitioner = RoundRobinPartitioner(random.Random(3))
    seen = [chosen(partitioner, b"k") for _ in range(6)]
    assert sorted(seen[:3]) == [0, 1, 3]
    assert seen[3:] == seen[:3]


def test_round_robin_begins_anywhere():
    starts = {chosen(RoundRobinPartitioner(random.Random(seed))) for seed in range(40)}
    assert starts == {0, 1, 3}


def test_the_oldest_way_keeps_one_partition_for_the_age_of_metadata():
    clock = Clock()
    partitioner = MetadataAgePartitioner(random.Random(1), clock)
    partitioner.configure({"metadata_max_age_ms": 10_000})
    seen = set()
    for period in range(20):
        clock.now = period * 10.0
        within = {chosen(partitioner) for _ in range(5)}
        assert len(within) == 1
        seen |= within
    assert seen == {0, 1, 3}


def test_the_oldest_way_hashes_keys():
    partitioner = MetadataAgePartitioner(random.Random(1), Clock())
    partitioner.configure({"metadata_max_age_ms": 10_000})
    assert chosen(partitioner, b"key") == partition_for_key(b"key", 4)
