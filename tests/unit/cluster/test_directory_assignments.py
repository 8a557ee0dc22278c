"""Where replicas lie: what the controller notes of it, and who may lead because of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import (
    after,
    decided,
    directory_id,
    registration,
    with_brokers,
    with_topic,
)
from moldau.cluster.brokers import register_broker, unfence_broker
from moldau.cluster.changes import BrokerChanged, PartitionChanged
from moldau.cluster.directory_assignments import ReplicaDirectory, assign_directories
from moldau.cluster.image import MetadataImage
from moldau.cluster.isr_changes import IsrProposal, alter_partitions
from moldau.cluster.model import LOST_DIRECTORY, NO_LEADER, UNASSIGNED_DIRECTORY
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ApiError, ErrorCode

SECOND = b"e" * 16
FEATURES = {"metadata.version": 30, "eligible.leader.replicas.version": 1}


def cluster(replicas=(1, 2, 3), **configs):
    """Broker 1 has two log directories, and has not said yet where its replica lies."""
    image = with_brokers([1, 2, 3], image=MetadataImage(features=FEATURES))
    both = directory_id(1), SECOND
    image = after(image, [BrokerChanged(1, image.brokers[1].epoch, log_directories=both)])
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    return with_topic(image, NewTopic("a", assignments={0: replicas}, configs=settings))


def only(image):
    return image.topics["a"].partitions[0]


def assigned(image, *directories, broker_id=1):
    topic_id = image.topics["a"].id
    replicas = [ReplicaDirectory(topic_id, 0, directory) for directory in directories]
    epoch = image.brokers[broker_id].epoch
    answers, later = decided(image, assign_directories(image, broker_id, epoch, replicas))
    assert [one.replica for one in answers] == replicas
    assert {one.error for one in answers} == {ErrorCode.NONE}
    return later


def test_a_directory_is_noted_without_an_election():
    image = cluster()
    assert only(image).directories[0] == UNASSIGNED_DIRECTORY
    later = assigned(image, SECOND)
    assert only(later) == replace(
        only(image),
        directories=(SECOND, directory_id(2), directory_id(3)),
        partition_epoch=only(image).partition_epoch + 1,
    )
    assert assigned(later, SECOND) == later
    # Of a replica that is named twice the last place counts.
    assert only(assigned(image, SECOND, directory_id(1))).directories[0] == directory_id(1)


def test_a_replica_in_a_directory_that_has_failed_meanwhile_leaves():
    image = cluster(min_insync_replicas="3")
    image = after(image, [BrokerChanged(1, image.brokers[1].epoch, log_directories=(SECOND,))])
    for directory in (directory_id(1), LOST_DIRECTORY):
        later = only(assigned(image, directory))
        assert (later.leader, later.isr, later.eligible_leaders) == (2, (2, 3), ())
        assert later.directories[0] == directory
    assert only(assigned(image, SECOND)).leader == 1


def replaced_disk(image, **parts):
    """Broker 1 comes back with another directory than the one its replica is recorded in."""
    image = assigned(image, directory_id(1))
    topic_id = image.topics["a"].id
    if parts:
        image = after(image, [PartitionChanged(topic_id, 0, **parts)])
    again = replace(
        registration(1, incarnation=99, previous_epoch=image.brokers[1].epoch),
        log_directories=(b"f" * 16,),
    )
    image = after(image, register_broker(image, again))
    return after(image, unfence_broker(image, image.brokers[1]))


def test_a_replica_that_was_made_anew_elsewhere_joins_once_its_directory_is_known():
    image = replaced_disk(cluster())
    partition = only(image)
    assert (partition.leader, partition.isr) == (2, (2, 3))

    def joins(image):
        partition, members = only(image), (2, 3, 1)
        proposal = IsrProposal(
            image.topics["a"].id,
            0,
            partition.leader_epoch,
            partition.partition_epoch,
            tuple((one, image.brokers[one].epoch) for one in members),
        )
        steps = alter_partitions(image, 2, image.brokers[2].epoch, [proposal])
        ((answer,), _) = decided(image, steps)
        return answer.error

    assert joins(image) is ErrorCode.INELIGIBLE_REPLICA
    assert joins(assigned(image, b"f" * 16)) is ErrorCode.NONE


def test_the_only_replica_leads_again_once_its_directory_is_known():
    image = replaced_disk(cluster(replicas=(1,)))
    assert only(image).leader == NO_LEADER
    later = only(assigned(image, b"f" * 16))
    assert (later.leader, later.isr) == (1, (1,))
    assert later.leader_epoch == only(image).leader_epoch + 1


def test_a_replica_whose_directory_is_gone_is_not_eligible_after_an_orderly_stop():
    image = replaced_disk(
        cluster(min_insync_replicas="2"), isr=(2,), leader=2, eligible_leaders=(1,)
    )
    assert only(image).eligible_leaders == ()


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"topic_id": b"unknown........."}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_replica_that_the_broker_does_not_have_is_refused_by_itself(parts, error):
    image = with_topic(cluster(replicas=(2, 3)), NewTopic("b", assignments={0: [1, 2]}))
    wrong = replace(ReplicaDirectory(image.topics["a"].id, 0, SECOND), **parts)
    right = ReplicaDirectory(image.topics["b"].id, 0, SECOND)
    steps = assign_directories(image, 1, image.brokers[1].epoch, [wrong, right])
    answers, later = decided(image, steps)
    assert [one.error for one in answers] == [error, ErrorCode.NONE]
    assert later.topics["a"] == image.topics["a"]
    assert later.topics["b"].partitions[0].directories[0] == SECOND


@pytest.mark.parametrize(
    ("features", "epoch", "code"),
    [
        (FEATURES, -7, ErrorCode.STALE_BROKER_EPOCH),
        ({"metadata.version": 16}, 0, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_request_is_refused_whole(features, epoch, code):
    image = replace(cluster(), features=features)
    with pytest.raises(ApiError) as refused:
        next(assign_directories(image, 1, image.brokers[1].epoch + epoch, []))
    assert refused.value.code is code
