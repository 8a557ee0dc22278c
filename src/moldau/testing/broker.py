"""A broker for a test: `TestBroker` for plain tests, `AsyncTestBroker` for asyncio.

    with TestBroker(topics={"orders": 3}) as broker:
        with Producer(broker.bootstrap_servers) as producer: ...
        broker.restart()
        assert [record.value for record in broker.records("orders")] == [...]

It is the real broker, with real sockets and files; any Kafka client can use it. Its settings are
the usual ones except `settings.QUICK`. It keeps its address across restarts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, ParamSpec, Self, TypeVar

from moldau.base.shielding import shielded
from moldau.client.errors import InvalidState
from moldau.client.records import Record
from moldau.testing.block import WithBlock
from moldau.testing.data_folder import DataFolder
from moldau.testing.life import BrokerLife
from moldau.testing.settings import Settings, Topics, broker_settings, topic_partitions
from moldau.testing.topics import Client, call, create_topics, read_records

P = ParamSpec("P")
T = TypeVar("T")

HOST: Final = "127.0.0.1"


class TestBroker(WithBlock):
    """One broker with its own folder; a test can restart it any number of times.

    `settings` are Kafka's; an unknown one is refused. A given `folder` is kept, a temporary one is
    removed at the end. Use it in a `with` block, or call `start` and `close`.
    """

    __test__ = False  # pytest would take the name for that of a test

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        topics: Topics = (),
        folder: str | Path | None = None,
        port: int = 0,
    ) -> None:
        self._settings = broker_settings(settings)
        self._topics = topic_partitions(topics)
        self._port = port
        self._folder = DataFolder(folder)
        self._life: BrokerLife | None = None
        self._life_count = 0

    # Living

    def start(self) -> None:
        """Start, and wait until requests are served; raises UserError if it cannot start.

        The first start also creates the topics. A later start reuses the files.
        """
        if self._life is not None:
            raise InvalidState("the broker is already running")
        places = {
            "log.dirs": str(self.folder),
            "listeners": f"PLAINTEXT://{HOST}:{self._port}",
        }
        try:
            self._life = life = BrokerLife({**self._settings, **places})
        except BaseException:
            if not self._life_count:
                self._folder.remove()
            raise
        self._life_count += 1
        self._port = life.address.port
        topics, self._topics = self._topics, {}
        if topics:
            call(create_topics(self._client(), topics))

    def stop(self) -> None:
        """Stop cleanly, like SIGTERM; the files are kept until `close`."""
        self._ended().stop()

    def kill(self) -> None:
        """Kill the broker, like SIGKILL; the next start recovers the log."""
        self._ended().kill()

    def restart(self) -> None:
        """Stop cleanly and start again at the same address."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and remove the files unless a folder was given; may be called twice."""
        try:
            if self._life is not None:
                self.stop()
        finally:
            self._folder.remove()

    def _ended(self) -> BrokerLife:
        life, self._life = self._life, None
        if life is None:
            raise _not_running()
        return life

    # What a test wants to know and do

    @property
    def is_running(self) -> bool:
        """Whether it serves requests."""
        return self._life is not None

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients; restarts keep it. Known after the first start."""
        if self._port == 0:
            raise _not_running()
        return f"{HOST}:{self._port}"

    @property
    def folder(self) -> Path:
        """The folder of its logs, in Kafka's format."""
        return self._folder.path

    def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; raises TopicAlreadyExists and other errors of the broker."""
        call(create_topics(self._client(), {name: partitions}, configs))

    def records(self, topic: str) -> list[Record[bytes | None, bytes | None]]:
        """Return all records of a topic, partition by partition, as `read_committed`.

        Raises UnknownTopicOrPartition if the topic does not exist; reading never creates it.
        """
        return call(read_records(self._client(), topic))

    def _client(self) -> Client:
        if self._life is None:
            raise _not_running()
        return {"bootstrap_servers": self.bootstrap_servers}


class AsyncTestBroker:
    """`TestBroker` for asyncio: the same methods as coroutines.

    The broker runs in its own thread and loop, so a test that blocks its loop does not block it. A
    cancelled call finishes before the cancellation takes effect.
    """

    __test__ = False

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        topics: Topics = (),
        folder: str | Path | None = None,
        port: int = 0,
    ) -> None:
        self._broker = TestBroker(settings=settings, topics=topics, folder=folder, port=port)

    async def start(self) -> None:
        """Start, and wait until requests are served; raises UserError if it cannot start."""
        await _in_thread(self._broker.start)

    async def stop(self) -> None:
        """Stop cleanly, like SIGTERM; the files are kept until `close`."""
        await _in_thread(self._broker.stop)

    async def kill(self) -> None:
        """Kill the broker, like SIGKILL; the next start recovers the log."""
        await _in_thread(self._broker.kill)

    async def restart(self) -> None:
        """Stop cleanly and start again at the same address."""
        await _in_thread(self._broker.restart)

    async def close(self) -> None:
        """Stop, and remove the files unless a folder was given; may be called twice."""
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
        """Whether it serves requests."""
        return self._broker.is_running

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients; restarts keep it. Known after the first start."""
        return self._broker.bootstrap_servers

    @property
    def folder(self) -> Path:
        """The folder of its logs, in Kafka's format."""
        return self._broker.folder

    async def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; raises TopicAlreadyExists and other errors of the broker."""
        await _in_thread(self._broker.create_topic, name, partitions, configs=configs)

    async def records(self, topic: str) -> list[Record[bytes | None, bytes | None]]:
        """Return all records of a topic, partition by partition, as `read_committed`.

        Raises UnknownTopicOrPartition if the topic does not exist; reading never creates it.
        """
        return await _in_thread(self._broker.records, topic)


async def _in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a call in a thread, and to its end: half a start cannot be taken back."""
    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await shielded(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def _not_running() -> InvalidState:
    return InvalidState("the broker does not run", advice="Use it in a `with` block, or start it.")
