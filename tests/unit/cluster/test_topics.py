"""Creating, growing and deleting topics: what is decided, and what is refused with which code."""

from __future__ import annotations

import random

import pytest

from kits.metadata_samples import after, directory_id, topic_id, with_brokers, with_topic
from moldau.cluster.changes import BrokerChanged, ConfigChanged, TopicCreated, TopicRemoved
from moldau.cluster.model import UNASSIGNED_DIRECTORY, ConfigResource, ResourceType
from moldau.cluster.topics import (
    NewTopic,
    TopicDefaults,
    add_partitions,
    check_topic_name,
    create_topic,
    delete_topic,
    delete_topic_by_id,
)
from moldau.protocol.errors import ApiError, ErrorCode


def code_of(call, *args):
    with pytest.raises(ApiError) as refused:
        list(call(*args))
    return refused.value.code


def refused(image, wanted):
    return code_of(create_topic, image, wanted, TopicDefaults(), random.Random(1))


def replicas(image, name):
    return [partition.replicas for partition in image.topic(name).partitions]


def test_the_first_topic_shows_the_plain_formula():
    image = with_topic(with_brokers([0, 1, 2]), NewTopic("secondTopic", 3, 2))
    assert replicas(image, "secondTopic") == [(0, 1), (1, 2), (2, 0)]
    first, second = image.topic("secondTopic").partitions[:2]
    assert (first.leader, first.leader_epoch, first.isr) == (0, 0, (0, 1))
    assert (second.leader, second.isr) == (1, (1, 2))
    assert first.directories == (directory_id(0), directory_id(1))


def test_minus_one_takes_the_brokers_defaults():
    changes = create_topic(
        with_brokers([0, 1, 2]), NewTopic("a"), TopicDefaults(4, 3), random.Random(1)
    )
    image = with_brokers([0, 1, 2]).apply(changes, 99)
    assert len(image.topic("a").partitions) == 4
    assert len(image.topic("a").partitions[0].replicas) == 3


def test_configs_come_with_the_topic():
    changes = list(
        create_topic(
            with_brokers([1]),
            NewTopic("a", 1, 1, configs={"retention.ms": "5"}),
            TopicDefaults(),
            random.Random(1),
        )
    )
    assert isinstance(changes[0], TopicCreated)
    resource = ConfigResource(ResourceType.TOPIC, "a")
    assert ConfigChanged(resource, "retention.ms", "5") in changes


def test_topic_ids_are_drawn_from_the_port():
    first, again, other = (
        with_topic(with_brokers([1]), NewTopic("a", 1), seed).topic("a").id for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len(first) == 16
    assert first[6] >> 4 == 4


def test_a_topic_on_a_broker_with_several_directories_leaves_the_choice_to_it():
    image = with_brokers([1])
    several = (directory_id(1), directory_id(2))
    change = BrokerChanged(1, image.brokers[1].epoch, log_directories=several)
    image = with_topic(image.apply([change], image.version + 1), NewTopic("a", 1))
    assert image.topic("a").partitions[0].directories == (UNASSIGNED_DIRECTORY,)


@pytest.mark.parametrize("name", ["a", "A-9._z", "x" * 249, "...", "-"])
def test_legal_names_are_taken(name):
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a\0"])
def test_illegal_names_are_refused(name):
    assert refused(with_brokers([1]), NewTopic(name, 1)) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_that_differ_only_in_dot_and_underscore_collide():
    image = with_topic(with_brokers([1]), NewTopic("a.b_c", 1))
    assert refused(image, NewTopic("a_b.c", 1)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert with_topic(image, NewTopic("a-b-c", 1)).topic("a-b-c")
    assert with_topic(image, NewTopic("abc", 1)).topic("abc")


def test_what_exists_is_refused():
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    assert refused(image, NewTopic("a", 1)) is ErrorCode.TOPIC_ALREADY_EXISTS


def test_the_metadata_topic_is_not_for_users():
    wanted = NewTopic("__cluster_metadata", 1)
    assert refused(with_brokers([1]), wanted) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("count", [0, -2])
def test_partition_counts_that_cannot_be(count):
    assert refused(with_brokers([1]), NewTopic("a", count)) is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 3])
def test_replication_factors_that_cannot_be(factor):
    wanted = NewTopic("a", 1, factor)
    assert refused(with_brokers([1, 2]), wanted) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_fenced_brokers_do_not_count_as_live():
    image = with_brokers([1, 2])
    image = image.apply([BrokerChanged(2, image.brokers[2].epoch, fenced=True)], 9)
    assert refused(image, NewTopic("a", 1, 2)) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert replicas(with_topic(image, NewTopic("a", 2, 1)), "a") == [(1,), (1,)]


