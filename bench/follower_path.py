"""What a follower does for a record: `python -m bench.follower_path`.

A broker runs in this process on a temporary folder and follows six partitions of a leader, which is
played by a stream without a socket. For each record the stream hands the answer to the follower's
fetch, with one small batch, and waits for the next fetch.

Times say little on a busy machine. Count instructions instead, as `bench.replicated_path` does:

    valgrind --tool=callgrind --callgrind-out-file=/dev/null python -m bench.follower_path 100
    valgrind --tool=callgrind --callgrind-out-file=/dev/null python -m bench.follower_path 600
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import time
from collections.abc import Sequence
from contextlib import nullcontext
from struct import Struct
from typing import Final

from bench.own_broker import own_broker, partition_of, turns_until
from moldau.base.ids import BrokerId, LeaderEpoch
from moldau.base.network import Accept, Address, Part, Receiver
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchResponse,
)
from moldau.protocol.messages.metadata import ApiVersion, ApiVersionsResponse
from moldau.protocol.registry import decode_header, encode_response, find_api
from moldau.records.builder import BatchBuilder
from moldau.replication.fetching.fetchers import Fetchers
from moldau.replication.partition import Partition
from moldau.replication.role import Role
from moldau.server.broker import Broker

TOPIC = "follower-path"
PARTITIONS = 6
LEADER = BrokerId(101)
SESSION_ID = 7
FETCH_KEY, FETCH_VERSION = 1, 17
API_VERSIONS_KEY = 18
MARK: Final = 0x4D4F4C4441550001
"""Stands for the high watermark in the answer that is sent again and again."""
_OFFSET: Final = Struct(">q")
_FRAME_START: Final = Struct(">ii")
"""Size and correlation id."""


class PlayedLeader:
    """A network with one broker, which is also the only stream of it."""

    peer = local = Address("127.0.0.1", 1)
    unsent = 0

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        self.requests: list[bytes] = []
        """Frames of requests that have no answer yet, with their sizes."""
        self._answer = bytearray()
        self._high_watermark_at = self._base_offset_at = 0

    # A network, and the addresses of brokers

    def address(self, broker_id: BrokerId) -> Address:
        del broker_id
        return self.peer

    async def connect(self, host: str, port: int, accept: Accept) -> None:
        del host, port
        self._receiver = accept(self)  # type: ignore[arg-type]

    # A stream

    def send(self, parts: Sequence[Part]) -> None:
        self.requests.append(b"".join(map(bytes, parts)))  # type: ignore[arg-type]

    def expect(self, size: int) -> None: ...
    def lend(self) -> None: ...
    def abort(self) -> None: ...

    # What the leader says

    def _tell(self, frame: bytearray) -> None:
        correlation_id = self.requests.pop()[8:12]
        frame[4:8] = correlation_id
        assert self._receiver is not None
        self._receiver.received(memoryview(frame))

    def answer_versions(self) -> None:
        """Answer the handshake: this broker knows nothing but Fetch."""
        version = decode_header(memoryview(self.requests[0])[4:]).api_version
        keys = [
            ApiVersion(FETCH_KEY, 4, FETCH_VERSION),
            ApiVersion(API_VERSIONS_KEY, 0, version),
        ]
        self._tell(_framed(API_VERSIONS_KEY, version, ApiVersionsResponse(api_keys=keys)))

    def begin_session(self, partitions: Sequence[Partition]) -> None:
        """Answer the first fetch: there is nothing yet, in any partition."""
        told = [FetchablePartitionResponse(one.key.partition, 0, 0, 0, 0) for one in partitions]
        self._tell(_framed(FETCH_KEY, FETCH_VERSION, _response(partitions[0].topic_id, told)))

    def prepare(self, partition: Partition) -> None:
        """Make the answer that has one batch for this partition."""
        builder = BatchBuilder()
        builder.append(time.time_ns() // 1_000_000, None, bytes(100))
        batch = bytearray(builder.build())
        batch[12:16] = bytes(4)  # the leader epoch
        told = FetchablePartitionResponse(
            partition.key.partition, 0, MARK, MARK, 0, aborted_transactions=None, records=batch
        )
        self._answer = _framed(FETCH_KEY, FETCH_VERSION, _response(partition.topic_id, [told]))
        self._high_watermark_at = self._answer.index(_OFFSET.pack(MARK))
        self._base_offset_at = self._answer.index(batch)

    def answer_fetch(self, number: int) -> None:
        """Answer with the batch at an offset."""
        _OFFSET.pack_into(self._answer, self._high_watermark_at, number)
        _OFFSET.pack_into(self._answer, self._base_offset_at, number)
        self._tell(self._answer)


def _response(topic_id: bytes, told: list[FetchablePartitionResponse]) -> FetchResponse:
    topic = FetchableTopicResponse(topic_id=topic_id, partitions=told)
    return FetchResponse(session_id=SESSION_ID, responses=[topic])


def _framed(key: int, version: int, response: object) -> bytearray:
    parts = encode_response(find_api(key), version, 0, response)
    return bytearray(b"".join(map(bytes, parts)))  # type: ignore[arg-type]


async def measure(count: int, *, profile: bool) -> None:
    async with own_broker(TOPIC, PARTITIONS) as broker:
        await _follow(broker, count, profile=profile)


async def _follow(broker: Broker, count: int, *, profile: bool) -> None:
    leader = PlayedLeader()
    context = broker.parts.fetchers._context  # noqa: SLF001 - all of it but the network is the broker's
    context = context._replace(leaders=leader, ports=context.ports._replace(network=leader))  # type: ignore[arg-type]
    fetchers = Fetchers(context)
    partitions = [_followed(broker, index) for index in range(PARTITIONS)]
    for partition in partitions:
        fetchers.follow(partition)
    await _until_asked(leader)
    leader.answer_versions()
    await _until_asked(leader)
    leader.begin_session(partitions)
    await _until_asked(leader)
    leader.prepare(partitions[0])
    turns = 0
    profiler = cProfile.Profile() if profile else None
    began = time.perf_counter()
    with profiler or nullcontext():
        for number in range(count):
            leader.answer_fetch(number)
            turns += await _until_asked(leader)
    took_us = (time.perf_counter() - began) / count * 1e6
    assert partitions[0].log_end_offset == count
    print(f"{took_us:.1f} us and {turns / count:.1f} turns of the loop a record")
    if profiler is not None:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(50)
    await fetchers.close()


def _followed(broker: Broker, index: int) -> Partition:
    """Return a partition that another broker leads."""
    partition = partition_of(broker, TOPIC, index)
    old = partition.role
    replicas = (LEADER, old.leader)
    epoch = LeaderEpoch(old.leader_epoch)
    partition.become_follower(Role(LEADER, epoch, old.partition_epoch + 1, replicas, replicas))
    return partition


async def _until_asked(leader: PlayedLeader) -> int:
    return await turns_until(lambda: bool(leader.requests))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.follower_path", description=__doc__)
    parser.add_argument("records", type=int, nargs="?", default=1000)
    parser.add_argument("--profile", action="store_true", help="also show where the time goes")
    asked = parser.parse_args()
    asyncio.run(measure(asked.records, profile=asked.profile))


if __name__ == "__main__":
    main()
