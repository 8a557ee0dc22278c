"""What a hostile or broken client can send, over real sockets, against one broker for all tests.

Whatever comes in ends in Kafka's error or in a closed connection and one line in the log. Beside
every test a healthy client writes and reads all the time; it must not notice anything. What the
topics under attack hold must not change, and no traceback is ever written. What it costs in memory
stands in `test_bad_input_memory`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from kafka_harness.waiting import eventually
from moldau.base.limits import ELEMENTS_PER_REQUEST, PLAIN_REQUEST_BYTES
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.protocol.messages.metadata import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from moldau.protocol.messages.topics import CreateTopicsRequest
from moldau.records.batch import HEADER_SIZE
from moldau.records.compression import Codec, compress
from process.attack import (
    COMPACTED,
    FRAME_LIMIT,
    MIB,
    PLAIN,
    TARGETS,
    UNPACKED,
    Healthy,
    Offender,
    broker_under_attack,
    connect,
    forged,
    healthy_client,
    nobody_disturbed,
    request_bytes,
    with_byte,
)
from process.raw_client import FETCH_VERSION, batch_of, fetch_request, produce_request
from process.serving import Serving

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with broker_under_attack(tmp_path_factory.mktemp("bad-input")) as running:
        yield running


@pytest.fixture(scope="module")
def healthy(broker: Serving) -> Iterator[Healthy]:
    with healthy_client(broker) as client:
        yield client


@pytest.fixture(autouse=True)
def undisturbed(broker: Serving, healthy: Healthy) -> Iterator[None]:
    with nobody_disturbed(broker, healthy):
        yield


@pytest.fixture
def client(broker: Serving) -> Iterator[Offender]:
    with connect(broker) as connected:
        yield connected


def error_codes(message: object) -> Iterator[int]:
    """Find every error code in an answer."""
    if isinstance(message, list):
        for one in message:
            yield from error_codes(one)
    elif dataclasses.is_dataclass(message):
        for one in dataclasses.fields(message):
            value = getattr(message, one.name)
            if one.name == "error_code":
                yield value
            else:
                yield from error_codes(value)


VALID_REQUESTS = [
    (MetadataRequest([MetadataRequestTopic(name=PLAIN)]), 9),
    (ListOffsetsRequest(-1, topics=[ListOffsetsTopic(PLAIN, [ListOffsetsPartition(0)])]), 5),
    (fetch_request({(PLAIN, 0): 0}, max_wait_ms=0), FETCH_VERSION),
    (fetch_request({(PLAIN, 0): 0}, max_wait_ms=0), 12),
    (produce_request(PLAIN, b"no batch"), 9),
    (CreateTopicsRequest([]), 5),
    (ApiVersionsRequest("raw", "1"), 3),
]


# Bytes that are no request


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_end_in_an_answer_or_a_closed_connection(broker, seed):
    dice = random.Random(seed)
    for _ in range(25):
        with connect(broker) as client:
            noise = dice.randbytes(dice.randrange(1, 300))
            client.send_frame(noise) if dice.random() < 0.7 else client.send_bytes(noise)
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(65536):
                pass


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_byte_anywhere_in_a_request_ends_in_an_answer_or_a_closed_connection(
    broker, seed
):
    dice = random.Random(seed)
    for request, version in VALID_REQUESTS:
        whole = bytearray(request_bytes(request, version))
        for _ in range(5):
            mutated = bytearray(whole)
            # Not in the key, and not in the version: another message would be read.
            place = dice.randrange(4, len(mutated))
            mutated[place] = dice.randrange(256)
            with connect(broker) as client:
                client.send_frame(bytes(mutated))
                with contextlib.suppress(ConnectionError):
                    answer = client.receive(request, struct.unpack_from(">h", mutated, 2)[0])
                    assert ErrorCode.UNKNOWN_SERVER_ERROR not in error_codes(answer)


@pytest.mark.parametrize(
    ("request_", "version"), VALID_REQUESTS, ids=lambda one: type(one).__name__[:12]
)
def test_a_request_cut_anywhere_closes_the_connection(broker, request_, version):
    whole = request_bytes(request_, version)
    for size in range(0, len(whole), 3):
        with connect(broker) as client:
            client.send_frame(whole[:size])
            assert "ends" in client.closed_with_one_line() or size > 10


@pytest.mark.parametrize("size", [-1, -(2**31), FRAME_LIMIT + 1, 2**31 - 1, 0x16030100, 0x47455420])
def test_an_impossible_frame_size_closes_the_connection(broker, client, size):
    # The last two are how TLS and HTTP begin.
    client.send_bytes(struct.pack(">i", size) + b"rest")
    assert str(size) in client.closed_with_one_line()


def test_a_large_request_that_carries_no_records_is_refused_before_it_is_sent(broker, client):
    client.send_bytes(struct.pack(">ihh", 94 * MIB, 3, 1))
    line = client.closed_with_one_line()
    assert f"a Metadata request of {94 * MIB} bytes" in line
    assert str(PLAIN_REQUEST_BYTES) in line


@pytest.mark.parametrize("version", [1, 9])
def test_a_request_with_too_many_elements_is_refused_and_says_whose(broker, client, version):
    topics = [MetadataRequestTopic(name="")] * (ELEMENTS_PER_REQUEST + 1)
    client.send(MetadataRequest(topics), version)
    line = client.closed_with_one_line()
    assert f"MetadataRequest v{version}" in line
    assert f"may have {ELEMENTS_PER_REQUEST}" in line
    assert "client 'raw'" in line


@pytest.mark.parametrize("count", [-2, -(2**31), 2**31 - 1, 1000])
def test_a_count_that_the_frame_cannot_hold_closes_the_connection(broker, client, count):
    header = struct.pack(">hhih", 2, 2, 1, -1)
    client.send_frame(header + struct.pack(">ibi", -1, 0, count))
    client.closed_with_one_line()


def test_a_compact_count_that_the_frame_cannot_hold_closes_the_connection(broker, client):
    header = struct.pack(">hhih", 3, 9, 1, -1) + b"\0"
    client.send_frame(header + b"\xff\xff\xff\xff\x0f" + bytes(3))
    client.closed_with_one_line()


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-7, 0), (1, 99), (0, -1), (4, 0)])
def test_an_unknown_api_or_version_closes_the_connection(broker, client, key, version):
    client.send_frame(struct.pack(">hhih", key, version, 1, -1) + bytes(20))
    client.closed_with_one_line()


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(client):
    client.send_frame(struct.pack(">hhih", 18, 99, 5, -1) + bytes(4))
    correlation_id, error = struct.unpack_from(">ih", client.read_frame())
    assert (correlation_id, error) == (5, ErrorCode.UNSUPPORTED_VERSION)
    assert client.call(ApiVersionsRequest("raw", "1"), 3).error_code == 0


# Names

BAD_NAMES = ["", ".", "..", "a/b", "../escape", "a b", "nul\0", "näh", "x" * 250, "*"]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_a_bad_topic_name_is_refused_and_makes_no_folder(broker, client, name):
    before = sorted(path.name for path in broker.data.iterdir())
    assert client.create_topic(name) == ErrorCode.INVALID_TOPIC_EXCEPTION
    asked = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    (topic,) = client.call(asked, 8).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert client.produce(name, batch_of([b"v"])).error_code in {
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert sorted(path.name for path in broker.data.iterdir()) == before


# Records


NOW_MS = int(time.time() * 1000)
BATCH = batch_of([b"value"])
BAD_RECORDS = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "null": (None, ErrorCode.INVALID_RECORD),
    "three bytes": (b"abc", ErrorCode.INVALID_RECORD),
    "noise": (b"\xff" * 16 + b"\2" + b"\xff" * 100, ErrorCode.CORRUPT_MESSAGE),
    "wrong CRC": (with_byte(BATCH, len(BATCH) - 1, 7), ErrorCode.CORRUPT_MESSAGE),
    "cut": (BATCH[:-1], ErrorCode.INVALID_RECORD),
    "negative length": (with_byte(BATCH, 8, 0xFF), ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (with_byte(BATCH, 16, 1), ErrorCode.INVALID_RECORD),
    "magic 3": (with_byte(BATCH, 16, 3), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (BATCH + BATCH, ErrorCode.INVALID_RECORD),
    "count 0": (forged(count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "count -1": (forged(count=-1, last_offset_delta=-2), ErrorCode.INVALID_RECORD),
    "count beyond delta": (forged(count=5), ErrorCode.INVALID_RECORD),
    "control bit": (forged(attributes=0x20), ErrorCode.INVALID_RECORD),
    "LogAppendTime bit": (forged(attributes=0x08), ErrorCode.INVALID_TIMESTAMP),
    "transactional without an id": (
        forged(attributes=0x10),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "producer without sequence": (forged(producer_id=5), ErrorCode.INVALID_RECORD),
    "codec 7": (forged(attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "tomorrow": (
        batch_of([b"value"], timestamp=NOW_MS + 24 * HOUR_MS),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "the end of time": (
        forged(base_timestamp=2**63 - 1, max_timestamp=2**63 - 1),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "too large": (batch_of([bytes(2 * MIB)]), ErrorCode.MESSAGE_TOO_LARGE),
}


@pytest.mark.parametrize(("records", "error"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_bad_records_get_kafkas_error_and_one_line(broker, client, records, error):
    answer = client.produce(PLAIN, records)
    assert ErrorCode(answer.error_code) is error
    assert answer.base_offset == -1
    (line,) = client.lines()
    assert error.name in line
    assert client.offset(PLAIN) == 0, "the connection goes on"


def test_zstd_from_a_client_that_cannot_know_it_is_refused(client):
    batch = forged(attributes=Codec.ZSTD, payload=compress(Codec.ZSTD, BATCH[HEADER_SIZE:]))
    answer = client.produce(PLAIN, batch, version=6)
    assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("partition", [-1, 1, 2**31 - 1, -(2**31)])
def test_a_partition_that_is_not_there_is_named_unknown(client, partition):
    answer = client.produce(PLAIN, BATCH, partition)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("acks", [5, 2, -2, -(2**15)])
def test_acks_that_do_not_exist_are_refused(client, acks):
    assert client.produce(PLAIN, BATCH, acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("topic", TARGETS)
def test_a_refused_batch_without_acknowledgement_closes_the_connection(broker, client, topic):
    keyless_or_bad = with_byte(BATCH, len(BATCH) - 1, 7)
    client.send(produce_request(topic, keyless_or_bad, acks=0), 9)
    assert ErrorCode.CORRUPT_MESSAGE.name in client.closed_with_one_line()


def test_a_batch_refused_only_when_its_records_are_looked_at_closes_the_connection_too(
    broker, client
):
    client.send(produce_request(COMPACTED, BATCH, acks=0), 9)
    assert ErrorCode.INVALID_RECORD.name in client.closed_with_one_line()


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec], ids=lambda one: one.label)
@pytest.mark.parametrize("topic", [COMPACTED, UNPACKED])
def test_a_payload_that_no_codec_made_is_refused(client, topic, codec):
    batch = forged(attributes=codec, payload=b"\xff\0garbage" * 10)
    assert ErrorCode(client.produce(topic, batch).error_code) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("topic", [COMPACTED, UNPACKED])
def test_a_payload_of_other_records_than_announced_is_refused(client, topic):
    packed = compress(Codec.LZ4, BATCH[HEADER_SIZE:])
    batch = forged(attributes=Codec.LZ4, count=1000, last_offset_delta=999, payload=packed)
    assert client.produce(topic, batch).error_code == ErrorCode.INVALID_RECORD


def test_records_that_were_taken_at_their_word_do_no_harm_when_they_are_looked_at(client):
    """A batch's records are not read when it is appended; later readers must survive them."""
    assert client.create_topic("taken") == 0
    assert client.produce("taken", forged(payload=b"\xff" * 50)).error_code == 0
    assert client.produce("taken", BATCH).error_code == 0
    for timestamp in (0, NOW_MS - 1000, -3):
        asked = ListOffsetsTopic("taken", [ListOffsetsPartition(0, timestamp=timestamp)])
        (topic,) = client.call(ListOffsetsRequest(-1, topics=[asked]), 7).topics
        (answer,) = topic.partitions
        assert answer.error_code in {0, ErrorCode.CORRUPT_MESSAGE}
    # Clients older than Fetch 4 have their records converted.
    old = fetch_request({("taken", 0): 0}, max_wait_ms=0)
    (topic,) = client.call(old, 3).responses
    assert topic.partitions[0].error_code in {0, ErrorCode.CORRUPT_MESSAGE}


