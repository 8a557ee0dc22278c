"""The attacks by name. Each gets a broker of its own, and returns when it has done its worst.

All of them were seen to stop, bloat or break a broker once. They are bounded in count and time, and
talk to the broker they are given only. The largest requests of every API are in `largest`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Final

from attacks.largest import largest_changes, largest_requests
from attacks.watched import MIB, Watched
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.data import DescribeProducersRequest, DescribeProducersTopic
from moldau.protocol.messages.groups import (
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from moldau.protocol.messages.metadata import ApiVersionsRequest, FindCoordinatorRequest
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.registry import api_of, encode_request
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec, compress
from process.attack import forged, request_bytes
from process.raw_client import RawClient, batch_of, fetch_request, produce_request

METADATA_KEY: Final = 3
LONG: Final = 2**63 - 1

Scene = Callable[[Watched], None]


def repeated_producers(watched: Watched) -> None:
    """Name one partition with a thousand producers ten thousand times, in 80 KB."""
    with watched.client() as client:
        assert client.create_topic("producers") == 0
        for producer_id in range(1000):
            builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=0)
            builder.append(0, None, b"v")
            assert client.produce("producers", builder.build()).error_code == 0
        topic = DescribeProducersTopic("producers", [0] * 20_000)
        for _ in range(3):
            client.call(DescribeProducersRequest([topic]), 0)


def repeated_configs(watched: Watched) -> None:
    """Ask for the configs of one topic in 140 KB, then in 2.7 MiB of repeats."""
    with watched.client() as client:
        resource = DescribeConfigsResource(2, "healthy", None)
        for count in (9_000, 99_000):
            client.call(DescribeConfigsRequest([resource] * count, True, True), 4)


def repeated_groups(watched: Watched) -> None:
    """Describe one group whose member has a megabyte of metadata two thousand times."""
    with watched.client() as client:
        assert client.call(FindCoordinatorRequest("large", 0), 2).error_code == 0
        protocol = JoinGroupRequestProtocol("range", bytes(500_000))
        join = JoinGroupRequest("large", 30_000, 30_000, "", None, "consumer", [protocol])
        assert client.call(join, 3).error_code == 0
        for _ in range(3):
            client.call(DescribeGroupsRequest(["large"] * 2_000), 5)


def tiny_elements(watched: Watched) -> None:
    """Send Metadata with as many tiny elements as frames hold: 94 MiB, and the largest allowed."""
    for size in (94 * MIB, 15 * MIB):
        count = size // 3
        frame = _metadata_head(count) + b"\0\1a" * count
        with watched.client() as client, contextlib.suppress(ConnectionError):
            client.send_frame(frame)
            client.read_frame()
    frame = _metadata_head(99_000) + b"\0\1a" * 99_000
    _all_at_once(watched, [frame] * 16)


def _metadata_head(count: int) -> bytes:
    return struct.pack(">hhih", METADATA_KEY, 1, 1, -1) + struct.pack(">i", count)


def half_frames(watched: Watched) -> None:
    """Announce 100 MiB on 300 connections and send 1 MiB of each."""
    piece = struct.pack(">ihhih", 100 * MIB, 0, 9, 1, -1) + bytes(MIB)
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            sock = stack.enter_context(socket.create_connection(watched.address))
            sock.settimeout(0.2)
            with contextlib.suppress(OSError):
                sock.sendall(piece)
        _rounds(watched, 50)


def old_readers(watched: Watched) -> None:
    """Ask for converted records on 25 connections, and read none of them."""
    with watched.client() as client:
        assert client.create_topic("old", 8) == 0
        for partition in range(8):
            for _ in range(8):
                batch = batch_of([bytes(900_000)])
                assert client.produce("old", batch, partition).error_code == 0
    wanted = {("old", partition): 0 for partition in range(8)}
    frame = request_bytes(fetch_request(wanted, max_wait_ms=0), 2)
    with contextlib.ExitStack() as stack:
        for _ in range(25):
            client = stack.enter_context(watched.client())
            client.socket.settimeout(0.2)
            for _ in range(4):
                with contextlib.suppress(OSError):
                    client.send_frame(frame)
        _rounds(watched, 100)


def poisoned_commit(watched: Watched) -> None:
    """Commit an offset that is to be kept for ever; commits of others go on."""
    topic = OffsetCommitRequestTopic("healthy", partitions=[OffsetCommitRequestPartition(0, 1)])
    with watched.client() as offender, watched.client() as other:
        assert other.call(FindCoordinatorRequest("other", 0), 2).error_code == 0
        for _ in range(20):
            poison = OffsetCommitRequest("poisoned", -1, "", retention_time_ms=LONG, topics=[topic])
            offender.call(poison, 2)
            answer = other.call(OffsetCommitRequest("other", -1, "", topics=[topic]), 7)
            code = ErrorCode(answer.topics[0].partitions[0].error_code)
            if code is not ErrorCode.NONE:
                watched.problems.append(f"the commit of another group was answered {code.name}")


def gzip_bombs(watched: Watched) -> None:
    """Fetch 24 stored bombs by an old version, while another client's batch needs the worker."""
    bomb = forged(attributes=Codec.GZIP, payload=compress(Codec.GZIP, bytes(100 * MIB)))
    with watched.client() as client:
        assert client.create_topic("bombs", 24) == 0
        assert client.create_topic("worked", config={"compression.type": "gzip"}) == 0
        for partition in range(24):
            assert client.produce("bombs", bomb, partition).error_code == 0
    wanted = {("bombs", partition): 0 for partition in range(24)}
    with watched.client() as reader, watched.client() as writer:
        reader.send(fetch_request(wanted, max_wait_ms=0), 2)
        for _ in range(20):
            assert writer.produce("worked", batch_of([b"v" * 1000])).error_code == 0


