"""Requests for offsets, in every version a broker may speak."""

from __future__ import annotations

import pytest

from moldau.client.errors import GroupAuthorizationFailed, UnknownTopicOrPartition
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.engine.offset_requests import (
    NEWEST_VERSION,
    commit_error,
    commit_request,
    committed_offsets,
    fetch_request,
)
from moldau.protocol.compiler import decode, encode
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

OFFSETS = {
    TopicPartition("a", 1): OffsetAndMetadata(10, "note", 3),
    TopicPartition("a", 0): OffsetAndMetadata(0),
    TopicPartition("b", 2): OffsetAndMetadata(2**40),
}


@pytest.mark.parametrize("version", range(1, NEWEST_VERSION + 1))
def test_a_commit_says_the_same_in_every_version_that_can_say_it(version):
    made = commit_request("g", OFFSETS, member_id="me", generation=5, instance_id="one")
    read = decode(OffsetCommitRequest, version, encode(made, version))
    assert (read.group_id, read.member_id, read.generation_id_or_member_epoch) == ("g", "me", 5)
    assert read.group_instance_id == ("one" if version >= 7 else None)
    found = {
        TopicPartition(topic.name, one.partition_index): (
            one.committed_offset,
            one.committed_metadata,
            one.committed_leader_epoch,
        )
        for topic in read.topics
        for one in topic.partitions
    }
    epoch = 3 if version >= 6 else -1
    assert found == {
        TopicPartition("a", 1): (10, "note", epoch),
        TopicPartition("a", 0): (0, "", -1),
        TopicPartition("b", 2): (2**40, "", -1),
    }


def answer_to_commit(*codes):
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=at.topic, partitions=[OffsetCommitResponsePartition(at.partition, code)]
            )
            for at, code in zip(OFFSETS, codes, strict=True)
        ]
    )


def test_a_commit_without_errors_is_kept():
    assert commit_error(answer_to_commit(0, 0, 0), OFFSETS) is None


def test_the_error_that_does_not_pass_comes_first():
    loading, forbidden = (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    )
    error = commit_error(answer_to_commit(loading, forbidden, 0), OFFSETS)
    assert isinstance(error, GroupAuthorizationFailed)


def test_an_error_of_one_topic_names_its_partitions():
    error = commit_error(answer_to_commit(0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), OFFSETS)
    assert isinstance(error, UnknownTopicOrPartition)
    assert "b-2" in str(error)


@pytest.mark.parametrize("version", range(1, NEWEST_VERSION + 1))
def test_committed_offsets_are_asked_for_and_read_in_every_version(version):
    made = fetch_request("g", sorted(OFFSETS), require_stable=True)
    read = decode(OffsetFetchRequest, version, encode(made, version))
    asked = read.groups[0] if version >= 8 else read
    assert asked.group_id == "g"
    assert [(one.name, one.partition_indexes) for one in asked.topics] == [
        ("a", [0, 1]),
        ("b", [2]),
    ]
    assert read.require_stable is (version >= 7)
    partitions = [
        OffsetFetchResponsePartition(0, -1, -1, "", 0),
        OffsetFetchResponsePartition(1, 10, 3, "note", 0),
    ]
    told = OffsetFetchResponse(
        topics=[OffsetFetchResponseTopic("a", partitions)],
        groups=[
            OffsetFetchResponseGroup("g", [OffsetFetchResponseTopics("a", partitions=partitions)])
        ],
    )
    found = committed_offsets(decode(OffsetFetchResponse, version, encode(told, version)))
    epoch = 3 if version >= 5 else None
    assert found == {TopicPartition("a", 1): OffsetAndMetadata(10, "note", epoch)}


@pytest.mark.parametrize("version", [1, 2, 7, 8, 9])
def test_an_error_is_raised_wherever_a_version_puts_it(version):
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    refused = [OffsetFetchResponsePartition(0, -1, error_code=code if version < 2 else 0)]
    told = OffsetFetchResponse(
        topics=[OffsetFetchResponseTopic("a", refused)],
        error_code=code,
        groups=[OffsetFetchResponseGroup("g", error_code=code)],
    )
    with pytest.raises(GroupAuthorizationFailed):
        committed_offsets(decode(OffsetFetchResponse, version, encode(told, version)))
