"""Elections that somebody asks for, and those that are due from time to time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import after, decided, with_brokers, with_topic
from moldau.cluster import elections
from moldau.cluster.brokers import fence_broker
from moldau.cluster.changes import PartitionChanged
from moldau.cluster.elections import (
    elect_leaders,
    elect_preferred_leaders,
    elect_unclean_leaders,
)
from moldau.cluster.model import NO_LEADER
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ErrorCode


def cluster(count=2, configs=None):
    wanted = {index: [1, 2, 3] for index in range(count)}
    return with_topic(
        with_brokers([1, 2, 3]), NewTopic("t", assignments=wanted, configs=configs or {})
    )


def moved(image, index, **parts):
    return after(image, [PartitionChanged(image.topics["t"].id, index, **parts)])


def leaders(image):
    return [partition.leader for partition in image.topics["t"].partitions]


def told(answers):
    return [(one.topic, one.index, one.error) for one in answers]


def elect(image, wanted, *, preferred):
    return decided(image, elect_leaders(image, wanted, preferred=preferred))


NONE, NOT_NEEDED = ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED


def test_the_preferred_replica_leads_again():
    image = moved(cluster(), 0, leader=2)
    answers, image = elect(image, {"t": [0, 1]}, preferred=True)
    assert told(answers) == [("t", 0, NONE), ("t", 1, NOT_NEEDED)]
    assert leaders(image) == [1, 1]


@pytest.mark.parametrize("parts", [{"isr": (2, 3)}, {}])
def test_a_preferred_replica_that_is_behind_or_gone_does_not_lead(parts):
    image = moved(cluster(1), 0, leader=2, **parts)
    if not parts:
        image = after(image, fence_broker(image, 1))
    answers, same = elect(image, {"t": [0]}, preferred=True)
    assert told(answers) == [("t", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
    assert same == image


def without_leader(configs=None):
    """Only broker 3 had everything, and it is down."""
    image = moved(cluster(1, configs), 0, isr=(3,), leader=3)
    image = after(image, fence_broker(image, 3))
    assert leaders(image) == [NO_LEADER]
    return image


def test_an_unclean_election_takes_anybody_and_says_so():
    image = without_leader()
    answers, image = elect(image, {"t": [0]}, preferred=False)
    assert told(answers) == [("t", 0, NONE)]
    partition = image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.eligible_leaders) == (1, (1,), ())
    assert partition.recovering


def test_a_partition_that_is_led_needs_no_unclean_election():
    image = moved(cluster(1), 0, leader=2)
    answers, _ = elect(image, {"t": [0]}, preferred=False)
    assert told(answers) == [("t", 0, NOT_NEEDED)]


def test_where_everybody_is_down_nobody_is_eligible():
    image = without_leader()
    for broker_id in (1, 2):
        image = after(image, fence_broker(image, broker_id))
    answers, _ = elect(image, {"t": [0]}, preferred=False)
    assert told(answers) == [("t", 0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]


def test_an_election_of_all_leaves_out_those_that_need_none():
    image = moved(cluster(3), 1, leader=2)
    answers, image = elect(image, None, preferred=True)
    assert told(answers) == [("t", 1, NONE)]
    assert leaders(image) == [1, 1, 1]


def test_what_is_not_there_has_no_leader():
    answers, _ = elect(cluster(), {"t": [2, -1], "no": [0]}, preferred=True)
    assert {one.error for one in answers} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(answers) == 3


# Sweeps


def test_leaders_are_moved_back_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(elections, "ELECTIONS_PER_SWEEP", 2)
    image = cluster(5)
    for index in range(5):
        image = moved(image, index, leader=2)
    image = moved(image, 1, isr=(2, 3))
    more, image = decided(image, elect_preferred_leaders(image))
    assert (more, leaders(image)) == (True, [1, 2, 1, 2, 2])
    more, image = decided(image, elect_preferred_leaders(image))
    assert (more, leaders(image)) == (True, [1, 2, 1, 1, 1])
    more, same = decided(image, elect_preferred_leaders(image))
    assert (more, same) == (False, image)


@pytest.mark.parametrize(
    ("elsewhere", "percentage", "moves"),
    [(1, 0, True), (1, 10, False), (2, 10, True), (2, 20, False), (3, 20, True), (10, 100, False)],
)
def test_leaders_are_moved_back_to_a_broker_that_leads_too_few(elsewhere, percentage, moves):
    image = cluster(10)
    for index in range(elsewhere):
        image = moved(image, index, leader=2)
    more, later = decided(image, elect_preferred_leaders(image, imbalance_percentage=percentage))
    assert (more, leaders(later)) == (False, [1] * 10 if moves else leaders(image))


def test_with_a_percentage_all_partitions_of_a_broker_are_moved_at_once(monkeypatch):
    # The first sweep would leave a fifth elsewhere, and the second one would be content with that.
    monkeypatch.setattr(elections, "ELECTIONS_PER_SWEEP", 2)
    image = cluster(5)
    for index in range(3):
        image = moved(image, index, leader=2)
    more, image = decided(image, elect_preferred_leaders(image, imbalance_percentage=20))
    assert (more, leaders(image)) == (False, [1] * 5)


def test_each_broker_is_judged_by_its_own_partitions():
    image = with_topic(
        cluster(10), NewTopic("u", assignments={0: [3, 2, 1], 1: [3, 2, 1], 2: [2, 3, 1]})
    )
    image = moved(image, 0, leader=2)
    uneven = PartitionChanged(image.topics["u"].id, 0, leader=2)
    image = after(image, [uneven])
    _, image = decided(image, elect_preferred_leaders(image, imbalance_percentage=10))
    assert leaders(image)[0] == 2
    assert [one.leader for one in image.topics["u"].partitions] == [3, 3, 2]


@pytest.mark.parametrize(
    ("topic", "default", "leader"),
    [(None, False, NO_LEADER), (None, True, 1), ("true", False, 1), ("false", True, NO_LEADER)],
)
def test_partitions_that_wait_are_elected_where_the_topic_allows_it(topic, default, leader):
    key = "unclean.leader.election.enable"
    image = without_leader()
    if topic is not None:
        image = replace(image, configs={**image.configs, (2, "t"): {key: topic}})
    more, image = decided(image, elect_unclean_leaders(image, unclean_by_default=default))
    assert (more, leaders(image)) == (False, [leader])


def test_a_sweep_over_many_partitions_makes_small_steps():
    image = cluster(1000)
    assert list(elect_preferred_leaders(image)) == [None] * 10
    assert list(elect_preferred_leaders(image, imbalance_percentage=10)) == [None] * 20
    assert list(elect_unclean_leaders(image)) == [None] * 10