def long_names(watched: Watched) -> None:
    """Create topics whose names are longer than an error text can be."""
    with watched.client() as client:
        for length in (300, 32_767, 60_000):
            for version in (4, 7):
                topics = [CreatableTopic("n" * length, 1, 1)] * 2
                with contextlib.suppress(Exception):  # what cannot be encoded is not sent
                    client.call(CreateTopicsRequest(topics), version)


def pipelined(watched: Watched) -> None:
    """Send two hundred thousand small requests at once on four connections."""
    one = b"".join(encode_request(api_of(ApiVersionsRequest), 0, 1, "x", ApiVersionsRequest()))
    _all_at_once(watched, [one * 50_000] * 4, answers=50_000, framed=True)


def internal_writes(watched: Watched) -> None:
    """Write garbage to the internal topics under the name of Kafka's own tools."""
    for name, key_type in (("__consumer_offsets", 0), ("__transaction_state", 1)):
        with watched.client() as client:
            assert client.call(FindCoordinatorRequest("any", key_type), 2).error_code == 0
            request = produce_request(name, batch_of([b"garbage"]), 0)
            parts = encode_request(api_of(type(request)), 9, 1, "__admin_client", request)
            client.send_bytes(b"".join(parts))
            (answer,) = client.receive(request, 9).responses
            code = ErrorCode(answer.partition_responses[0].error_code)
            if code is ErrorCode.NONE:
                watched.problems.append(f"{name} took what a client wrote")


SCENES: Final[dict[str, Scene]] = {
    scene.__name__: scene
    for scene in (
        repeated_producers,
        repeated_configs,
        repeated_groups,
        tiny_elements,
        half_frames,
        old_readers,
        poisoned_commit,
        gzip_bombs,
        long_names,
        pipelined,
        internal_writes,
        largest_requests,
        largest_changes,
    )
}


def _rounds(watched: Watched, count: int) -> None:
    """Wait until a healthy client has done so many rounds, or has failed."""
    goal = watched.healthy.rounds + count
    done = threading.Event()
    while watched.healthy.rounds < goal and not watched.healthy.trouble:
        done.wait(0.02)


def _all_at_once(
    watched: Watched, contents: list[bytes], answers: int = 1, *, framed: bool = False
) -> None:
    """Send each of these on a connection of its own, all together, and read the answers."""

    def work(content: bytes) -> None:
        with watched.client() as client, contextlib.suppress(ConnectionError):
            writing = threading.Thread(target=_send, args=(client, content, framed))
            writing.start()
            for _ in range(answers):
                client.read_frame()
            writing.join()

    threads = [threading.Thread(target=work, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _send(client: RawClient, content: bytes, framed: bool) -> None:
    with contextlib.suppress(OSError):
        client.send_bytes(content) if framed else client.send_frame(content)
