"""What a request costs from its frame to its answer, without a socket: `python -m bench.hot_path`.

A broker runs in this process on a temporary folder, and a connection is handed the same frame
again and again; commits come in turn from as many groups as in `bench.run`. That is the cost with
warm caches and nobody else on the machine: the floor, to see what a change of the code does. Under
load the same work costs more; `bench.run` measures that.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import time
from collections.abc import Sequence

from bench.commit_load import commit_requests
from bench.own_broker import own_broker, partition_of
from bench.works.commits import GROUPS
from moldau.base.ids import TopicId
from moldau.base.network import Address, Part
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.registry import encode_request, find_api
from moldau.records.builder import BatchBuilder
from moldau.security.session import Session
from moldau.server.network.connection import Connection

TOPIC = "hot-path"
REPEATED, RUNS = 1000, 40
"""Short runs and many of them: one that nothing disturbed is among them."""
FETCH_FROM = 1000
_LARGEST_FRAME = 1 << 24


class NoSocket:
    """A stream whose other end takes everything and says nothing."""

    peer = local = Address("127.0.0.1", 0)
    unsent = 0

    def send(self, parts: Sequence[Part]) -> None: ...
    def expect(self, size: int) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


def frames(size: int, topic_id: TopicId, produce: int, fetch: int) -> dict[str, bytes]:
    """Make one frame per kind of request, in these versions, size included."""
    builder = BatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, bytes(size))
    data = [PartitionProduceData(0, builder.build())]
    fetched = FetchPartition(0, -1, FETCH_FROM, -1, -1, 1 << 20)
    topic = TopicProduceData(TOPIC, partition_data=data)
    read = FetchTopic(TOPIC, topic_id, partitions=[fetched])
    fetching = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[read])
    requests = {
        "produce": (0, produce, ProduceRequest(None, -1, 1000, [topic])),
        "fetch": (1, fetch, fetching),
    }
    return {
        name: b"".join(map(bytes, encode_request(find_api(key), version, 1, "bench", request)))  # type: ignore[arg-type]
        for name, (key, version, request) in requests.items()
    }


async def measure(size: int, produce: int, fetch: int, *, profile: bool) -> None:
    async with own_broker(TOPIC, 1) as broker:
        endpoint = broker.parts.settings.endpoints[0]
        connection = Connection(
            NoSocket(),  # type: ignore[arg-type]
            Session(endpoint.name, endpoint.security_protocol, NoSocket.peer),
            broker.connections._dispatch,  # noqa: SLF001 - where a frame goes, minus the socket
            frame_limit=_LARGEST_FRAME,
            on_close=lambda _: None,
        )
        (address,) = broker.addresses
        commits = [each.frame for each in await commit_requests(str(address), TOPIC, GROUPS)]
        topic_id = partition_of(broker, TOPIC, 0).topic_id
        for name, frame in frames(size, topic_id, produce, fetch).items():
            _time(name, connection, [frame], profile=profile)
        _time("commit", connection, commits, profile=profile)


def _time(name: str, connection: Connection, frames: list[bytes], *, profile: bool) -> None:
    views = [memoryview(frame) for frame in frames] * (REPEATED // len(frames))
    best = float("inf")
    for _ in range(RUNS):
        began = time.perf_counter()
        for view in views:
            connection.received(view)
        best = min(best, (time.perf_counter() - began) / len(views))
    print(f"{name}: {best * 1e6:.1f} us a request")
    if profile:
        profiler = cProfile.Profile()
        with profiler:
            for view in views:
                connection.received(view)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.hot_path", description=__doc__)
    parser.add_argument("--size", type=int, default=100, help="bytes of the record [100]")
    parser.add_argument("--produce-version", type=int, default=10, help="[10], librdkafka's")
    parser.add_argument("--fetch-version", type=int, default=16, help="[16], librdkafka's")
    parser.add_argument("--profile", action="store_true", help="also show where the time goes")
    asked = parser.parse_args()
    asyncio.run(
        measure(asked.size, asked.produce_version, asked.fetch_version, profile=asked.profile)
    )


if __name__ == "__main__":
    main()
