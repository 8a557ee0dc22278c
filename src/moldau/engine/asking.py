"""How questions about many items reach brokers: whom to ask, again and again until a deadline.

Some questions go to any broker, some to the controller, some to every broker there is; those about
partitions go to their leaders, those about groups and transactions to their coordinators. Items
with the same destination share a request. What passes (a leader that moves, a coordinator that
loads, a lost connection) is tried again for the items concerned, the rest is settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from moldau.engine.broker_errors import (
    LeaderNotAvailable,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    broker_error,
)
from moldau.engine.cluster import Cluster, CoordinatorKind, Node
from moldau.engine.connection import ClientConnection
from moldau.engine.errors import ClientClosed, ClientError, NoBrokerReachable
from moldau.engine.partitions import TopicPartition
from moldau.engine.results import Results, Tally
from moldau.engine.retry import asks_for_coordinator, retried
from moldau.protocol.errors import ErrorCode
from moldau.protocol.registry import find_api

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

CONCURRENCY_MAX = 50
"""Questions about single items that are asked at once: enough to fill a round trip, and no flood of
requests when somebody describes ten thousand groups."""


class Answered(NamedTuple):
    """An answer and the version it came in, where its meaning depends on that."""

    response: Any
    version: int


class Asking:
    """The way of one who asks to brokers. Owned by the event loop's thread."""

    def __init__(self, cluster: Cluster, default_timeout_ms: float) -> None:
        self.cluster = cluster
        self._default_timeout_ms = default_timeout_ms

    # Time

    def deadline(self, timeout_ms: float | None) -> float:
        """Return until when a call may take, by its own wish or by the setting."""
        return self.cluster.deadline(self._default_timeout_ms if timeout_ms is None else timeout_ms)

    def patience_ms(self, deadline: float) -> int:
        """Return how long a broker may work on a request that names its own time-out."""
        left_ms = (deadline - self.cluster.ports.clock.monotonic()) * 1000
        return max(0, min(self.cluster.settings.request_timeout_ms, int(left_ms)))

    # One request

    async def ask(
        self, node: int | Node, request: Any, *, least: int = 0, most: int | None = None
    ) -> Any:
        """Ask a broker once; UnsupportedVersion if it does not know the least version needed."""
        return (await self.answered(node, request, least=least, most=most)).response

    async def answered(
        self, node: int | Node, request: Any, *, least: int = 0, most: int | None = None
    ) -> Answered:
        """Ask a broker once, and tell in which version it answered."""
        connection = await self._connection(node)
        version = connection.agreed_version(type(request))
        if version < least:
            raise UnsupportedVersion(
                f"{find_api(request.KEY).name}: this needs version {least},"
                f" the broker serves up to {version}"
            )
        if most is not None:
            version = min(version, most)
        return Answered(await connection.send(request, version), version)

    async def _connection(self, node: int | Node) -> ClientConnection:
        return await self.cluster.connection(self._broker(node))

    async def known_broker(self, broker_id: int) -> int:
        """Return the id of a broker that a user named; BrokerError if there is none of it now."""
        if broker_id not in self.cluster.image.brokers:
            image = await self.cluster.refresh(())
            if broker_id not in image.brokers:
                known = ", ".join(str(one) for one in sorted(image.brokers))
                raise broker_error(
                    ErrorCode.BROKER_NOT_AVAILABLE,
                    f"there is no broker {broker_id}; those there are: {known}",
                )
        return broker_id

    def _broker(self, node: int | Node) -> int:
        if not isinstance(node, Node):
            return node
        image = self.cluster.image
        if node is Node.CONTROLLER and image.controller_id in image.brokers:
            return image.controller_id
        known = list(image.brokers)
        if not known:
            self.cluster.request_refresh()
            raise NoBrokerReachable("no broker is known right now")
        return known[self.cluster.ports.random.randrange(len(known))]

    # Until it is done

    async def until_done(self, attempt: Callable[[], Awaitable[T]], deadline: float) -> T:
        """Run an attempt until it succeeds, fails for good, or the deadline passes."""
        return await retried(self.cluster, attempt, deadline)

    async def settle(
        self,
        items: Iterable[K],
        attempt: Callable[[Tally[K, V]], Awaitable[None]],
        deadline: float,
    ) -> Results[K, V]:
        """Run rounds until every item has its result or its error.

        A round asks for what waits and tells the tally; a failure it raises is that of all items
        which still wait. ClientClosed is raised.
        """
        tally: Tally[K, V] = Tally(items)

        async def round_() -> None:
            tally.begin_round()
            try:
                await attempt(tally)
            except ClientError as error:
                for item in list(tally.waiting):
                    tally.fail(item, error)
            tally.end_round()

        try:
            await retried(self.cluster, round_, deadline)
        except ClientClosed:
            raise
        except ClientError as error:
            tally.give_up(error)
        results = tally.results()
        for failure in results.errors.values():
            if isinstance(failure, ClientClosed):
                raise failure
        return results

    async def each(self, items: Iterable[K], call: Callable[[K], Awaitable[V]]) -> Results[K, V]:
        """Do something for each item by itself, a number of them at once."""
        tally: Tally[K, V] = Tally(items)
        free = asyncio.Semaphore(CONCURRENCY_MAX)

        async def one(item: K) -> None:
            async with free:
                try:
                    tally.done(item, await call(item))
                except ClientClosed:
                    raise
                except ClientError as error:
                    tally.refuse(item, error)

        await _all(one(item) for item in list(tally.waiting))
        return tally.results()

    # Whom to ask

    async def each_broker(
        self, ask: Callable[[int], Awaitable[T]], deadline: float
    ) -> dict[int, T]:
        """Ask every broker there is; raises if one cannot answer: a list with gaps misleads."""
        found: dict[int, T] = {}

        async def attempt() -> dict[int, T]:
            image = await self.cluster.refresh(())
            tally: Tally[int, T] = Tally(one for one in image.brokers if one not in found)
            await self._ask_brokers(tally, ask)
            found.update(tally.results().or_raise())
            tally.end_round()
            return {broker_id: found[broker_id] for broker_id in image.brokers}

        return await retried(self.cluster, attempt, deadline)

    async def of_brokers(
        self, broker_ids: Iterable[int], ask: Callable[[int], Awaitable[T]], deadline: float
    ) -> Results[int, T]:
        """Ask these brokers, all at once."""
        return await self.settle(broker_ids, lambda tally: self._ask_brokers(tally, ask), deadline)

    async def _ask_brokers(self, tally: Tally[int, T], ask: Callable[[int], Awaitable[T]]) -> None:
        async def one(broker_id: int, items: list[int]) -> None:
            del items
            tally.done(broker_id, await ask(await self.known_broker(broker_id)))

        await self._together(tally, {broker_id: [broker_id] for broker_id in tally.waiting}, one)

    async def of_leaders(
        self,
        tally: Tally[TopicPartition, V],
        ask: Callable[[int, list[TopicPartition]], Awaitable[None]],
    ) -> None:
        """Ask the leaders of partitions.

        Whether a partition exists is told by metadata fetched now, so a misspelt name fails at
        once. A leader that does not know its partition only does not know it yet, or any more.
        """
        image = await self.cluster.refresh({partition.topic for partition in tally.waiting})
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in list(tally.waiting):
            topic = image.topics.get(partition.topic)
            refusal = image.refusals.get(partition.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            known = topic.partitions.get(partition.partition) if topic is not None else None
            if known is not None and image.leader(*partition) is not None:
                by_leader.setdefault(known.leader, []).append(partition)
            elif known is not None:
                tally.fail(partition, LeaderNotAvailable(f"{partition} has no leader right now"))
            elif topic is not None or refusal is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                tally.refuse(partition, UnknownTopicOrPartition(f"there is no {partition}"))
            else:
                tally.fail(partition, broker_error(refusal, f"{partition}: {refusal.text}"))
        await self._together(tally, by_leader, ask)

    async def of_coordinators(
        self,
        tally: Tally[str, V],
        kind: CoordinatorKind,
        ask: Callable[[int, list[str]], Awaitable[None]],
        deadline: float,
    ) -> None:
        """Ask the coordinators of groups or transactional ids."""
        by_coordinator: dict[int, list[str]] = {}
        free = asyncio.Semaphore(CONCURRENCY_MAX)

        async def search(key: str) -> None:
            async with free:
                try:
                    found = await self.cluster.coordinator(kind, key, deadline)
                except ClientError as error:
                    tally.fail(key, error)
                else:
                    by_coordinator.setdefault(found, []).append(key)

        await _all(search(key) for key in list(tally.waiting))
        await self._together(tally, by_coordinator, ask)
        for key, error in tally.waiting.items():
            if error is not None and asks_for_coordinator(error):
                self.cluster.forget_coordinator(kind, key)

    async def at_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        attempt: Callable[[int], Awaitable[T]],
        deadline: float,
    ) -> T:
        """Have the coordinator of one key do something, until it is done."""

        async def whole() -> T:
            return await attempt(await self.cluster.coordinator(kind, key, deadline))

        return await retried(self.cluster, whole, deadline, coordinator=(kind, key))

    async def _together(
        self,
        tally: Tally[K, V],
        by_broker: Mapping[int, list[K]],
        ask: Callable[[int, list[K]], Awaitable[None]],
    ) -> None:
        """Ask several brokers at once; what goes wrong with one concerns its own items only."""

        async def guarded(broker_id: int, items: list[K]) -> None:
            try:
                await ask(broker_id, items)
            except ClientError as error:
                for item in items:
                    tally.fail(item, error)

        await _all(guarded(broker_id, items) for broker_id, items in by_broker.items())


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do all at once; the first failure ends the others and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Put partitions together as requests name them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
