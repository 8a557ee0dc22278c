"""Moving replicas (KIP-455): begun, changed on the way, completed, cancelled, listed."""

from __future__ import annotations

import pytest

from kits.broker_arrivals import broker_left
from kits.metadata_samples import after, decided, directory_id, with_brokers, with_topic
from moldau.cluster.brokers import fence_broker
from moldau.cluster.changes import PartitionChanged
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER
from moldau.cluster.reassignment import (
    WantedReplicas,
    alter_reassignments,
    list_reassignments,
)
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ErrorCode


@pytest.fixture
def image():
    return cluster()


def cluster(configs=None, image=None):
    """Brokers 1 to 6, a partition on 1 to 3."""
    wanted = NewTopic("t", assignments={0: [1, 2, 3]}, configs=configs or {})
    return with_topic(with_brokers(range(1, 7), image=image), wanted)


def only(image):
    return image.topics["t"].partitions[0]


def changed(image, **parts):
    return after(image, [PartitionChanged(image.topics["t"].id, 0, **parts)])


def move(image, replicas, **options):
    """The error code, and the image after it."""
    wanted = WantedReplicas("t", 0, None if replicas is None else tuple(replicas))
    (answer,), moved = decided(image, alter_reassignments(image, [wanted], **options))
    return answer.error, moved


def under_way(partition):
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def test_new_replicas_are_added_beside_the_old_ones(image):
    code, moving = move(image, [4, 5, 1])
    assert code is ErrorCode.NONE
    now = only(moving)
    assert under_way(now) == ((4, 5, 1, 2, 3), (4, 5), (2, 3))
    assert (now.leader, now.isr) == (1, (1, 2, 3))
    assert now.leader_epoch == only(image).leader_epoch
    assert now.directories == tuple(map(directory_id, (4, 5, 1, 2, 3)))


@pytest.mark.parametrize(
    ("replicas", "leader", "isr"),
    [([3, 2, 1], 1, (1, 2, 3)), ([2, 3], 2, (2, 3)), ([1], 1, (1,))],
)
def test_a_move_that_adds_nobody_is_over_at_once(image, replicas, leader, isr):
    _, now = move(image, replicas)
    assert under_way(only(now)) == (tuple(replicas), (), ())
    assert (only(now).leader, only(now).isr) == (leader, isr)


def test_replicas_that_are_where_they_should_be_need_no_record(image):
    assert move(image, [1, 2, 3]) == (ErrorCode.NONE, image)


def test_the_last_target_counts(image):
    _, now = move(image, [4, 5, 1])
    _, now = move(now, [1, 4, 6])
    assert under_way(only(now)) == ((1, 4, 6, 2, 3, 5), (4, 6), (2, 3, 5))
    # One that was still being added has to catch up for the new target too.
    now = changed(now, isr=(1, 2, 3, 6))
    _, still = move(now, [1, 4, 6])
    assert only(still).adding_replicas == (4, 6)


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([-1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_what_cannot_be_is_refused(image, replicas, code):
    assert move(image, replicas) == (code, image)


def test_the_number_of_replicas_stays_where_it_must(image):
    fixed = {"may_change_replica_count": False}
    refused = ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(image, [4, 5], **fixed) == (refused, image)
    code, moving = move(image, [4, 5, 6], **fixed)
    assert code is ErrorCode.NONE
    assert move(moving, [4, 5, 6, 1], **fixed) == (refused, moving)
    assert move(moving, [1, 2, 3], **fixed)[0] is ErrorCode.NONE


def test_an_unknown_partition_is_told(image):
    wanted = [
        WantedReplicas("t", 1, (1,)),
        WantedReplicas("t", -1, None),
        WantedReplicas("x", 0, (1,)),
    ]
    answers, same = decided(image, alter_reassignments(image, wanted))
    assert {one.error for one in answers} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert same == image


def test_fenced_brokers_may_be_moved_to(image):
    image = after(image, fence_broker(image, 4))
    code, moving = move(image, [4])
    assert (code, under_way(only(moving))) == (ErrorCode.NONE, ((4, 1, 2, 3), (4,), (1, 2, 3)))


def test_a_replica_may_stay_on_a_broker_that_is_not_registered(image):
    """With ZooKeeper a broker that is down is not registered."""
    image = after(image, broker_left(image, 3))
    code, moving = move(image, [1, 3, 4])
    assert (code, under_way(only(moving))) == (ErrorCode.NONE, ((1, 3, 4, 2), (4,), (2,)))
    assert move(after(image, broker_left(image, 5)), [1, 5])[0] is (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )


# Cancelling


def test_cancelling_drops_those_that_were_added(image):
    _, moving = move(image, [4, 5, 1])
    moving = changed(moving, isr=(1, 2, 4))
    code, back = move(moving, None)
    assert code is ErrorCode.NONE
    assert under_way(only(back)) == ((1, 2, 3), (), ())
    assert (only(back).isr, only(back).leader) == ((1, 2), 1)
    # The one that is dropped must hear of it as a new leadership.
    assert only(back).leader_epoch == only(moving).leader_epoch + 1


def test_cancelling_moves_the_leader_back(image):
    _, moving = move(image, [4, 1, 2])
    moving = changed(moving, isr=(4, 2), leader=4)
    _, back = move(moving, None)
    assert (only(back).leader, only(back).isr) == (2, (2,))
    assert not only(back).recovering


def only_added_in_sync(image):
    _, moving = move(image, [4, 1, 2])
    return changed(moving, isr=(4,), leader=4)


def test_cancelling_would_lose_records_where_only_the_added_are_in_sync(image):
    moving = only_added_in_sync(image)
    assert move(moving, None) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, moving)
    eligible = changed(moving, eligible_leaders=(2,))
    code, back = move(eligible, None)
    assert code is ErrorCode.NONE
    assert (only(back).leader, only(back).isr, only(back).recovering) == (2, (2,), False)


@pytest.mark.parametrize("features", [{"eligible.leader.replicas.version": 1}, {}])
def test_cancelling_may_lose_records_where_that_is_allowed(features):
    image = cluster({"unclean.leader.election.enable": "true"}, MetadataImage(features=features))
    moving = only_added_in_sync(image)
    code, back = move(moving, None)
    assert code is ErrorCode.NONE
    now = only(back)
    assert (now.leader, now.isr, now.recovering) == (1, (1,), True)
    assert set(now.isr) <= set(now.replicas)


def test_a_partition_without_a_leader_can_be_cancelled(image):
    moving = only_added_in_sync(image)
    moving = changed(moving, isr=(), leader=NO_LEADER, eligible_leaders=(4, 2))
    _, back = move(moving, None)
    assert (only(back).leader, only(back).eligible_leaders) == (2, ())


# Listing


def test_moves_under_way_are_listed(image):
    assert set(list_reassignments(image)) == {None}
    _, moving = move(image, [4, 5, 1])
    for wanted in (None, {"t": [0]}):
        (listed,) = list_reassignments(moving, wanted)
        assert listed == ("t", only(moving))
    assert set(list_reassignments(moving, {"t": [1, -1], "x": [0]})) == {None}
