"""What a hostile or broken client can make a broker hold in memory, over real sockets.

Batches that inflate to more than anybody has, sizes that are announced and never come, answers
that are not read: what a client costs stays bounded, and a healthy one notices nothing.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.base.limits import INFLATED_BATCH_BYTES
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.records.compression import Codec, compress
from process.attack import (
    BIG_MESSAGE,
    COMPACTED,
    FRAME_LIMIT,
    MIB,
    PLAIN,
    UNPACKED,
    Healthy,
    Offender,
    broker_under_attack,
    connect,
    end_offsets,
    forged,
    healthy_client,
    nobody_disturbed,
    request_bytes,
    with_byte,
)
from process.raw_client import FETCH_VERSION, batch_of, fetch_request, produce_request
from process.serving import Serving


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with broker_under_attack(tmp_path_factory.mktemp("memory")) as running:
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


# What inflates

BOMB_SIZE = 160 * MIB
"""Beyond what a batch may inflate to, INFLATED_BATCH_BYTES."""


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec], ids=lambda one: one.label)
@pytest.mark.parametrize("topic", [COMPACTED, UNPACKED])
def test_a_bomb_is_refused_and_costs_no_more_than_its_limit(broker, client, topic, codec):
    bomb = forged(attributes=codec, payload=compress(codec, bytes(BOMB_SIZE)))
    assert len(bomb) < BIG_MESSAGE
    before = broker.resident_size()
    assert ErrorCode(client.produce(topic, bomb).error_code) is ErrorCode.MESSAGE_TOO_LARGE
    assert broker.resident_size() - before < 2 * INFLATED_BATCH_BYTES + 64 * MIB


@pytest.mark.parametrize("timestamp", [0, -3])
@pytest.mark.parametrize(
    ("size", "error"),
    [
        (INFLATED_BATCH_BYTES - MIB, ErrorCode.CORRUPT_MESSAGE),
        (BOMB_SIZE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    ],
    ids=["cap", "beyond"],
)
def test_a_bomb_that_was_taken_is_not_inflated_by_the_broker_itself(
    broker, client, size, error, timestamp
):
    topic = f"bomb-{size}-{-timestamp}"
    assert client.create_topic(topic, 3) == 0
    bomb = forged(attributes=Codec.ZSTD, payload=compress(Codec.ZSTD, bytes(size)))
    assert len(bomb) < MIB
    for partition in range(3):
        assert client.produce(topic, bomb, partition).error_code == 0
    before = broker.resident_size()
    # From here on the peak counts anew (proc(5)).
    Path(f"/proc/{broker.process.pid}/clear_refs").write_text("5")
    own = broker.resident_peak()
    partitions = [ListOffsetsPartition(one, timestamp=timestamp) for one in range(3)]
    asked = ListOffsetsTopic(topic, partitions)
    (answer,) = client.call(ListOffsetsRequest(-1, topics=[asked]), 7).topics
    assert [one.error_code for one in answer.partitions] == [error] * 3
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
    error = ErrorCode(client.produce(UNPACKED, batch).error_code)
    assert error in (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)
    assert broker.resident_size() - before < 64 * MIB


# What waits


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
