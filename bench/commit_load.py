"""Committing offsets: again and again for a few groups, or once for very many.

`commits` is the loop of a consumer that commits after every record, for many groups at once: a
request is sent when the one before is answered, on a connection per group. The frame is made once
and an answer that is right is always the same bytes, so the client does next to nothing.

`write` and `read` are the two sides of a restart: a great many offsets are committed once, and
asked for as soon as a broker that has just been started can tell them.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from bench.group_members import (
    NOT_READY,
    Member,
    find_coordinator,
    wait_for_coordinator,
    wait_until_served,
)
from bench.raw_connection import RawConnection, framed
from bench.request_loop import RequestLoop, connected
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
)
from moldau.protocol.registry import api_of, decode_response

_COMMIT, _FETCH = 9, 7
"""The newest version that names topics, and the newest that asks for one group."""
_OFFSET = 12_345
_METADATA = ""
_CONNECTIONS = 10
_PAUSE_S = 0.01
"""Small against the quickest load we measure."""
_READ_TIMEOUT_S = 120


class CommitRequest(NamedTuple):
    """What a group sends again and again, and to whom."""

    coordinator: str
    frame: bytes


def commits(
    address: str, topic: str, groups: int, warm_up_s: float, seconds: float
) -> dict[str, float]:
    """Commit one offset at a time for so many groups, each with one member."""
    loop = commit_loop(address, topic, groups)
    loop.run(warm_up_s)
    began = time.perf_counter()
    count = loop.run(seconds)
    took = time.perf_counter() - began
    loop.close()
    return {"commits": count, "seconds": took}


def commit_loop(address: str, topic: str, groups: int) -> RequestLoop:
    """Form so many groups, each with a connection to its coordinator that has committed once."""
    requests = asyncio.run(commit_requests(address, topic, groups))
    sockets = [connected(request.coordinator) for request in requests]
    frames = [request.frame for request in requests]
    expected = []
    for connection, frame in zip(sockets, frames, strict=True):
        connection.sendall(frame)
        expected.append(connection.recv(65_536))
        _check_commit(expected[-1])
    return RequestLoop(sockets, frames, expected)


async def commit_requests(address: str, topic: str, groups: int) -> list[CommitRequest]:
    """Form the groups, and make the request that each of them is going to send."""
    any_broker = await RawConnection.open(address.partition(",")[0])
    coordinators: dict[str, RawConnection] = {}
    requests = []
    for number in range(groups):
        group = f"bench-commits-{number}"
        coordinator = await find_coordinator(any_broker, group)
        if coordinator not in coordinators:
            coordinators[coordinator] = await RawConnection.open(coordinator)
        connection = coordinators[coordinator]
        await wait_until_served(connection, group)
        member = Member(connection, group, topic)
        await member.form_group()
        frame = commit_frame(group, topic, 1, member.generation, member.member_id)
        requests.append(CommitRequest(coordinator, frame))
    for connection in (any_broker, *coordinators.values()):
        connection.close()
    return requests


def write(address: str, topic: str, partitions: int, groups: int) -> dict[str, float]:
    """Commit an offset for every partition in every group."""
    asyncio.run(_write(address, topic, partitions, groups))
    return {"offsets": partitions * groups}


async def _write(address: str, topic: str, partitions: int, groups: int) -> None:
    connection = await RawConnection.open(address)
    for number in range(groups):
        group = _group(number)
        # Each partition of the internal topic becomes led in its own time, and none goes back.
        await wait_for_coordinator(connection, group)
        answer = await connection.exchange(commit_frame(group, topic, partitions, -1, ""))
        _check_commit(len(answer).to_bytes(4, "big") + answer)
    connection.close()


def read(address: str, partitions: int, groups: int) -> float:
    """Ask a broker that is about to start for all offsets of all groups, until it has told them.

    Returns the moment of the last answer, by `time.perf_counter`.
    """
    return asyncio.run(asyncio.wait_for(_read(address, partitions, groups), _READ_TIMEOUT_S))


async def _read(address: str, partitions: int, groups: int) -> float:
    shares = [range(first, groups, _CONNECTIONS) for first in range(_CONNECTIONS)]
    ended = await asyncio.gather(*(_read_share(address, partitions, share) for share in shares))
    return max(ended)


async def _read_share(address: str, partitions: int, numbers: range) -> float:
    connection = await _connected(address)
    right_size = 0
    for number in numbers:
        frame = framed(OffsetFetchRequest(_group(number), None, require_stable=True), _FETCH)
        # Decoding each would cost more than asking for it; those that are right are alike.
        while (size := len(answer := await connection.exchange(frame))) != right_size:
            if _told(answer, partitions):
                right_size = size
                break
            await asyncio.sleep(_PAUSE_S)
    connection.close()
    return time.perf_counter()


async def _connected(address: str) -> RawConnection:
    while True:
        try:
            return await RawConnection.open(address)
        except OSError:
            await asyncio.sleep(_PAUSE_S)


def _told(answer: bytes, partitions: int) -> bool:
    """Tell whether an answer holds every offset; False if the coordinator is not ready yet."""
    response = decode_response(api_of(OffsetFetchRequest), _FETCH, memoryview(answer))
    code = ErrorCode(response.error_code)
    if code in NOT_READY:
        return False
    offsets = [each.committed_offset for topic in response.topics for each in topic.partitions]
    if code is not ErrorCode.NONE or offsets != [_OFFSET] * partitions:
        raise RuntimeError(f"{code!r} with {len(offsets)} of {partitions} offsets")
    return True


def _group(number: int) -> str:
    return f"bench-offsets-{number:06d}"


def commit_frame(group: str, topic: str, partitions: int, generation: int, member_id: str) -> bytes:
    offsets = [
        OffsetCommitRequestPartition(each, _OFFSET, committed_metadata=_METADATA)
        for each in range(partitions)
    ]
    topics = [OffsetCommitRequestTopic(topic, partitions=offsets)]
    return framed(OffsetCommitRequest(group, generation, member_id, topics=topics), _COMMIT)


def _check_commit(frame: bytes) -> None:
    """Raise unless every offset was taken; the answer comes with its size before it."""
    response = decode_response(api_of(OffsetCommitRequest), _COMMIT, memoryview(frame)[4:])
    codes = {each.error_code for topic in response.topics for each in topic.partitions}
    if codes != {ErrorCode.NONE}:
        raise RuntimeError(f"a commit was answered with {codes}")
