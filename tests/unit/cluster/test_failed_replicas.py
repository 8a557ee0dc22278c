"""Replicas that brokers cannot read, as a controller on ZooKeeper remembers them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import decided, topic_id, with_brokers, with_topic
from moldau.cluster.failed_replicas import FailedReplicas
from moldau.cluster.isr_changes import IsrProposal, alter_partitions
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ErrorCode

FIRST, SECOND = (topic_id(1), 0), (topic_id(1), 1)


@pytest.fixture
def broker():
    return with_brokers([1, 2]).brokers[2]


def test_a_replica_has_failed_until_it_can_be_read_or_its_broker_begins_anew(broker):
    failed = FailedReplicas()
    failed.remove(broker.id, [FIRST])
    assert not failed.has(broker, FIRST)
    failed.add(broker.id, broker.epoch, [FIRST])
    failed.add(broker.id, broker.epoch, [SECOND])
    assert failed.has(broker, FIRST)
    assert failed.has(broker, SECOND)
    failed.remove(broker.id, [SECOND])
    assert failed.has(broker, FIRST)
    assert not failed.has(broker, SECOND)
    again = replace(broker, epoch=broker.epoch + 1)
    assert not failed.has(again, FIRST)
    failed.add(broker.id, again.epoch, [SECOND])
    assert failed.has(again, SECOND)
    assert not failed.has(again, FIRST)


def test_a_failed_replica_may_not_join_an_isr():
    image = with_topic(with_brokers([1, 2]), NewTopic("t", assignments={0: [1, 2], 1: [1, 2]}))
    topic, failed = image.topics["t"], FailedReplicas()
    failed.add(image.brokers[2].id, image.brokers[2].epoch, [(topic.id, 0)])
    members = tuple((one, image.brokers[one].epoch) for one in (1, 2))
    proposals = [
        IsrProposal(topic.id, one.index, one.leader_epoch, one.partition_epoch, members)
        for one in topic.partitions
    ]
    epoch = image.brokers[1].epoch
    steps = alter_partitions(image, image.brokers[1].id, epoch, proposals, failed=failed)
    answers, _ = decided(image, steps)
    assert [one.error for one in answers] == [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NONE]
