"""A cluster for a test: several brokers inside the test process, to be killed and cut off.

    with TestCluster(topics={"orders": 3}) as cluster:
        with Producer(cluster.bootstrap_servers, acks="all") as producer: ...
        cluster.kill(2)
        cluster.restart(2)
        cluster.partition([3], [1, 2])
        cluster.heal()

Broker 1 is also the controller. They are real brokers with real sockets and files, each in its own
thread and event loop. A broker keeps its address across restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from moldau.base.clock import SystemClock, system_random
from moldau.base.ids import random_uuid, uuid_text
from moldau.client.errors import InvalidState
from moldau.client.records import Record
from moldau.cluster.formatting import identify_directories
from moldau.storage.disk import Disk
from moldau.testing.block import WithBlock
from moldau.testing.broker import HOST
from moldau.testing.data_folder import DataFolder
from moldau.testing.life import BrokerLife
from moldau.testing.settings import (
    VOTER,
    Settings,
    Topics,
    check_known,
    cluster_settings,
    node_settings,
    topic_partitions,
)
from moldau.testing.topics import Client, call, create_topics, read_records

QUICK_CLUSTER: Final = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "2500",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "50",
}
"""A dead broker is fenced after 2.5 seconds instead of Kafka's nine."""


class TestCluster(WithBlock):
    """Several brokers, each with its own folder; a test can restart them any number of times.

    `settings` are Kafka's and apply to all brokers. A given `folder` is kept.
    """

    __test__ = False  # pytest would take the name for that of a test

    def __init__(
        self,
        brokers: int = 3,
        *,
        settings: Settings | None = None,
        topics: Topics = (),
        folder: str | Path | None = None,
    ) -> None:
        self._settings = cluster_settings(brokers, QUICK_CLUSTER, settings)
        self._topics = topic_partitions(topics)
        self.broker_ids = tuple(range(1, brokers + 1))
        """The ids of all brokers. The first one is the controller."""
        self._folder = DataFolder(folder)
        self._lives: dict[int, BrokerLife] = {}
        self._ports = dict.fromkeys(self.broker_ids, 0)
        self._controller_port = 0
        self._cut: set[frozenset[int]] = set()
        """Pairs of brokers that do not reach each other."""

    # Living

    def start(self) -> None:
        """Start all brokers and wait until they serve; raises UserError if one cannot start."""
        self._format()
        for broker_id in self.broker_ids:
            self.start_broker(broker_id)
        topics, self._topics = self._topics, {}
        if topics:
            call(create_topics(self._client(), topics))

    def _format(self) -> None:
        """Give all folders the same cluster id, unless they already have one."""
        disk, random, now_ms = Disk(), system_random(), SystemClock().wall_ms()
        cluster_id: str | None = None
        for broker_id in self.broker_ids:
            place = str(self.folder(broker_id))
            is_voter = broker_id == VOTER
            if is_voter and cluster_id is None and not Path(place).exists():
                cluster_id = uuid_text(random_uuid(random))
            cluster_id = identify_directories(
                disk, [place], place, broker_id, random, now_ms, cluster_id, founds_cluster=is_voter
            ).cluster_id

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that was stopped or killed; it reuses its files."""
        check_known(broker_id, self.broker_ids)
        if broker_id in self._lives:
            raise InvalidState(f"broker {broker_id} is already running")
        self._lives[broker_id] = life = BrokerLife(self._settings_of(broker_id))
        self._ports[broker_id] = life.address.port
        if broker_id == VOTER:
            self._controller_port = life.controller_address.port
        self._apply_cuts()

    def _settings_of(self, broker_id: int) -> dict[str, str]:
        controller, folder = f"{HOST}:{self._controller_port}", str(self.folder(broker_id))
        own = node_settings(broker_id, self.address(broker_id), controller, folder)
        return {**self._settings, **own}

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker cleanly, like SIGTERM: its leaders move away first."""
        self._ended(broker_id).stop()

    def kill(self, broker_id: int) -> None:
        """Kill a broker, like SIGKILL."""
        self._ended(broker_id).kill()

    def restart(self, broker_id: int) -> None:
        """Stop the broker cleanly if it runs, then start it."""
        if broker_id in self._lives:
            self.stop_broker(broker_id)
        self.start_broker(broker_id)

    def stop(self) -> None:
        """Stop all brokers cleanly, the controller last; the files are kept until `close`."""
        for broker_id in sorted(self._lives, reverse=True):
            self.stop_broker(broker_id)

    def close(self) -> None:
        """Stop all brokers, and remove the files unless a folder was given; may be called twice."""
        self.heal()
        try:
            self.stop()
        finally:
            self._folder.remove()

    def _ended(self, broker_id: int) -> BrokerLife:
        check_known(broker_id, self.broker_ids)
        life = self._lives.pop(broker_id, None)
        if life is None:
            raise InvalidState(f"broker {broker_id} does not run")
        return life

    # The network between brokers

    def partition(self, side: Iterable[int], other_side: Iterable[int]) -> None:
        """Cut brokers off from others: connections break, and new ones are refused.

        Clients still reach all of them. A broker cut off from broker 1 has no controller and is
        fenced when its session ends.
        """
        ones, others = tuple(side), tuple(other_side)
        for broker_id in (*ones, *others):
            check_known(broker_id, self.broker_ids)
        self._cut |= {frozenset((one, other)) for one in ones for other in others if one != other}
        self._apply_cuts()

    def heal(self) -> None:
        """Let all brokers reach each other again."""
        self._cut.clear()
        self._apply_cuts()

    def _apply_cuts(self) -> None:
        for broker_id, life in self._lives.items():
            unreachable = {
                other for pair in self._cut if broker_id in pair for other in pair - {broker_id}
            }
            ports = {self._ports[other] for other in unreachable}
            if VOTER in unreachable:
                ports.add(self._controller_port)
            life.cut_off(ports)

    # What a test wants to know and do

    @property
    def running(self) -> tuple[int, ...]:
        """The ids of the running brokers."""
        return tuple(sorted(self._lives))

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients; restarts keep them. Known after the first start."""
        if not all(self._ports.values()):
            raise InvalidState(
                "the cluster does not run", advice="Use it in a `with` block, or start it."
            )
        return ",".join(map(self.address, self.broker_ids))

    def address(self, broker_id: int) -> str:
        """The address of one broker."""
        check_known(broker_id, self.broker_ids)
        return f"{HOST}:{self._ports[broker_id]}"

    def folder(self, broker_id: int) -> Path:
        """The folder of a broker's logs, in Kafka's format."""
        check_known(broker_id, self.broker_ids)
        return self._folder.path / f"broker-{broker_id}"

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; the default factor is `default.replication.factor`."""
        call(create_topics(self._client(), {name: partitions}, configs, replication_factor))

    def records(self, topic: str) -> list[Record[bytes | None, bytes | None]]:
        """Return all records of a topic, partition by partition, as `read_committed`.

        Raises UnknownTopicOrPartition if the topic does not exist; reading never creates it.
        """
        return call(read_records(self._client(), topic))

    def _client(self) -> Client:
        return {"bootstrap_servers": self.bootstrap_servers}
