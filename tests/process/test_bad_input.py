"""What a hostile or broken client can send, over real sockets, against one broker for all tests.

Whatever comes in ends in Kafka's error or in a closed connection and one line in the log. Beside
every test a healthy client writes and reads all the time; it must not notice anything. What the
topics under attack hold must not change, memory stays bounded, and no traceback is ever written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kafka_harness.waiting import eventually
from moldau.base.limits import INFLATED_BATCH_BYTES
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
from moldau.protocol.registry import api_of, encode_request
from moldau.records.batch import HEADER_SIZE, BatchHeader, pack_batch
from moldau.records.compression import Codec, compress
from process.raw_client import (
    FETCH_VERSION,
    RawClient,
    batch_of,
    fetch_request,
    produce_request,
)
from process.serving import Serving

MIB = 1 << 20
HOUR_MS = 3_600_000
PLAIN, COMPACTED, UNPACKED = "plain", "compacted", "unpacked"
"""Taken as it comes; keys are looked at; batches are inflated and stored without a codec."""
TARGETS = (PLAIN, COMPACTED, UNPACKED)
BIG_MESSAGE = 32 * MIB
"""Room for a bomb of the codec that packs worst."""

FRAME_LIMIT = 100 * MIB
"""socket.request.max.bytes, Kafka's default."""


@dataclass
class Healthy:
    """A client like any other, at work in a thread of its own."""

    broker: Serving
    rounds: int = 0
    slowest_s: float = 0.0
    trouble: list[BaseException] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        try:
            with RawClient((self.broker.host, self.broker.port)) as client:
                while not self._stop.wait(0.005):
                    start = time.monotonic()
                    value = b"record %d" % self.rounds
                    assert client.produce("healthy", batch_of([value])).base_offset == self.rounds
                    fetched = client.fetch("healthy", self.rounds)
                    assert value in bytes(fetched.records)
                    self.slowest_s = max(self.slowest_s, time.monotonic() - start)
                    self.rounds += 1
        except BaseException as error:  # noqa: BLE001 - the test's own thread raises it
            self.trouble.append(error)

    def check(self) -> None:
        """Wait until it has done a whole round since now."""
        goal = self.rounds + 2
        eventually(lambda: self.trouble or self.rounds >= goal, "the healthy client goes on")
        assert not self.trouble

    def stop(self) -> None:
        self._stop.set()


class Offender(RawClient):
    """A client that knows what the broker has logged about it."""

    def __init__(self, broker: Serving, **options: int) -> None:
        # Ports are used again; what was logged before is about somebody else.
        self._broker, self._log_start = broker, len(broker.errors)
        super().__init__((broker.host, broker.port), **options)  # type: ignore[arg-type]

    def lines(self) -> list[str]:
        """Return the log lines that name this client."""
        logged = self._broker.errors[self._log_start :]
        return [line for line in logged.splitlines() if re.search(rf"{self.local}\b", line)]

    def closed_with_one_line(self) -> str:
        """Check that the broker closes this connection and says why, once."""
        assert self.was_closed()
        (line,) = self.lines()
        return line


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    directory = tmp_path_factory.mktemp("bad-input")
    with Serving(directory) as running:
        with connect(running) as client:
            room = {"max.message.bytes": str(BIG_MESSAGE)}
            assert client.create_topic("healthy") == 0
            assert client.create_topic(PLAIN) == 0
            assert client.create_topic(COMPACTED, config={"cleanup.policy": "compact"} | room) == 0
            assert (
                client.create_topic(UNPACKED, config={"compression.type": "uncompressed"} | room)
                == 0
            )
        yield running


@pytest.fixture(scope="module")
def healthy(broker: Serving) -> Iterator[Healthy]:
    client = Healthy(broker)
    thread = threading.Thread(target=client.work, daemon=True)
    thread.start()
    yield client
    client.stop()
    thread.join()


@pytest.fixture(autouse=True)
def undisturbed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check around every test of the shared broker that nobody else noticed it."""
    broker, healthy = request.getfixturevalue("broker"), request.getfixturevalue("healthy")
    before = end_offsets(broker)
    yield
    healthy.check()
    assert "Traceback" not in broker.errors, broker.errors
    assert end_offsets(broker) == before, "something was written"
    assert ErrorCode.UNKNOWN_SERVER_ERROR.name not in broker.errors


@pytest.fixture
def client(broker: Serving) -> Iterator[Offender]:
    with connect(broker) as connected:
        yield connected


def end_offsets(broker: Serving) -> list[int]:
    with connect(broker) as client:
        return [client.offset(topic) for topic in TARGETS]


def connect(broker: Serving, **options: int) -> Offender:
    return Offender(broker, **options)


def request_bytes(request: object, version: int) -> bytes:
    """Return a request with its header, without its size."""
    parts = encode_request(api_of(type(request)), version, 1, "raw", request)
    return b"".join(parts)[4:]  # type: ignore[arg-type]


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


def forged(batch: bytes | None = None, payload: bytes | None = None, **changes: int) -> bytes:
    """Change a valid batch's header, keeping its checksum right."""
    batch = batch or batch_of([b"value"])
    header = BatchHeader._make(struct.unpack_from(">qiiBIhiqqqhii", batch))
    header = header._replace(**changes)  # type: ignore[arg-type]
    return pack_batch(header, batch[HEADER_SIZE:] if payload is None else payload)


def with_byte(batch: bytes, position: int, value: int) -> bytes:
    changed = bytearray(batch)
    changed[position] = value
    return bytes(changed)


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
    "transactional without producer": (forged(attributes=0x10), ErrorCode.INVALID_RECORD),
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


