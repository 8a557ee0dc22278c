"""A fetch of one partition by position: what the codecs read and write, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.protocol.messages.data import (
    AbortedTransaction,
    DivergingEpoch,
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from moldau.protocol.registry import encode_request, encode_response, find_api
from moldau.protocol.single_fetch import (
    FETCH_KEY,
    FIRST_VERSION,
    LAST_VERSION,
    SingleFetchRequest,
    read_answer,
    read_request,
    request_body,
    write_answer,
    write_request,
)

FETCH = find_api(FETCH_KEY)
TOPIC_ID, OTHER_ID = b"t" * 16, b"o" * 16
VERSIONS = range(FIRST_VERSION, LAST_VERSION + 1)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
# broker id and epoch, three limits, session and its epoch, then the partition
NUMBERS = st.tuples(*[INT32, INT64], *[INT32] * 5, *[INT32] * 2, INT64, INT32, INT64, INT32)
FIELDS = (
    "broker_id", "broker_epoch", "max_wait_ms", "min_bytes", "max_bytes", "session_id",
    "session_epoch", "topic_id", "index", "leader_epoch", "fetch_offset", "last_fetched_epoch",
    "log_start_offset", "partition_max_bytes", "isolation_level",
)  # fmt: skip
CONSUMER = (-1, -1)
SOME = (7, 99, 500, 1, 10_000, 5, 6, 3, 4, 55, 2, 1, 77)


def asked(numbers=SOME, isolation_level=0):
    return SingleFetchRequest(*numbers[:7], TOPIC_ID, *numbers[7:], isolation_level)


def request(numbers=SOME, **changes):
    broker_id, broker_epoch, wait_ms, min_bytes, max_bytes, session_id, epoch, *partition = numbers
    fields = {
        "replica_state": FetchReplicaState(broker_id, broker_epoch),
        "max_wait_ms": wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "session_id": session_id,
        "session_epoch": epoch,
        "topics": [FetchTopic("", TOPIC_ID, [FetchPartition(*partition)])],
    }
    return FetchRequest(**fields | changes)


def framed(message, version=17, client_id="client"):
    return b"".join(encode_request(FETCH, version, 42, client_id, message))


def values(one):
    return [getattr(one, name) for name in FIELDS]


@pytest.mark.parametrize("version", VERSIONS)
@given(numbers=NUMBERS, client_id=st.text(max_size=20))
def test_a_request_is_read_and_written_as_by_the_codec(version, numbers, client_id):
    if numbers[:2] == CONSUMER:
        return
    frame = framed(request(numbers), version, client_id)
    read = read_request(memoryview(frame)[4:])
    assert values(read) == values(asked(numbers))
    assert write_request(version, 42, client_id.encode(), request_body(read)) == frame


@pytest.mark.parametrize("version", VERSIONS)
@given(numbers=NUMBERS, client_id=st.text(max_size=20), isolation_level=st.integers(-128, 127))
def test_a_consumers_request_is_read_as_by_the_codec(version, numbers, client_id, isolation_level):
    numbers = CONSUMER + numbers[2:]
    frame = framed(request(numbers, isolation_level=isolation_level), version, client_id)
    assert values(read_request(memoryview(frame)[4:])) == values(asked(numbers, isolation_level))


ONE = FetchPartition(*SOME[7:])
IN_DIRECTORY = FetchPartition(*SOME[7:], replica_directory_id=OTHER_ID)


@pytest.mark.parametrize(
    "other",
    [
        framed(request(), FIRST_VERSION - 1),
        framed(request(), client_id=None),
        framed(request(topics=[])),
        framed(request(topics=[FetchTopic("", TOPIC_ID, [ONE, ONE])])),
        framed(request(topics=[FetchTopic("", TOPIC_ID, [ONE]), FetchTopic("", OTHER_ID, [ONE])])),
        framed(request(topics=[FetchTopic("", TOPIC_ID, [])])),
        framed(request(forgotten_topics_data=[ForgottenTopic("", TOPIC_ID, [1])])),
        framed(request(rack_id="r")),
        framed(request(CONSUMER + SOME[2:], rack_id="r")),
        framed(request(CONSUMER + SOME[2:])) + b"\0",
        framed(request(CONSUMER + SOME[2:]))[:-1],
        framed(request(cluster_id="c")),
        framed(request(topics=[FetchTopic("", TOPIC_ID, [IN_DIRECTORY])])),
        framed(request()) + b"\0",
        framed(request())[:-1],
        b"\0\0\0\1\0",
    ],
)  # fmt: skip
def test_any_other_request_is_left_to_the_codec(other):
    assert read_request(memoryview(other)[4:]) is None


@pytest.mark.parametrize(("sender", "around"), [(SOME[:2], 7 + 1), (CONSUMER, 5)])
def test_a_request_with_a_byte_changed_is_read_as_the_codec_reads_it_or_not_at_all(sender, around):
    frame = framed(request(sender + SOME[2:]))
    unread = 0
    for number in range(4, len(frame)):
        changed = bytearray(frame)
        changed[number] ^= 64
        unread += read_request(memoryview(changed)[4:]) is None
    # version (a high one), length of the client id, tags, counts, and what is around the replica;
    # the key is looked at by who calls
    assert unread == 2 + 2 + 1 + 2 + around


def answer(content, **changes):
    fields = {"aborted_transactions": None, "records": (content,) if content else ()}
    figures = {"high_watermark": 10, "last_stable_offset": 9, "log_start_offset": 8}
    told = FetchablePartitionResponse(3, **figures | fields | changes)
    return FetchResponse(
        session_id=5, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[told])]
    )


def framed_answer(message, version=17):
    return b"".join(encode_response(FETCH, version, 42, message))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 16_382, 16_383, 3_000_000])
def test_an_answer_is_read_and_written_as_by_the_codec(version, size):
    records = b"r" * size
    frame = framed_answer(answer(records), version)
    before, after = write_answer(42, asked(), (10, 9, 8), size)
    assert before + records + after == frame
    read = read_answer(memoryview(frame)[4:])
    assert bytes(read.records) == records
    figures = (read.session_id, read.index, read.high_watermark, read.log_start_offset)
    assert (read.topic_id, *figures) == (TOPIC_ID, 5, 3, 10, 8)


def test_a_reader_of_what_is_committed_is_told_that_nothing_was_aborted():
    before, after = write_answer(42, asked(), (10, 9, 8), 5, tells_transactions=True)
    frame = framed_answer(answer(b"12345", aborted_transactions=[]))
    assert before + b"12345" + after == frame


def refused(**changes):
    message = answer(b"r" * 200)
    for name, value in changes.items():
        setattr(message, name, value)
    return framed_answer(message)


TOLD = answer(b"r").responses[0]
TWO_TOLD = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=TOLD.partitions * 2)


@pytest.mark.parametrize(
    "other",
    [
        refused(throttle_time_ms=1),
        refused(error_code=70),
        refused(responses=[]),
        refused(responses=[TOLD, TOLD]),
        refused(responses=[TWO_TOLD]),
        framed_answer(answer(b"r", error_code=6)),
        framed_answer(answer(b"r", diverging_epoch=DivergingEpoch(1, 2))),
        framed_answer(answer(b"r", aborted_transactions=[])),
        framed_answer(answer(b"r", aborted_transactions=[AbortedTransaction(1, 2)])),
        framed_answer(answer(b"r", preferred_read_replica=2)),
        framed_answer(answer(b"r", records=None)),
        framed_answer(answer(b"r" * 200))[:-1],
        framed_answer(answer(b"r" * 200)) + b"\0",
        framed_answer(answer(b"r" * 200))[:83],
        b"\0\0\0\4\0\0\0\0",
    ],
)  # fmt: skip
def test_any_other_answer_is_left_to_the_codec(other):
    assert read_answer(memoryview(other)[4:]) is None
