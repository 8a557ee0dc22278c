"""A broker for a test: `TestBroker` for plain tests, `AsyncTestBroker` for asyncio.

    with TestBroker(topics={"orders": 3}) as broker:
        with Producer(broker.bootstrap_servers) as producer: ...
        broker.restart()
        assert [record.value for record in broker.records("orders")] == [...]

It is the broker itself, with real sockets and real files, and any Kafka client can use it. Its
settings are the usual ones except `QUICK`. It keeps its address through all its lives.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

from moldau.base.errors import ConfigError
from moldau.client.admin import AsyncAdmin
from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import InvalidState
from moldau.client.records import Record
from moldau.engine.portal import Portal
from moldau.testing.life import BrokerLife

P = ParamSpec("P")
T = TypeVar("T")

Settings = Mapping[str, str | int | bool]
"""Kafka's broker settings by their names."""

Topics = Mapping[str, int] | Iterable[str]
"""Topics with their numbers of partitions, or names alone for one partition each."""

HOST: Final = "127.0.0.1"

POLL_MS: Final = 1_000
"""How long one look at a topic may take; markers of transactions are passed without a record."""

FETCH_WAIT_MS: Final = 10
"""Nothing is waited for that has not been written yet."""

QUICK: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""What differs from a broker in production: a group does not wait for more members to come, and the
internal topics are small."""


class TestBroker:
    """One broker with a folder of its own, through as many lives as a test wants.

    `settings` are Kafka's; an unknown one is refused. With a `folder` its files stay afterwards;
    without one they are removed. Use it in a `with` block, or call `start` and `close`.
    """

    __test__ = False  # pytest would take the name for that of a test

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        topics: Topics = (),
        folder: str | Path | None = None,
        port: int = 0,
        brokers: int = 1,
    ) -> None:
        check_single(brokers)
        self._settings = broker_settings(settings)
        self._topics = topic_partitions(topics)
        self._port = port
        self._given_folder = None if folder is None else Path(folder)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._life: BrokerLife | None = None
        self._life_count = 0

    # Living

    def start(self) -> None:
        """Return once requests are answered; UserError says why it cannot be.

        The first start also creates the topics. A broker that was stopped or killed finds its
        files again.
        """
        if self._life is not None:
            raise InvalidState("the broker runs already")
        places = {
            "log.dirs": str(self.folder),
            "listeners": f"PLAINTEXT://{HOST}:{self._port}",
        }
        try:
            self._life = life = BrokerLife({**self._settings, **places})
        except BaseException:
            if not self._life_count:
                self._remove_files()
            raise
        self._life_count += 1
        self._port = life.address.port
        topics, self._topics = self._topics, {}
        if topics:
            self._call(create_topics(self.bootstrap_servers, topics, {}))

    def stop(self) -> None:
        """Stop in order, as at SIGTERM; the files stay until `close`."""
        self._ended().stop()

    def kill(self) -> None:
        """End at once, as at SIGKILL; the next start recovers."""
        self._ended().kill()

    def restart(self) -> None:
        """Stop in order and start again, at the same address."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, if it runs, and remove the files if no folder was given; twice is fine."""
        try:
            if self._life is not None:
                self.stop()
        finally:
            self._remove_files()

    def _remove_files(self) -> None:
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.cleanup()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ended(self) -> BrokerLife:
        life, self._life = self._life, None
        if life is None:
            raise _not_running()
        return life

    # What a test wants to know and do

    @property
    def is_running(self) -> bool:
        """Whether it answers requests."""
        return self._life is not None

    @property
    def bootstrap_servers(self) -> str:
        """The address to give to clients; the same in every life. Known from the first start on."""
        if self._port == 0:
            raise _not_running()
        return f"{HOST}:{self._port}"

    @property
    def folder(self) -> Path:
        """Where its logs are, in Kafka's format."""
        if self._given_folder is not None:
            return self._given_folder
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="moldau-test-")
        return Path(self._temporary.name) / "data"

    def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; TopicAlreadyExists and the like are raised."""
        self._call(create_topics(self.bootstrap_servers, {name: partitions}, configs or {}))

    def records(self, topic: str) -> list[Record[bytes | None, bytes | None]]:
        """Read all there is in a topic now, partition by partition; of transactions the committed.

        UnknownTopicOrPartition if there is no such topic: reading creates none.
        """
        return self._call(read_records(self.bootstrap_servers, topic))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if self._life is None:
            work.close()
            raise _not_running()
        portal = Portal("test-client")
        try:
            return portal.call(work)
        finally:
            portal.close()


class AsyncTestBroker:
    """`TestBroker` for asyncio: the same names, to be awaited.

    The broker has a thread and a loop of its own, so a test that blocks its loop does not block it.
    Cancelled, a call is finished all the same before the cancellation goes on.
    """

    __test__ = False

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        topics: Topics = (),
        folder: str | Path | None = None,
        port: int = 0,
        brokers: int = 1,
    ) -> None:
        self._broker = TestBroker(
            settings=settings, topics=topics, folder=folder, port=port, brokers=brokers
        )

    async def start(self) -> None:
        """Return once requests are answered; UserError says why it cannot be."""
        await _in_thread(self._broker.start)

    async def stop(self) -> None:
        """Stop in order, as at SIGTERM; the files stay until `close`."""
        await _in_thread(self._broker.stop)

    async def kill(self) -> None:
        """End at once, as at SIGKILL; the next start recovers."""
        await _in_thread(self._broker.kill)

    async def restart(self) -> None:
        """Stop in order and start again, at the same address."""
        await _in_thread(self._broker.restart)

    async def close(self) -> None:
        """Stop, if it runs, and remove the files if no folder was given; twice is fine."""
        await _in_thread(self._broker.close)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def is_running(self) -> bool:
        """Whether it answers requests."""
        return self._broker.is_running

    @property
    def bootstrap_servers(self) -> str:
        """The address to give to clients; the same in every life. Known from the first start on."""
        return self._broker.bootstrap_servers

    @property
    def folder(self) -> Path:
        """Where its logs are, in Kafka's format."""
        return self._broker.folder

    async def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; TopicAlreadyExists and the like are raised."""
        await _in_thread(self._broker.create_topic, name, partitions, configs=configs)

    async def records(self, topic: str) -> list[Record[bytes | None, bytes | None]]:
        """Read all there is in a topic now, partition by partition; of transactions the committed.

        UnknownTopicOrPartition if there is no such topic: reading creates none.
        """
        return await _in_thread(self._broker.records, topic)


async def _in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a call in a thread, and to its end: half a start cannot be taken back."""
    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def check_single(brokers: int) -> None:
    """Refuse several brokers where there is one; ConfigError."""
    if brokers != 1:
        raise ConfigError(f"brokers={brokers}: this is one broker, use TestCluster for several")


