"""What a leader does for a record with acks=all: `python -m bench.replicated_path`.

A broker runs in this process on a temporary folder and leads a topic that two more brokers follow.
Those are played by two connections without sockets: each has a fetch session of six partitions and
asks again for the one that moved. For each record the producer's request comes in, both parked
fetches are answered, both followers fetch again, and the producer gets its answer.

Times say little on a busy machine. Count instructions instead, and take the difference of two runs:

    valgrind --tool=callgrind --callgrind-out-file=/dev/null python -m bench.replicated_path 100
    valgrind --tool=callgrind --callgrind-out-file=/dev/null python -m bench.replicated_path 600
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from struct import Struct
from typing import Final

from bench.own_broker import own_broker, partition_of, turns_until
from moldau.base.ids import BrokerId, LeaderEpoch
from moldau.base.network import Address, Part
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.registry import encode_request, find_api
from moldau.records.builder import BatchBuilder
from moldau.replication.partition import Partition
from moldau.replication.role import Role
from moldau.security.session import Session
from moldau.server.broker import Broker
from moldau.server.network.connection import Connection

TOPIC = "replicated-path"
PARTITIONS = 6
FOLLOWERS = (101, 102)
FETCH_KEY, FETCH_VERSION = 1, 17
PRODUCE_KEY, PRODUCE_VERSION = 0, 10
MARKS: Final = (0x4D4F4C44, 0x4D4F4C4441550001)
"""Stand for the session epoch and the offset in the request that is sent again and again."""
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")


class CountingStream:
    """A stream whose other end takes everything; it counts the answers and keeps the last one."""

    peer = local = Address("127.0.0.1", 0)
    unsent = 0

    def __init__(self) -> None:
        self.count = 0
        self.last: Sequence[Part] = ()

    def send(self, parts: Sequence[Part]) -> None:
        self.count += 1
        self.last = parts

    def expect(self, size: int) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


def encoded(key: int, version: int, request: object) -> memoryview:
    parts = encode_request(find_api(key), version, 1, "bench", request)
    return memoryview(b"".join(map(bytes, parts)))  # type: ignore[arg-type]


class PlayedFollower:
    """The fetches of one follower."""

    def __init__(self, broker_id: int, connection: Connection, stream: CountingStream) -> None:
        self._broker_id = broker_id
        self._connection = connection
        self.stream = stream
        self._session_id = 0
        self._epoch = 0
        self._partition: Partition | None = None
        self._frame = bytearray()
        self._epoch_at = self._offset_at = 0

    def fetch(self) -> None:
        """Ask for what comes behind the end of the partition that moves."""
        assert self._partition is not None
        _INT32.pack_into(self._frame, self._epoch_at, self._epoch)
        _INT64.pack_into(self._frame, self._offset_at, self._partition.log_end_offset)
        self._epoch += 1
        self._connection.received(memoryview(self._frame))

    def _encoded(
        self, partitions: Sequence[Partition], epoch: int, offset: int, max_wait_ms: int
    ) -> bytes:
        wanted = [
            FetchPartition(one.key.partition, 0, offset, -1, 0, 1 << 20) for one in partitions
        ]
        request = FetchRequest(
            replica_state=FetchReplicaState(self._broker_id, -1),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self._session_id,
            session_epoch=epoch,
            topics=[FetchTopic(TOPIC, partitions[0].topic_id, wanted)],
        )
        return bytes(encoded(FETCH_KEY, FETCH_VERSION, request))

    def begin(self, partitions: Sequence[Partition]) -> None:
        """Have a session made, with all partitions; the first of them is to move."""
        self._connection.received(memoryview(self._encoded(partitions, 0, 0, max_wait_ms=0)))
        head = b"".join(map(bytes, self.stream.last))  # type: ignore[arg-type]  # no regions yet
        self._session_id = int.from_bytes(head[15:19])  # behind size, header, throttle and error
        self._epoch = 1
        self._partition = partitions[0]
        self._frame[:] = self._encoded(partitions[:1], *MARKS, max_wait_ms=60_000)
        self._epoch_at = self._frame.index(_INT32.pack(MARKS[0]))
        self._offset_at = self._frame.index(_INT64.pack(MARKS[1]))


async def measure(count: int) -> None:
    async with own_broker(TOPIC, PARTITIONS) as broker:
        await _replicate(broker, count)


async def _replicate(broker: Broker, count: int) -> None:
    endpoint = broker.parts.settings.endpoints[0]
    dispatch = broker.connections._dispatch  # noqa: SLF001 - where a frame goes, minus the socket
    # Nobody has registered the followers.
    dispatch.__self__.routes[FETCH_KEY].handler._is_registered = lambda _: True  # type: ignore[attr-defined]  # noqa: SLF001

    def connect() -> tuple[Connection, CountingStream]:
        stream = CountingStream()
        session = Session(endpoint.name, endpoint.security_protocol, stream.peer)
        connection = Connection(
            stream,  # type: ignore[arg-type]
            session,
            dispatch,
            frame_limit=1 << 24,
            on_close=lambda _: None,
        )
        return connection, stream

    partitions = [_led(broker, index) for index in range(PARTITIONS)]
    followers = [PlayedFollower(one, *connect()) for one in FOLLOWERS]
    for follower in followers:
        follower.begin(partitions)
        follower.fetch()  # is parked
    producer, answers = connect()
    builder = BatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, bytes(100))
    data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, builder.build())])
    produce = encoded(PRODUCE_KEY, PRODUCE_VERSION, ProduceRequest(None, -1, 1000, [data]))
    turns = 0
    began = time.perf_counter()
    for number in range(count):
        told = [follower.stream.count for follower in followers]
        producer.received(produce)
        for follower, before in zip(followers, told, strict=True):
            turns += await _until(follower.stream, before + 1)
        for follower in followers:
            follower.fetch()
        turns += await _until(answers, number + 1)
    took_us = (time.perf_counter() - began) / count * 1e6
    print(f"{took_us:.1f} us and {turns / count:.1f} turns of the loop a record")


def _led(broker: Broker, index: int) -> Partition:
    """Return a partition, led here as if the others followed it."""
    partition = partition_of(broker, TOPIC, index)
    old = partition.role
    replicas = (old.leader, *(BrokerId(one) for one in FOLLOWERS))
    epoch = LeaderEpoch(old.leader_epoch)
    role = Role(old.leader, epoch, old.partition_epoch + 1, replicas, replicas)
    partition.become_leader(role, time.monotonic())
    return partition


async def _until(stream: CountingStream, count: int) -> int:
    return await turns_until(lambda: stream.count >= count)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.replicated_path", description=__doc__)
    parser.add_argument("records", type=int, nargs="?", default=1000)
    asyncio.run(measure(parser.parse_args().records))


if __name__ == "__main__":
    main()
