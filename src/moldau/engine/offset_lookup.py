"""Asking leaders about offsets: by time and at the ends (ListOffsets), and where an epoch ends.

One round asks every leader concerned once, all at the same time, and tells for each partition what
was found or what went wrong. Who tries again, and for how long, is decided outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from moldau.engine.arguments import check_int, check_mapping
from moldau.engine.broker_errors import LeaderNotAvailable, UnknownTopicOrPartition, broker_error
from moldau.engine.cluster import Cluster, Lane
from moldau.engine.errors import ClientError, CorruptAnswer, InvalidArgument
from moldau.engine.metadata import MetadataImage
from moldau.engine.partitions import (
    ByPartition,
    Partition,
    TopicPartition,
    as_partition,
    as_partitions,
)
from moldau.engine.retry import retried
from moldau.engine.settings import IsolationLevel
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST_TIME: Final = -1
EARLIEST_TIME: Final = -2
TIME_MAX_MS: Final = (1 << 63) - 1

_CONSUMER: Final = -1

T = TypeVar("T")

Led = list[tuple[TopicPartition, int]]
"""Partitions of one leader, each with the leader's term."""


class OffsetAndTimestamp(NamedTuple):
    """A record found by time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None


class FoundOffset(NamedTuple):
    """What a leader said; -1 for what there is not."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The last epoch not above the one asked for, and where it ends; -1 if there is none."""

    epoch: int
    end_offset: int


class Round(NamedTuple, Generic[T]):
    """What one round brought."""

    found: dict[TopicPartition, T]
    failed: dict[TopicPartition, ClientError]