BOMB_SIZE = 160 * MIB
"""Beyond what a batch may inflate to, INFLATED_BATCH_BYTES."""


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec], ids=lambda one: one.label)
@pytest.mark.parametrize("topic", [COMPACTED, UNPACKED])
def test_a_bomb_is_refused_and_costs_no_more_than_its_limit(broker, client, topic, codec):
    bomb = forged(attributes=codec, payload=compress(codec, bytes(BOMB_SIZE)))
    assert len(bomb) < BIG_MESSAGE
    before = broker.resident_size()
    assert ErrorCode(client.produce(topic, bomb).error_code) is ErrorCode.INVALID_RECORD
    assert broker.resident_size() - before < 2 * INFLATED_BATCH_BYTES + 64 * MIB


@pytest.mark.parametrize("timestamp", [0, -3])
@pytest.mark.parametrize("size", [INFLATED_BATCH_BYTES - MIB, BOMB_SIZE], ids=["cap", "beyond"])
def test_a_bomb_that_was_taken_is_not_inflated_by_the_broker_itself(
    broker, client, size, timestamp
):
    topic = f"bomb-{size}-{-timestamp}"
    assert client.create_topic(topic) == 0
    bomb = forged(attributes=Codec.ZSTD, payload=compress(Codec.ZSTD, bytes(size)))
    assert len(bomb) < MIB
    assert client.produce(topic, bomb).error_code == 0
    before = broker.resident_size()
    # From here on the peak counts anew (proc(5)).
    Path(f"/proc/{broker.process.pid}/clear_refs").write_text("5")
    own = broker.resident_peak()
    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=timestamp)] * 3)
    (answer,) = client.call(ListOffsetsRequest(-1, topics=[asked]), 7).topics
    assert [one.error_code for one in answer.partitions] == [ErrorCode.CORRUPT_MESSAGE] * 3
    assert broker.resident_peak() - own < 32 * MIB
    assert broker.resident_size() - before < 2 * INFLATED_BATCH_BYTES + 64 * MIB


def lying_payloads() -> dict[str, tuple[Codec, bytes]]:
    """Return payloads of a few bytes that announce gigabytes."""
    zstd_two_gigabytes = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**31) + b"\1\0\0"
    lz4_two_gigabytes = (
        b"\x04\x22\x4d\x18" + b"\x6c\x70" + struct.pack("<Q", 2**31) + b"\0" + bytes(8)
    )
    return {
        "snappy": (Codec.SNAPPY, b"\xff\xff\xff\xff\x07" + b"\0a"),
        "xerial": (
            Codec.SNAPPY,
            b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 2**31 - 1) + b"\xff\xff\xff\xff\x07",
        ),
        "xerial negative": (
            Codec.SNAPPY,
            b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, -1) + b"abc",
        ),
        "zstd": (Codec.ZSTD, zstd_two_gigabytes),
        "lz4": (Codec.LZ4, lz4_two_gigabytes),
        "gzip": (Codec.GZIP, b"\x1f\x8b\x08\0" + bytes(6) + b"\xff" * 8),
    }


@pytest.mark.parametrize(("codec", "payload"), lying_payloads().values(), ids=lying_payloads())
def test_a_payload_that_announces_gigabytes_is_refused(broker, client, codec, payload):
    before = broker.resident_size()
    batch = forged(attributes=codec, payload=payload)
    assert ErrorCode(client.produce(UNPACKED, batch).error_code) is ErrorCode.INVALID_RECORD
    assert broker.resident_size() - before < 64 * MIB


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


# Memory


def test_half_a_frame_holds_no_more_memory_than_was_sent(broker):
    before = broker.resident_size()
    with contextlib.ExitStack() as stack:
        half_open = [stack.enter_context(connect(broker)) for _ in range(100)]
        for client in half_open:
            client.send_bytes(struct.pack(">i", FRAME_LIMIT) + bytes(1000))
        # A later client is answered after the broker has read what the others sent.
        end_offsets(broker)
        assert broker.resident_size() - before < 32 * MIB


def test_a_large_frame_in_small_pieces_is_one_request(client):
    batch = batch_of([bytes(900_000)])
    whole = request_bytes(produce_request(PLAIN, with_byte(batch, len(batch) - 1, 7)), 9)
    framed = struct.pack(">i", len(whole)) + whole
    for start in range(0, len(framed), 50_000):
        client.send_bytes(framed[start : start + 50_000])
    assert (
        client.receive(produce_request(PLAIN, b""), 9)
        .responses[0]
        .partition_responses[0]
        .error_code
        == ErrorCode.CORRUPT_MESSAGE
    )


def test_clients_that_do_not_read_their_fetches_cost_no_memory(broker):
    with connect(broker) as writer:
        assert writer.create_topic("large") == 0
        for _ in range(52):
            assert writer.produce("large", batch_of([bytes(MIB - 1000)])).error_code == 0
    before = broker.resident_size()
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            slow = stack.enter_context(connect(broker, receive_buffer_size=4096))
            slow.send(fetch_request({("large", 0): 0}), FETCH_VERSION)
            slow.send(fetch_request({("large", 0): 0}), FETCH_VERSION)
        end_offsets(broker)
        assert broker.resident_size() - before < 32 * MIB


def test_thousands_of_small_questions_with_large_answers_wait_for_a_client_that_reads(broker):
    with connect(broker) as writer:
        assert writer.create_topic("wide", partitions=100) == 0
    question = request_bytes(MetadataRequest([MetadataRequestTopic(name="wide")] * 40), 8)
    framed = struct.pack(">i", len(question)) + question
    before = broker.resident_size()
    with connect(broker, receive_buffer_size=4096) as slow:
        slow.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(20):
                slow.socket.send(framed * 1000)
        for _ in range(5):
            end_offsets(broker)
        assert broker.resident_size() - before < 32 * MIB
