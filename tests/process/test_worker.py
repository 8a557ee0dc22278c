"""The broker's worker process, held up and killed while it works for a client.

What it works on is lost with it and asked for again by the client; nobody else notices anything,
and the log holds one line and no traceback.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.base.executor import Lane
from moldau.base.limits import CONVERTED_FETCH_BYTES
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from process.raw_client import PRODUCE_VERSION, RawClient, batch_of, fetch_request, produce_request
from process.serving import Serving

OLD_FETCH_VERSION = 3
LIST_OFFSETS_VERSION = 7


def packed(*stamps: int, value: bytes = b"value") -> bytes:
    builder = BatchBuilder(Codec.GZIP)
    for stamp in stamps:
        builder.append(stamp, b"key", value)
    return builder.build()


PRODUCE = produce_request("compacted", packed(100))
CONVERT = fetch_request({("packed", 0): 0}, max_wait_ms=0)
SEARCH = ListOffsetsRequest(
    -1, topics=[ListOffsetsTopic("packed", [ListOffsetsPartition(0, timestamp=200)])]
)
WORK = {
    "produce": (PRODUCE, PRODUCE_VERSION, Lane.WRITES, ErrorCode.REQUEST_TIMED_OUT),
    "fetch": (CONVERT, OLD_FETCH_VERSION, Lane.READS, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "list offsets": (SEARCH, LIST_OFFSETS_VERSION, Lane.READS, ErrorCode.REQUEST_TIMED_OUT),
}
"""What makes a worker work, which one, and what a client is told that shall ask again."""

ATTEMPTS = 10
"""To kill a worker while it works: on a busy machine the work may reach it too late."""

BOMB_COUNT = 4
BOMB = packed(100, value=bytes(2 * CONVERTED_FETCH_BYTES))
"""One of them is more than what one request has converted."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("worker")) as running:
        with connect(running) as client:
            assert client.create_topic("plain") == 0
            assert client.create_topic("packed") == 0
            assert client.create_topic("compacted", config={"cleanup.policy": "compact"}) == 0
            assert client.produce("packed", packed(100, 300)).error_code == 0
            assert client.create_topic("bombs", BOMB_COUNT) == 0
            for partition in range(BOMB_COUNT):
                assert client.produce("bombs", BOMB, partition).error_code == 0
        yield running


def connect(broker: Serving) -> RawClient:
    return RawClient((broker.host, broker.port))


def error_of(answer: object) -> ErrorCode:
    """Find the error of the one partition that was asked for."""
    (topic,) = getattr(answer, "responses", None) or answer.topics  # type: ignore[attr-defined]
    (partition,) = getattr(topic, "partition_responses", None) or topic.partitions
    return ErrorCode(partition.error_code)


def worker_of(broker: Serving, work: str) -> int:
    """Return the worker's process id, after it was made to begin."""
    request, version, lane, _ = WORK[work]
    with connect(broker) as client:
        assert error_of(client.call(request, version)) is ErrorCode.NONE
    name = b"\0%s\0" % lane.value.encode()
    (worker,) = [
        child
        for child in broker.children()
        if Path(f"/proc/{child}/cmdline").read_bytes().endswith(name)
    ]
    return worker


def everybody_else_is_served(broker: Serving) -> None:
    """Go once through the loop after all that was sent before."""
    with connect(broker) as other:
        offset = other.produce("plain", batch_of([b"value"])).base_offset
        assert b"value" in bytes(other.fetch("plain", offset).records)
        assert other.offset("plain", timestamp=0) == 0


@pytest.mark.parametrize("work", WORK)
def test_nobody_else_waits_for_the_worker(broker, work):
    request, version, _, _ = WORK[work]
    worker = worker_of(broker, work)
    os.kill(worker, signal.SIGSTOP)
    try:
        with connect(broker) as client:
            client.send(request, version)
            everybody_else_is_served(broker)
            os.kill(worker, signal.SIGCONT)
            assert error_of(client.receive(request, version)) is ErrorCode.NONE
    finally:
        os.kill(worker, signal.SIGCONT)


def killed_at_work(broker: Serving, client: RawClient, work: str) -> ErrorCode:
    """Kill the worker while it has this client's work; return what the client is told.

    No error: a thread of the broker was still reading the records, and the next worker got them.
    """
    request, version, _, _ = WORK[work]
    worker = worker_of(broker, work)
    os.kill(worker, signal.SIGSTOP)
    client.send(request, version)
    everybody_else_is_served(broker)
    os.kill(worker, signal.SIGKILL)
    return error_of(client.receive(request, version))


@pytest.mark.parametrize("work", WORK)
def test_work_that_is_lost_is_asked_for_again(broker, work):
    request, version, _, error = WORK[work]
    with connect(broker) as client:
        for _ in range(ATTEMPTS):
            logged = len(broker.errors)
            if (told := killed_at_work(broker, client, work)) is not ErrorCode.NONE:
                break
        assert told is error
        (line,) = broker.errors[logged:].splitlines()
        assert "the worker process" in line
        assert "was killed" in line
        assert error_of(client.call(request, version)) is ErrorCode.NONE
    assert "Traceback" not in broker.errors


def bombs_fetched(client: RawClient, offsets: dict[tuple[str, int], int]) -> list[int]:
    """Ask for all bombs that are left; return the partitions whose bombs came."""
    answer = client.call(fetch_request(offsets, max_wait_ms=0), OLD_FETCH_VERSION)
    found = [part for topic in answer.responses for part in topic.partitions]
    assert {part.error_code for part in found} == {0}
    return [part.partition_index for part in found if part.records]


def test_an_old_fetch_gets_one_bomb_at_a_time_and_all_in_the_end(broker):
    left = {("bombs", partition): 0 for partition in range(BOMB_COUNT)}
    with connect(broker) as client:
        while left:
            (partition,) = bombs_fetched(client, left)
            del left["bombs", partition]


def test_a_produce_that_needs_work_does_not_wait_for_bombs_being_fetched(broker):
    worker = worker_of(broker, "fetch")
    os.kill(worker, signal.SIGSTOP)
    try:
        with connect(broker) as reader, connect(broker) as writer:
            bombs = fetch_request({("bombs", 0): 0}, max_wait_ms=0)
            reader.send(bombs, OLD_FETCH_VERSION)
            assert error_of(writer.call(PRODUCE, PRODUCE_VERSION)) is ErrorCode.NONE
            os.kill(worker, signal.SIGCONT)
            assert error_of(reader.receive(bombs, OLD_FETCH_VERSION)) is ErrorCode.NONE
    finally:
        os.kill(worker, signal.SIGCONT)


def test_queued_work_of_a_client_that_left_is_dropped(broker):
    worker = worker_of(broker, "produce")
    with connect(broker) as stayed, connect(broker) as left:
        before = stayed.offset("compacted")
        os.kill(worker, signal.SIGSTOP)
        try:
            stayed.send(PRODUCE, PRODUCE_VERSION)
            everybody_else_is_served(broker)
            left.send(PRODUCE, PRODUCE_VERSION)
            everybody_else_is_served(broker)
            left.socket.close()
            everybody_else_is_served(broker)
        finally:
            os.kill(worker, signal.SIGCONT)
        assert error_of(stayed.receive(PRODUCE, PRODUCE_VERSION)) is ErrorCode.NONE
        # The next one would be done after that of the client that left.
        assert error_of(stayed.call(PRODUCE, PRODUCE_VERSION)) is ErrorCode.NONE
        assert stayed.offset("compacted") == before + 2
