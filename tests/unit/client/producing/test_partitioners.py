"""The partitioners a user can choose, and how their own are asked."""

from __future__ import annotations

import array
import random
from types import NoneType

import pytest

from moldau import Producer
from moldau.client.errors import InvalidArgument, SerializationFailed
from moldau.client.producing.face import PARTITIONERS
from moldau.client.producing.partitioners import (
    ConsistentRandomPartitioner,
    KeyedRoundRobinPartitioner,
    MetadataAgePartitioner,
    RoundRobinPartitioner,
)
from moldau.engine.murmur2 import partition_for_key
from moldau.testing import TestBroker


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


def test_the_default_of_kafka_1_hashes_keys_and_deals_out_the_rest():
    partitioner = KeyedRoundRobinPartitioner(random.Random(3))
    for key in (b"anna", b"", b"x" * 50):
        assert chosen(partitioner, key) == partition_for_key(key, 4)
    seen = [chosen(partitioner) for _ in range(6)]
    assert sorted(seen[:3]) == [0, 1, 3]
    assert seen[3:] == seen[:3]


def test_keys_go_where_librdkafka_puts_them():
    partitioner = ConsistentRandomPartitioner(random.Random(3))
    # The check value of CRC-32 is that of these nine digits.
    assert chosen(partitioner, b"123456789") == 0xCBF43926 % 4
    assert {chosen(partitioner, key) for key in (None, b"") for _ in range(50)} == {0, 1, 3}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("crc32", ConsistentRandomPartitioner),
        ("consistent_random", ConsistentRandomPartitioner),
        ("keyed_round_robin", KeyedRoundRobinPartitioner),
        ("round_robin", RoundRobinPartitioner),
        ("murmur2_random", NoneType),
    ],
)
def test_each_is_chosen_by_name(name, kind):
    assert type(Producer(partitioner_class=name)._partitioner) is kind


@pytest.mark.parametrize("name", PARTITIONERS)
def test_each_is_given_bytes_and_says_what_is_none(name):
    with (
        TestBroker(topics={"t": 3}) as broker,
        Producer(broker.bootstrap_servers, partitioner_class=name, linger_ms=0) as producer,
    ):
        wide = memoryview(array.array("i", [1, 2]))
        chosen = {
            producer.send("t", b"v", key).result(20).partition
            for key in (wide.tobytes(), bytearray(wide), wide)
        }
        assert len(chosen) == 1 or name == "round_robin"
        with pytest.raises(SerializationFailed, match="the key is of type str, not bytes"):
            producer.send("t", b"v", "text")


def test_a_partitioner_that_asks_about_a_strange_topic_is_told_so():
    def partition(topic, key, key_bytes, value, value_bytes, cluster):
        return cluster.partition_count(value.decode()) - 1

    with (
        TestBroker(topics={"t": 3, "u": 1}) as broker,
        Producer(broker.bootstrap_servers, partitioner_class=partition, linger_ms=0) as producer,
    ):
        with pytest.raises(InvalidArgument, match="there is no metadata for topic 'u'"):
            producer.send("t", b"u")
        assert producer.send("t", b"t").result(20).partition == 2
        producer.send("u", b"u").result(20)
        # Idle topics are closed at any time, perhaps while a partitioner is being asked.
        producer._core.outbox.close_topic("u")
        assert producer.send("t", b"u").result(20).partition == 0


def test_a_function_sees_leaders_and_racks_and_cannot_change_anything():
    seen = []

    def partition(topic, key, key_bytes, value, value_bytes, cluster):
        leader = cluster.leader(topic, 0)
        seen.append((leader.broker_id, leader.rack, len(cluster.brokers())))
        assert cluster.leader(topic, 7) is None
        assert cluster.partition_count(topic) == 2
        assert [name for name in dir(cluster) if not name.startswith("_")] == [
            "available_partitions",
            "brokers",
            "leader",
            "partition_count",
        ]
        return 1

    with TestBroker(topics={"t": 2}, settings={"broker.rack": "cellar"}) as broker:
        for _ in range(2):
            with Producer(broker.bootstrap_servers, partitioner_class=partition) as producer:
                assert producer.send("t", b"v", key=b"k").result(20).partition == 1
        assert len(broker.records("t")) == 2
    assert seen == [(seen[0][0], "cellar", 1)] * 2
