"""Fetch requests say what is wanted, and answers tell only of that."""

from __future__ import annotations

import pytest

from moldau.base.ids import ZERO_TOPIC_ID
from moldau.engine.errors import CorruptAnswer
from moldau.engine.fetch_requests import (
    TOPIC_ID_VERSION,
    FetchLimits,
    by_partition,
    fetch_request,
    fetch_version,
    without_session,
)
from moldau.engine.fetch_sessions import FetchPosition, SessionRequest
from moldau.engine.partitions import TopicPartition
from moldau.protocol.compiler import decode, encode
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID_A, ID_B = b"a" * 16, b"b" * 16
WANTED = {
    A0: FetchPosition(ID_A, 5, 2, 100),
    A1: FetchPosition(ID_A, 6, 3, 100),
    B0: FetchPosition(ID_B, 7, -1, 9),
}
LIMITS = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=1000, isolation=1, rack="here")


@pytest.mark.parametrize("version", [11, 12, TOPIC_ID_VERSION, 18])
def test_a_request_names_every_partition_once_under_its_topic(version):
    request = fetch_request(without_session(WANTED), LIMITS)
    read = decode(FetchRequest, version, encode(request, version))
    named = [
        (topic.topic or topic.topic_id, one.partition, one.fetch_offset, one.current_leader_epoch)
        for topic in read.topics
        for one in topic.partitions
    ]
    a, b = ("a", "b") if version < TOPIC_ID_VERSION else (ID_A, ID_B)
    assert named == [(a, 0, 5, 2), (a, 1, 6, 3), (b, 0, 7, -1)]
    assert (read.session_id, read.session_epoch) == (0, -1)
    assert (read.max_wait_ms, read.max_bytes, read.isolation_level) == (500, 1000, 1)
    assert read.rack_id == "here"


def test_a_session_says_what_it_forgets_under_the_old_id():
    asked = SessionRequest(7, 3, {A0: WANTED[A0]}, [(ID_A, A1), (ID_B, B0)])
    request = fetch_request(asked, LIMITS)
    assert (request.session_id, request.session_epoch, len(request.topics)) == (7, 3, 1)
    forgotten = [(one.topic, one.topic_id, one.partitions) for one in request.forgotten_topics_data]
    assert forgotten == [("a", ID_A, [1]), ("b", ID_B, [0])]


def test_topics_are_named_by_ids_only_if_all_of_them_are_known():
    assert fetch_version(18, WANTED) == 18
    unknown = {**WANTED, B0: FetchPosition(ZERO_TOPIC_ID, 7, -1, 9)}
    assert fetch_version(18, unknown) == TOPIC_ID_VERSION - 1
    assert fetch_version(4, unknown) == 4


def told(topic="", topic_id=ZERO_TOPIC_ID, partition=0):
    return FetchableTopicResponse(
        topic, topic_id, [FetchablePartitionResponse(partition_index=partition)]
    )


def test_an_answer_is_read_by_name_or_by_id():
    assert by_partition([told("a"), told(topic_id=ID_B)], WANTED).keys() == {A0, B0}


@pytest.mark.parametrize("wrong", [told("c"), told("a", partition=2), told(topic_id=b"c" * 16)])
def test_an_answer_about_anything_else_is_refused(wrong):
    with pytest.raises(CorruptAnswer, match="not requested"):
        by_partition([wrong], WANTED)
