"""Partitions: written as Kafka writes them, read from pairs of any kind."""

from __future__ import annotations

import pytest

from moldau.engine.partitions import TopicPartition, as_partition, as_partitions


def test_a_partition_reads_as_kafka_writes_it_and_unpacks():
    topic, partition = one = TopicPartition("orders", 3)
    assert (topic, partition, str(one)) == ("orders", 3, "orders-3")


def test_partitions_are_taken_as_pairs_of_any_kind():
    pairs = [("t", 0), TopicPartition("t", 1), ["t", 2]]
    assert as_partitions(pairs) == [TopicPartition("t", number) for number in range(3)]


@pytest.mark.parametrize("given", [("t", 0), ["ab"], "ab", 5, [("t",)], [("t", "0")]])
def test_what_is_no_list_of_pairs_is_refused_in_words(given):
    with pytest.raises(TypeError, match=r"is no partition|partitions is a list"):
        as_partitions(given)


def test_what_is_no_pair_is_refused_in_words():
    with pytest.raises(TypeError, match="'t' is no partition"):
        as_partition("t")
