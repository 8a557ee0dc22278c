"""Answers about topics and groups, whichever way they come, in one form."""

from __future__ import annotations

import pytest

from moldau.client.administration.group_descriptions import classic_group, consumer_group
from moldau.client.administration.topic_descriptions import (
    described_by_metadata,
    described_by_pages,
)
from moldau.client.assignors.consumer_protocol import encode_assignment, encode_subscription
from moldau.client.assignors.interface import Assignment, Subscription
from moldau.client.errors import BrokerError, UnknownTopicOrPartition
from moldau.client.records import TopicPartition
from moldau.protocol.messages.consumer_groups import (
    DescribedConsumerAssignment,
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
    DescribedConsumerTopicPartitions,
)
from moldau.protocol.messages.groups import DescribedGroup, DescribedGroupMember
from moldau.protocol.messages.metadata import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID = b"0123456789abcdef"


def page(name, *partitions, error=0):
    told = [
        DescribeTopicPartitionsResponsePartition(0, number, 1, 5, [1, 2], [1], [2], None, [])
        for number in partitions
    ]
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error, name, ID, partitions=told)]
    )


def test_a_topic_cut_by_pages_is_put_together_in_order():
    (told,) = described_by_pages([page("t", 0, 1), page("t", 1, 3, 2)])
    assert [one.partition for one in told.outcome.partitions] == [0, 1, 2, 3]
    assert told.outcome.topic_id == ID
    assert told.outcome.partitions[0].eligible_leader_replicas == (2,)
    assert told.outcome.partitions[0].last_known_elr is None


def test_a_topic_that_is_not_there_is_an_error_of_its_own():
    there, missing = described_by_pages([page("t", 0), page("u", error=3)])
    assert there.outcome.name == "t"
    assert isinstance(missing.outcome, UnknownTopicOrPartition)


def test_what_an_old_broker_does_not_tell_is_none():
    partition = MetadataResponsePartition(5, 0, -1, -1, [1], [])
    answer = MetadataResponse(topics=[MetadataResponseTopic(0, "t", partitions=[partition])])
    (told,) = described_by_metadata(answer)
    (described,) = told.outcome.partitions
    assert told.outcome.topic_id is None
    assert described.leader is None
    assert described.leader_epoch is None
    assert described.eligible_leader_replicas is None


def test_an_answer_that_is_an_error_as_a_whole_is_raised():
    with pytest.raises(BrokerError, match="REBOOTSTRAP_REQUIRED"):
        described_by_metadata(MetadataResponse(error_code=129))


def member(metadata, assignment):
    return DescribedGroupMember("m", "i", "c", "/h", metadata, assignment)


def test_a_consumer_tells_what_it_wants_and_has():
    wants = encode_subscription(Subscription(("t", "u")))
    has = encode_assignment(Assignment((TopicPartition("t", 1),)))
    group = classic_group(
        DescribedGroup(0, None, "g", "Stable", "consumer", "range", [member(wants, has)]), 7
    )
    (one,) = group.members
    assert one.topics == {"t", "u"}
    assert one.assignment == {("t", 1)}
    assert one.instance_id == "i"
    assert (group.type, group.assignor, group.coordinator) == ("classic", "range", 7)


@pytest.mark.parametrize("kind", ["consumer", "connect"])
def test_bytes_that_are_no_assignment_do_not_hide_the_group(kind):
    group = classic_group(
        DescribedGroup(0, None, "g", "Stable", kind, "own", [member(b"\x7f", b"garbage")]), 7
    )
    assert group.members[0].member_id == "m"
    assert group.members[0].assignment == frozenset()


def test_a_group_whose_broker_assigns_tells_what_comes_next():
    now = DescribedConsumerAssignment([DescribedConsumerTopicPartitions(ID, "t", [0, 1])])
    then = DescribedConsumerAssignment([DescribedConsumerTopicPartitions(ID, "t", [0])])
    told = DescribedConsumerGroup(
        group_id="g",
        group_state="Reconciling",
        group_epoch=4,
        assignment_epoch=3,
        assignor_name="uniform",
        members=[
            DescribedConsumerGroupMember("m", None, "r", 2, "c", "/h", ["t"], None, now, then)
        ],
    )
    group = consumer_group(told, 1)
    assert (group.type, group.epoch, group.target_assignment_epoch) == ("consumer", 4, 3)
    assert group.members[0].assignment == {("t", 0), ("t", 1)}
    assert group.members[0].target_assignment == {("t", 0)}
    assert group.members[0].epoch == 2