def test_more_partitions_than_one_change_may_bring_are_refused():
    assert refused(with_brokers([1]), NewTopic("a", 10_001)) is ErrorCode.POLICY_VIOLATION


def test_assignments_by_hand_are_taken_as_they_are():
    wanted = NewTopic("a", assignments={1: [2, 0], 0: [1, 2]})
    image = with_topic(with_brokers([0, 1, 2]), wanted)
    assert replicas(image, "a") == [(1, 2), (2, 0)]


def test_a_hand_assigned_replica_that_is_down_is_not_in_sync():
    image = with_brokers([0, 1])
    image = image.apply([BrokerChanged(0, image.brokers[0].epoch, fenced=True)], 9)
    partition = with_topic(image, NewTopic("a", assignments={0: [0, 1]})).topic("a").partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((0, 1), (1,), 1)
    down = NewTopic("a", assignments={0: [0]})
    assert refused(image, down) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    "assignments",
    [{1: [0]}, {0: [0], 2: [0]}, {0: [0], 1: [0, 1]}, {0: [0, 0]}, {0: [9]}, {0: []}],
    ids=["not from 0", "gap", "unequal", "duplicate", "unknown", "empty"],
)
def test_assignments_that_cannot_be(assignments):
    wanted = NewTopic("a", assignments=assignments)
    assert refused(with_brokers([0, 1]), wanted) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("sizes", [(1, -1), (-1, 1)])
def test_assignments_exclude_counts(sizes):
    wanted = NewTopic("a", *sizes, assignments={0: [0]})
    assert refused(with_brokers([0]), wanted) is ErrorCode.INVALID_REQUEST


def test_a_topic_grows_with_its_own_replication_factor():
    image = with_topic(with_brokers([0, 1, 2]), NewTopic("a", 1, 2))
    image = image.apply(add_partitions(image, "a", 3), 99)
    assert [partition.index for partition in image.topic("a").partitions] == [0, 1, 2]
    assert {len(row) for row in replicas(image, "a")} == {2}


def test_a_topic_grows_by_hand():
    image = with_topic(with_brokers([0, 1]), NewTopic("a", 1, 1))
    image = image.apply(add_partitions(image, "a", 3, [[1], [0]]), 99)
    assert replicas(image, "a") == [(0,), (1,), (0,)]


@pytest.mark.parametrize("count", [-1, 0, 1, 2])
def test_a_topic_never_shrinks_nor_stays(count):
    image = with_topic(with_brokers([0]), NewTopic("a", 2))
    assert code_of(add_partitions, image, "a", count) is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("assignments", [[], [[0]], [[0], [0, 1]], [[0], [9]], [[0], []]])
def test_growth_by_hand_that_cannot_be(assignments):
    image = with_topic(with_brokers([0, 1]), NewTopic("a", 1, 1))
    got = code_of(add_partitions, image, "a", 3, assignments)
    assert got is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_topics_are_deleted_by_name_or_id():
    image = with_topic(with_brokers([0]), NewTopic("a", 1))
    removed = [TopicRemoved(image.topic("a").id)]
    assert delete_topic(image, "a") == removed
    assert delete_topic_by_id(image, image.topic("a").id) == removed


def test_what_is_not_there_cannot_be_deleted_nor_grown():
    image = with_brokers([0])
    assert code_of(delete_topic, image, "a") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(add_partitions, image, "a", 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(delete_topic_by_id, image, topic_id(5)) is ErrorCode.UNKNOWN_TOPIC_ID
    assert code_of(delete_topic_by_id, image, topic_id(0)) is ErrorCode.UNKNOWN_TOPIC_ID


def test_a_broker_whose_directories_are_all_cordoned_gets_no_new_replicas():
    image = with_brokers([1, 2])
    both = directory_id(2), b"e" * 16
    epoch = image.brokers[2].epoch

    def placed(cordoned):
        change = BrokerChanged(2, epoch, log_directories=both, cordoned_log_directories=cordoned)
        there = with_topic(after(image, [change]), NewTopic("t", 4, 1))
        return {one.leader for one in there.topics["t"].partitions}

    assert placed(both) == {1}
    assert placed(both[:1]) == {1, 2}
    assert placed(()) == {1, 2}
