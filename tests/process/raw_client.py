"""A client that says exactly what a test wants said: whole requests, or any bytes at all.

One blocking socket, no retries, no timers of its own; an answer that does not come is an error
after a while. It speaks through Moldau's codecs, which tests against other people's codecs stand
behind, so that what is under test here is the broker.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from moldau.protocol.registry import api_of, decode_response, encode_request
from moldau.records.batch import crc_ok, iter_batches
from moldau.records.builder import BatchBuilder
from moldau.records.record import Record, read_records

TIMEOUT_S = 60
PRODUCE_VERSION = 9
FETCH_VERSION = 11
"""The last but one with topic names: a test names what it means."""

EARLIEST, LATEST = -2, -1


class RawClient:
    """One connection to a broker."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        receive_buffer_size: int | None = None,
        source: str = "",
    ) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.settimeout(TIMEOUT_S)
        if receive_buffer_size is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_size)
        try:
            self.socket.bind((source, 0))
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    @property
    def local(self) -> str:
        """This end's address, as the broker's log names it."""
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    # Bytes

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, content: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(content)) + content)

    def read_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self.socket.recv(min(1 << 20, size - len(received)))
            if not chunk:
                raise ConnectionResetError("the broker closed the connection")
            received += chunk
        return bytes(received)

    def was_closed(self) -> bool:
        """Wait for what the broker does next: True if it closes, False if it says something."""
        try:
            return not self.socket.recv(1)
        except ConnectionError:
            return True

    # Requests

    def send(self, request: Any, version: int) -> None:
        """Send a request and wait for nothing."""
        self._correlation_id += 1
        api = api_of(type(request))
        parts = encode_request(api, version, self._correlation_id, "raw", request)
        self.send_bytes(b"".join(parts))  # type: ignore[arg-type]

    def receive(self, request: Any, version: int) -> Any:
        """Wait for the answer to a request that was sent."""
        return decode_response(api_of(type(request)), version, memoryview(self.read_frame()))

    def call(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive(request, version)

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> ErrorCode:
        configs = [CreatableTopicConfig(key, value) for key, value in (config or {}).items()]
        topic = CreatableTopic(name, partitions, 1, configs=configs)
        (result,) = self.call(CreateTopicsRequest([topic]), 5).topics
        return ErrorCode(result.error_code)

    def produce(
        self,
        topic: str,
        records: bytes | None,
        partition: int = 0,
        *,
        acks: int = -1,
        version: int = PRODUCE_VERSION,
    ) -> PartitionProduceResponse:
        """Send bytes as the records of one partition and return what became of them."""
        request = produce_request(topic, records, partition, acks=acks)
        (answer,) = self.call(request, version).responses
        (result,) = answer.partition_responses
        return result

    def offset(
        self, topic: str, partition: int = 0, timestamp: int = LATEST, *, isolation: int = 0
    ) -> int:
        """Ask for an offset; AssertionError with the code of a refusal."""
        asked = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=timestamp)])
        (answer,) = self.call(ListOffsetsRequest(-1, isolation, topics=[asked]), 5).topics
        (result,) = answer.partitions
        assert result.error_code == 0, ErrorCode(result.error_code).name
        return int(result.offset)

    def fetch(self, topic: str, offset: int, partition: int = 0, **limits: int) -> Any:
        """Fetch from one partition; return its part of the answer."""
        request = fetch_request({(topic, partition): offset}, **limits)
        (answer,) = self.call(request, FETCH_VERSION).responses
        (result,) = answer.partitions
        return result

    def read_all(self, topic: str, partition: int = 0) -> list[Record]:
        """Read every record of a partition, checksums verified."""
        offset = self.offset(topic, partition, EARLIEST)
        end = self.offset(topic, partition)
        found: list[Record] = []
        while offset < end:
            result = self.fetch(topic, offset, partition)
            assert result.error_code == 0, ErrorCode(result.error_code).name
            assert result.records, f"{topic}-{partition} has nothing at {offset}"
            fetched = records_of(bytes(result.records))
            found += [record for record in fetched if record.offset >= offset]
            offset = found[-1].offset + 1
        return found


def records_of(data: bytes) -> list[Record]:
    """Read the records of whole batches, checksums verified; a cut at the end is left out."""
    found: list[Record] = []
    for span in iter_batches(data, allow_cut=True):
        assert crc_ok(data, span.position, span.size), f"a torn batch at {span.base_offset}"
        found += read_records(data, span.position)
    return found


def produce_request(
    topic: str, records: bytes | None, partition: int = 0, *, acks: int = -1
) -> ProduceRequest:
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, records)])
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])


def fetch_request(
    offsets: Mapping[tuple[str, int], int],
    *,
    max_wait_ms: int = 100,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 50 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
) -> FetchRequest:
    """Ask for some partitions, by default without a session."""
    topics = [
        FetchTopic(
            topic,
            partitions=[
                FetchPartition(
                    partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes
                )
            ],
        )
        for (topic, partition), offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
    )


def batch_of(
    values: Iterable[bytes],
    *,
    key: bytes | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    timestamp: int | None = None,
) -> bytes:
    """Build one batch of plain records."""
    builder = BatchBuilder(
        producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2]
    )
    now_ms = int(time.time() * 1000) if timestamp is None else timestamp
    for value in values:
        builder.append(now_ms, key, value)
    return builder.build()