# Reading


@pytest.mark.parametrize("offset", [-1, -(2**63), 1, 2**63 - 1])
def test_an_offset_that_is_not_there_is_out_of_range(client, offset):
    assert client.fetch(PLAIN, offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    "limits",
    [
        {"max_bytes": -1},
        {"max_bytes": 0},
        {"max_bytes": -(2**31)},
        {"partition_max_bytes": -1},
        {"partition_max_bytes": -(2**31)},
        {"min_bytes": -(2**31)},
        {"min_bytes": 2**31 - 1, "max_wait_ms": 1},
        {"max_wait_ms": -1},
        {"max_wait_ms": -(2**31)},
    ],
    ids=str,
)
def test_absurd_limits_still_give_the_first_batch(client, limits):
    # Whoever looks after the broker beside the tests writes there, and may not have begun.
    eventually(lambda: len(client.fetch("healthy", 0).records or b""), "there is a batch")
    assert client.fetch("healthy", 0, **limits).error_code == 0
    assert client.fetch("healthy", 0, **limits).records


def test_a_session_that_nobody_knows_is_told_to_start_over(client):
    unknown = client.call(fetch_request({}, session_id=12345, session_epoch=1), FETCH_VERSION)
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    opened = client.call(
        fetch_request({(PLAIN, 0): 0}, session_epoch=0, max_wait_ms=0), FETCH_VERSION
    )
    skipped = client.call(
        fetch_request({}, session_id=opened.session_id, session_epoch=7), FETCH_VERSION
    )
    assert skipped.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_fetch_of_very_many_partitions_is_answered_for_each(broker, client):
    before = broker.resident_size()
    count = 50_000
    wanted = [FetchPartition(index, fetch_offset=0) for index in range(1, count + 1)]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic(PLAIN, partitions=wanted)]
    )
    (topic,) = client.call(request, FETCH_VERSION).responses
    assert len(topic.partitions) == count
    assert {one.error_code for one in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert broker.resident_size() - before < 128 * MIB


@pytest.mark.parametrize("timestamp", [-6, -(2**63), 2**63 - 1])
def test_an_absurd_time_finds_nothing_or_is_refused(client, timestamp):
    asked = ListOffsetsTopic(PLAIN, [ListOffsetsPartition(0, timestamp=timestamp)])
    (topic,) = client.call(ListOffsetsRequest(-1, topics=[asked]), 5).topics
    (answer,) = topic.partitions
    assert answer.offset == -1
    assert answer.error_code in {0, ErrorCode.UNSUPPORTED_VERSION}
