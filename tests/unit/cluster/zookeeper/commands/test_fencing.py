"""Commands of an older controller, or for another life of the broker, are refused."""

from __future__ import annotations

import pytest

from kits.metadata_samples import topic_id
from moldau.base.ids import ZERO_TOPIC_ID, BrokerId, PartitionKey
from moldau.cluster.changes import PartitionCreated, TopicCreated
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Partition
from moldau.cluster.zookeeper.commands.fencing import (
    CommandFence,
    Verdict,
    role_verdicts,
    stop_verdicts,
)
from moldau.cluster.zookeeper.commands.outgoing import (
    Sender,
    leader_and_isr,
    stop_replica,
)
from moldau.cluster.zookeeper.commands.touched import Touched
from moldau.protocol.messages.replication import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)

STALE_CONTROLLER, STALE_BROKER, UNKNOWN, FENCED = 11, 77, 3, 74
ID = topic_id(1)
ME = BrokerId(1)
IMAGE = MetadataImage().apply(
    [
        TopicCreated("t", ID),
        PartitionCreated(ID, Partition(0, (1, 2), (1, 2), 1, 5, 9)),
        PartitionCreated(ID, Partition(1, (2, 3), (2, 3), 2, 5, 9)),
    ],
    1,
)


def test_a_newer_controller_fences_older_ones():
    fence = CommandFence()
    assert fence.check(1, 3, 50, 50) is None
    assert fence.check(2, 4, 50, 50) is None
    assert (fence.controller_id, fence.controller_epoch) == (2, 4)
    assert fence.check(1, 3, 50, 50) == STALE_CONTROLLER
    assert fence.check(2, 4, 50, 50) is None


def test_a_controller_that_was_heard_of_fences_as_well():
    fence = CommandFence()
    fence.hear_of(2, 4)
    fence.hear_of(1, 3)
    assert (fence.controller_id, fence.controller_epoch) == (2, 4)
    assert fence.check(1, 3, 50, 50) == STALE_CONTROLLER


def test_no_two_controllers_have_the_same_epoch():
    fence = CommandFence()
    assert fence.check(2, 4, 50, 50) is None
    assert fence.check(1, 4, 50, 50) == STALE_CONTROLLER
    assert fence.controller_id == 2


@pytest.mark.parametrize("epoch", [-1, -5])
def test_no_controller_has_such_an_epoch(epoch):
    assert CommandFence().check(1, epoch, 50, 50) == STALE_CONTROLLER


@pytest.mark.parametrize(
    ("meant_for", "own", "error"),
    [(50, 50, None), (49, 50, STALE_BROKER), (51, 50, STALE_BROKER), (-1, 50, None)],
)
def test_a_command_is_for_one_life(meant_for, own, error):
    assert CommandFence().check(1, 3, meant_for, own) == error


def test_a_broker_that_has_not_registered_carries_nothing_out():
    assert CommandFence().check(1, 3, 50, -1) == STALE_BROKER


def test_a_command_for_another_life_tells_of_its_controller():
    fence = CommandFence()
    assert fence.check(2, 4, 49, 50) == STALE_BROKER
    assert fence.check(1, 3, 50, 50) == STALE_CONTROLLER


def role(index, leader_epoch, partition_epoch, topic=ID, name="t"):
    state = LeaderAndIsrPartitionState(
        partition_index=index, leader_epoch=leader_epoch, partition_epoch=partition_epoch
    )
    return LeaderAndIsrRequest(topic_states=[LeaderAndIsrTopicState(name, topic, [state])])


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        pytest.param(role(0, 5, 9), None, id="the-state-of-the-image"),
        pytest.param(role(0, 6, 10), None, id="newer"),
        pytest.param(role(0, 4, 9), STALE_CONTROLLER, id="older-leader-epoch"),
        pytest.param(role(0, 5, 8), STALE_CONTROLLER, id="older-partition-epoch"),
        pytest.param(role(1, 5, 9), UNKNOWN, id="no-replica-here"),
        pytest.param(role(2, 5, 9), UNKNOWN, id="no-such-partition"),
        pytest.param(role(-1, 5, 9), UNKNOWN, id="no-partition-at-all"),
        pytest.param(role(0, 5, 9, topic_id(2)), UNKNOWN, id="another-topic-id"),
        pytest.param(role(0, 5, 9, ID, "u"), UNKNOWN, id="no-such-topic"),
        pytest.param(role(0, 5, 9, ZERO_TOPIC_ID), None, id="a-version-without-topic-ids"),
    ],
)
def test_roles_are_judged_by_the_image(request_, error):
    (verdict,) = role_verdicts(IMAGE, ME, request_)
    (topic,) = request_.topic_states
    key = PartitionKey(topic.topic_name, topic.partition_states[0].partition_index)
    assert verdict == Verdict(key, topic.topic_id, error)


def stop(index, leader_epoch, name="t"):
    state = StopReplicaPartitionState(index, leader_epoch, delete_partition=True)
    return StopReplicaRequest(topic_states=[StopReplicaTopicState(name, [state])])


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        pytest.param(stop(1, 5), None, id="moved-away"),
        pytest.param(stop(1, 6), None, id="newer"),
        pytest.param(stop(1, 4), FENCED, id="older"),
        pytest.param(stop(1, -2), None, id="a-topic-of-this-name-was-deleted"),
        pytest.param(stop(1, -1), None, id="a-version-without-leader-epochs"),
        pytest.param(stop(0, -2, "gone"), None, id="topic-deleted"),
        pytest.param(stop(0, 3, "gone"), None, id="not-in-the-image"),
        pytest.param(stop(0, 4), FENCED, id="given-to-this-broker-since"),
        pytest.param(stop(0, 5), FENCED, id="given-to-this-broker"),
        pytest.param(stop(0, 99), FENCED, id="given-to-this-broker-whatever-the-epoch"),
        pytest.param(stop(0, -2), FENCED, id="made-again-under-its-name"),
        pytest.param(stop(0, -1), FENCED, id="given-to-this-broker-without-epoch"),
    ],
)
def test_no_replica_of_the_image_is_deleted(request_, error):
    """KAFKA-9539: a StopReplica that comes late must not delete a newer replica."""
    (verdict,) = stop_verdicts(IMAGE, ME, request_)
    (topic,) = request_.topic_states
    key = PartitionKey(topic.topic_name, topic.partition_states[0].partition_index)
    assert verdict == Verdict(key, ZERO_TOPIC_ID, error)


def test_commands_that_follow_an_update_are_carried_out():
    older = MetadataImage().apply(
        [
            TopicCreated("t", ID),
            PartitionCreated(ID, Partition(0, (2, 3), (2,), 2, 4, 8)),
            PartitionCreated(ID, Partition(1, (1, 2), (2,), 2, 4, 8)),
            TopicCreated("gone", topic_id(2)),
            PartitionCreated(topic_id(2), Partition(0, (1,), (1,), 1, 4, 8)),
        ],
        0,
    )
    between = (Sender(BrokerId(9), 1), ME, 50, older, IMAGE, Touched(all=True))
    (roles,) = [request for request in leader_and_isr(*between) if request]
    (stops,) = [request for request in stop_replica(*between) if request]
    started = list(role_verdicts(IMAGE, ME, roles))
    assert started == [Verdict(PartitionKey("t", 0), ID, None)]
    stopped = list(stop_verdicts(IMAGE, ME, stops))
    assert stopped == [
        Verdict(PartitionKey("gone", 0), ZERO_TOPIC_ID, None),
        Verdict(PartitionKey("t", 1), ZERO_TOPIC_ID, None),
    ]