class OffsetLookup:
    """Asks the leaders of partitions, until every one has answered or a deadline passes."""

    def __init__(self, cluster: Cluster, isolation: IsolationLevel, timeout_ms: float) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._timeout_ms = timeout_ms

    async def beginnings(
        self, partitions: Iterable[Partition], timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        """Look up the first offsets."""
        found = await self._look_up(
            dict.fromkeys(as_partitions(partitions), EARLIEST_TIME), timeout_ms
        )
        return {partition: one.offset for partition, one in found.items()}

    async def ends(
        self, partitions: Iterable[Partition], timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        """Look up the offsets behind the last records that may be read."""
        found = await self._look_up(
            dict.fromkeys(as_partitions(partitions), LATEST_TIME), timeout_ms
        )
        return {partition: one.offset for partition, one in found.items()}

    async def at_times(
        self, times_ms: ByPartition[int], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Look up the first records at or after times; None where all are older."""
        check_mapping("times_ms", times_ms)
        for partition, time in times_ms.items():
            check_int(f"the time for {partition}", time)
            if not 0 <= time <= TIME_MAX_MS:
                raise InvalidArgument(f"times are milliseconds since 1970, not {time}")
        found = await self._look_up(times_ms, timeout_ms)
        return {partition: _readable(one) for partition, one in found.items()}

    async def _look_up(
        self, times_ms: ByPartition[int], timeout_ms: float | None
    ) -> dict[TopicPartition, FoundOffset]:
        """Look up until every one is found; raises what stands in the way at the deadline.

        Topics that are not known are waited for. Cancelled, it leaves nothing under way.
        """
        cluster, isolation = self._cluster, self._isolation
        deadline = cluster.deadline(self._timeout_ms if timeout_ms is None else timeout_ms)
        missing = {as_partition(partition): time for partition, time in times_ms.items()}
        found: dict[TopicPartition, FoundOffset] = {}

        async def attempt() -> None:
            for topic in {partition.topic for partition in missing}:
                await cluster.topic(topic, deadline)
            brought = await look_up_times(cluster, missing, isolation)
            found.update(brought.found)
            for partition in brought.found:
                del missing[partition]
            for error in brought.failed.values():
                raise error

        if missing:
            await retried(cluster, attempt, deadline)
        return found


def _readable(one: FoundOffset) -> OffsetAndTimestamp | None:
    if one.offset < 0:
        return None
    return OffsetAndTimestamp(
        one.offset, one.timestamp_ms, one.leader_epoch if one.leader_epoch >= 0 else None
    )


async def look_up_times(
    cluster: Cluster, times: Mapping[TopicPartition, int], isolation: IsolationLevel
) -> Round[FoundOffset]:
    """Ask every leader once for the first offsets at or after these times."""
    found: dict[TopicPartition, FoundOffset | ClientError] = {}

    async def ask(leader: int, partitions: Led) -> None:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for partition, epoch in partitions:
            wanted = ListOffsetsPartition(partition.partition, epoch, times[partition])
            topics.setdefault(partition.topic, []).append(wanted)
        request = ListOffsetsRequest(
            _CONSUMER, isolation, [ListOffsetsTopic(*each) for each in topics.items()]
        )
        answer: ListOffsetsResponse = await _call(cluster, leader, request)
        for told in answer.topics:
            for one in told.partitions:
                partition = TopicPartition(told.name, one.partition_index)
                found[partition] = (
                    _refused(one.error_code, partition)
                    if one.error_code
                    else FoundOffset(one.offset, one.timestamp, one.leader_epoch)
                )

    return await _ask_all(cluster, times, ask, found)


async def look_up_epochs(
    cluster: Cluster, questions: Mapping[TopicPartition, int]
) -> Round[EpochEnd]:
    """Ask every leader once where these epochs end (KIP-320)."""
    found: dict[TopicPartition, EpochEnd | ClientError] = {}

    async def ask(leader: int, partitions: Led) -> None:
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        for partition, epoch in partitions:
            wanted = OffsetForLeaderPartition(partition.partition, epoch, questions[partition])
            topics.setdefault(partition.topic, []).append(wanted)
        request = OffsetForLeaderEpochRequest(
            _CONSUMER, [OffsetForLeaderTopic(*each) for each in topics.items()]
        )
        answer: OffsetForLeaderEpochResponse = await _call(cluster, leader, request)
        for told in answer.topics:
            for one in told.partitions:
                partition = TopicPartition(told.topic, one.partition)
                found[partition] = (
                    _refused(one.error_code, partition)
                    if one.error_code
                    else EpochEnd(one.leader_epoch, one.end_offset)
                )

    return await _ask_all(cluster, questions, ask, found)


async def _ask_all(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    ask: Callable[[int, Led], Awaitable[None]],
    found: dict[TopicPartition, T | ClientError],
) -> Round[T]:
    """Ask all leaders at once. What goes wrong with one is a failure of its partitions only."""

    async def guarded(leader: int, led: Led) -> None:
        try:
            await ask(leader, led)
        except ClientError as error:
            found.update({partition: error for partition, _ in led})

    by_leader = _by_leader(cluster, partitions, found)
    async with asyncio.TaskGroup() as group:
        for leader, led in by_leader.items():
            group.create_task(guarded(leader, led))
    round_: Round[T] = Round({}, {})
    for partition in partitions:
        outcome = found.get(partition) or CorruptAnswer(f"the answer leaves {partition} out")
        if isinstance(outcome, ClientError):
            round_.failed[partition] = outcome
        else:
            round_.found[partition] = outcome
    return round_


async def _call(cluster: Cluster, leader: int, request: Any) -> Any:
    """Ask a leader where the answer does not wait behind a parked fetch."""
    connection = await cluster.connection(leader, Lane.COORDINATION)
    return await connection.call(request)


def _by_leader(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    found: dict[TopicPartition, T | ClientError],
) -> dict[int, Led]:
    image = cluster.image
    by_leader: dict[int, Led] = {}
    for partition in partitions:
        led = image.leader(*partition)
        if led is None:
            found[partition] = no_leader(image, partition)
        else:
            by_leader.setdefault(led.leader, []).append((partition, led.leader_epoch))
    return by_leader


def no_leader(image: MetadataImage, partition: TopicPartition) -> ClientError:
    """Say why nobody can be asked about a partition: it does not exist, or is not led now."""
    topic = image.topics.get(partition.topic)
    if partition.topic in image.refusals or (
        topic is not None and partition.partition not in topic.partitions
    ):
        return UnknownTopicOrPartition(f"{partition} is not known to the cluster")
    return LeaderNotAvailable(f"{partition} has no leader that is known yet")


def _refused(code: int, partition: TopicPartition) -> ClientError:
    return broker_error(code, f"{partition}: {ErrorCode.of(code).text}")