def broker_settings(given: Settings | None) -> dict[str, str]:
    """Return settings as a broker reads them, with those that make it quick."""
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (given or {}).items()
    }
    return {**QUICK, **texts}


def topic_partitions(topics: Topics) -> dict[str, int]:
    """Read topics given by name alone as having one partition."""
    if isinstance(topics, str):
        raise ConfigError(f"topics is a list of names, or numbers of partitions by name: {topics}")
    return dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)


async def create_topics(
    servers: str,
    topics: Mapping[str, int],
    configs: Mapping[str, str],
    replication_factor: int | None = None,
) -> None:
    """Create topics by their numbers of partitions."""
    async with AsyncAdmin(servers) as admin:
        for name, partitions in topics.items():
            await admin.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=dict(configs),
            )


async def read_records(servers: str, topic: str) -> list[Record[Any, Any]]:
    """Read all there is in a topic."""
    async with AsyncAdmin(servers) as admin:
        await admin.describe_topic(topic)  # a consumer waits for topics that are not there
    consumer: AsyncConsumer[Any, Any] = AsyncConsumer(
        servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        allow_auto_create_topics=False,
        fetch_max_wait_ms=FETCH_WAIT_MS,
    )
    found: list[Record[Any, Any]] = []
    async with consumer:
        found_partitions = await consumer.partitions_for(topic)
        ends = await consumer.end_offsets(found_partitions)
        consumer.assign(ends)
        for partition, end in ends.items():
            while await consumer.position(partition) < end:
                found += await consumer.poll(timeout_ms=POLL_MS)
    return sorted(found, key=attrgetter("partition"))


def _not_running() -> InvalidState:
    return InvalidState("the broker does not run", advice="Use it in a `with` block, or start it.")
