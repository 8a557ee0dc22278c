"""What the driver asks the brokers: which partitions there are, where they begin and end.

One metadata request and one ListOffsets request a leader for each question, whatever the number of
partitions. Reads nothing but what it needs to learn that something is there to be read (`news`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from moldau.base.errors import UserError
from moldau.base.ids import ZERO_TOPIC_ID
from moldau.client.errors import ClientError
from moldau.client.records import TopicPartition
from moldau.engine.cluster import Cluster, Lane
from moldau.engine.fetch_requests import (
    FetchLimits,
    fetch_request,
    fetch_version,
    without_session,
)
from moldau.engine.fetch_sessions import FetchPosition
from moldau.engine.metadata import NO_EPOCH, MetadataImage, TopicImage
from moldau.engine.offset_lookup import OffsetLookup
from moldau.engine.retry import retried
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import FetchRequest
from moldau.spark.source.connections import Connection, connection_to
from moldau.spark.source.extent import EARLIEST, Bound, NoMatch
from moldau.spark.source.offsets import Positions
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.ranges import later

logger = logging.getLogger(__name__)

_PATIENCE_S: Final = 1.0
"""How much longer than it was asked to wait a broker may take to say that nothing came."""


class Topics(NamedTuple):
    """The partitions of a subscription as they are now."""

    partitions: frozenset[TopicPartition]
    ids: Mapping[str, str]
    """As in `StreamOffset`."""
    missing: frozenset[str]
    """Topics and partitions that were named and are not there."""


class Lookup:
    """Asks in the name of one query. Threads may share it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._subscription = options.subscription

    @property
    def _connection(self) -> Connection:
        return connection_to(self._options.connection)

    # What there is

    def topics(self) -> Topics:
        """Find the partitions of the subscription, as of now."""
        connection = self._connection
        return connection.call(self._topics(connection.cluster))

    async def _topics(self, cluster: Cluster) -> Topics:
        everything = self._subscription.pattern is not None
        names = self._subscription.names
        cluster.watch_topics(names, all_topics=everything)
        deadline = cluster.deadline(self._options.look_up_timeout_ms)

        async def attempt() -> MetadataImage:
            image = await cluster.refresh()
            for name in names:
                refusal = image.refusals.get(name, ErrorCode.NONE)
                if refusal not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    raise UserError(f"topic {name!r} cannot be read: {refusal.text}")
            return image

        image = await retried(cluster, attempt, deadline)
        wanted = [topic for topic in image.topics.values() if self._is_wanted(topic)]
        return Topics(
            frozenset(self._partitions(wanted)),
            {one.name: one.topic_id.hex() for one in wanted if one.topic_id != ZERO_TOPIC_ID},
            self._missing(image),
        )

    def _missing(self, image: MetadataImage) -> frozenset[str]:
        names = self._subscription.names - image.topics.keys()
        return names | {
            str(one)
            for one in self._subscription.partitions
            if one.topic not in names and one.partition not in image.topics[one.topic].partitions
        }

    def _is_wanted(self, topic: TopicImage) -> bool:
        if topic.is_internal and self._subscription.pattern is not None:
            return False
        return self._subscription.matches(topic.name)

    def _partitions(self, topics: Iterable[TopicImage]) -> Iterable[TopicPartition]:
        for topic in topics:
            for number in topic.partitions:
                partition = TopicPartition(topic.name, number)
                if self._subscription.wants(partition):
                    yield partition

    # Where it lies

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Find the first offsets that can be read."""
        connection = self._connection
        return connection.call(self._offsets(connection).beginnings(partitions, None))

    def latest(
        self, partitions: Iterable[TopicPartition], at_least: Positions | None = None
    ) -> dict[TopicPartition, int]:
        """Find the offsets behind the last records that can be read.

        A leader that has just been elected may not know yet how far its log goes. So where an end
        lies before what is known already, it is asked for again a few times.
        """
        connection, wanted = self._connection, list(partitions)
        found = connection.call(self._offsets(connection).ends(wanted, None))
        for _ in range(self._options.retry_count):
            behind = later(at_least or {}, found)
            if not behind:
                break
            logger.warning("%s ends before an offset that was read: asking again", behind[0])
            connection.call(asyncio.sleep(self._options.retry_interval_ms / 1000))
            found.update(connection.call(self._offsets(connection).ends(behind, None)))
        return found

    def at_times(self, times_ms: Positions) -> dict[TopicPartition, int | None]:
        """Find the first offsets whose records are at or after times; None where all are older."""
        connection = self._connection
        found = connection.call(self._offsets(connection).at_times(times_ms, None))
        return {each: None if one is None else one.offset for each, one in found.items()}

    def _offsets(self, connection: Connection) -> OffsetLookup:
        options = self._options
        return OffsetLookup(connection.cluster, options.isolation, options.look_up_timeout_ms)

    def resolve(self, bound: Bound, topics: Topics) -> dict[TopicPartition, int]:
        """Find the offsets where reading begins or ends, for every partition there is."""
        partitions = topics.partitions
        if bound.each is not None and bound.each.keys() != partitions:
            raise UserError(_other_partitions(bound, partitions))
        if bound.by_time:
            return self._resolve_times(bound, partitions)
        if bound.each is None:
            look_up = self.earliest if bound.everywhere == EARLIEST else self.latest
            return look_up(partitions)
        found = dict(bound.each)
        first = [each for each, offset in found.items() if offset == EARLIEST]
        last = [each for each, offset in found.items() if EARLIEST < offset < 0]
        if first:
            found.update(self.earliest(first))
        if last:
            found.update(self.latest(last))
        return found

    def _resolve_times(
        self, bound: Bound, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int]:
        times = bound.each
        if times is None:
            assert bound.everywhere is not None
            times = dict.fromkeys(partitions, bound.everywhere)
        found = self.at_times(times)
        late = [each for each, offset in found.items() if offset is None]
        starting = bound is self._options.starting
        if late and starting and self._options.no_match is NoMatch.ERROR:
            raise UserError(
                f"{bound.option}: {min(late)} has no record at or after {times[min(late)]}; set"
                " startingOffsetsByTimestampStrategy=latest to begin at its end"
            )
        ends = self.latest(late) if late else {}
        return {each: ends[each] if offset is None else offset for each, offset in found.items()}

    # When it changes

    def news(self, positions: Positions, wait_ms: int) -> bool:
        """Wait until a record is written behind one of these positions, or for so long.

        Tell whether one was, or something is different about a partition. The brokers are asked to
        answer when there is something: no question is repeated.
        """
        connection = self._connection
        return connection.call(self._news(connection.cluster, positions, wait_ms))

    async def _news(self, cluster: Cluster, positions: Positions, wait_ms: int) -> bool:
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in positions:
            led = cluster.image.leader(*partition)
            if led is not None:
                by_leader.setdefault(led.leader, []).append(partition)
        if not by_leader:
            await asyncio.sleep(wait_ms / 1000)
            return False
        asked = [
            asyncio.ensure_future(
                _written(cluster, leader, led, positions, self._options.isolation, wait_ms)
            )
            for leader, led in by_leader.items()
        ]
        try:
            async with asyncio.timeout(wait_ms / 1000 + _PATIENCE_S):
                for answered in asyncio.as_completed(asked):
                    if await answered:
                        return True
        except TimeoutError:
            return False
        finally:
            for one in asked:
                one.cancel()
        return False


async def _written(
    cluster: Cluster,
    leader: int,
    partitions: list[TopicPartition],
    positions: Positions,
    isolation: int,
    wait_ms: int,
) -> bool:
    """Ask one leader to answer when something is written; tell whether it was."""
    topics = cluster.image.topics
    wanted = {
        one: FetchPosition(topics[one.topic].topic_id, positions[one], NO_EPOCH, max_bytes=1)
        for one in partitions
    }
    request = fetch_request(
        without_session(wanted), FetchLimits(wait_ms, min_bytes=1, max_bytes=1, isolation=isolation)
    )
    try:
        connection = await cluster.connection(leader, Lane.DATA)
        version = fetch_version(connection.agreed_version(FetchRequest), wanted)
        answer = await connection.send(request, version)
    except ClientError as error:
        logger.debug("broker %d could not be waited for: %s", leader, error)
        await asyncio.sleep(wait_ms / 1000)
        return False
    return any(
        one.records or one.error_code for topic in answer.responses for one in topic.partitions
    )


def require(topics: Topics) -> None:
    """Refuse to begin while something that was named is not there."""
    if topics.missing:
        names = ", ".join(sorted(topics.missing))
        raise UserError(f"not in the cluster: {names}; check the names, or create the topics first")


def _other_partitions(bound: Bound, partitions: frozenset[TopicPartition]) -> str:
    assert bound.each is not None
    unnamed = ", ".join(map(str, sorted(partitions - bound.each.keys())))
    unknown = ", ".join(map(str, sorted(bound.each.keys() - partitions)))
    found = f" it leaves out {unnamed}" if unnamed else f" it names {unknown}, which is not read"
    return f"{bound.option} has to name exactly the partitions that are read:{found}"
