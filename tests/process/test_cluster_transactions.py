"""Transactions over the partitions of three brokers, and over the death of their coordinator.

Each transaction writes to partitions that all three brokers lead, with a group's offset. Readers
of what is committed see all of it or nothing.
"""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import confluent_kafka as confluent
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_harness.ports import free_port
from kafka_harness.waiting import eventually
from kits.transactional_clients import READ_COMMITTED, READ_UNCOMMITTED, read_to_the_end
from moldau import OffsetAndMetadata, Producer, TopicPartition
from moldau.base.clock import system_random
from moldau.base.ids import random_uuid, uuid_text
from moldau.protocol.messages.metadata import FindCoordinatorRequest
from process.raw_client import RawClient
from process.serving import MOLDAU, Serving

pytestmark = pytest.mark.process

VOTER, NODES = 1, (1, 2, 3)
PARTITIONS = 3
TIMEOUT_S = 60
TRANSACTION_KEY = 1

SETTINGS = """
node.id={node}
log.dirs={folder}/data
process.roles={roles}
listeners={listeners}
controller.quorum.voters=1@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
offsets.topic.num.partitions=3
offsets.topic.replication.factor=3
transaction.state.log.num.partitions=3
transaction.state.log.replication.factor=3
min.insync.replicas=2
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""


class Cluster:
    """Three brokers, the first of them the voter."""

    def __init__(self, folder: Path) -> None:
        self._controller_port = free_port()
        self.ports = {node: free_port() for node in NODES}
        self.brokers = {node: self._prepare(folder / str(node), node) for node in NODES}

    @property
    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def _prepare(self, folder: Path, node: int) -> Serving:
        folder.mkdir()
        listeners = f"PLAINTEXT://127.0.0.1:{self.ports[node]}"
        if node == VOTER:
            listeners += f",CONTROLLER://127.0.0.1:{self._controller_port}"
        config = folder / "server.properties"
        config.write_text(
            SETTINGS.format(
                node=node,
                folder=folder,
                roles="broker,controller" if node == VOTER else "broker",
                listeners=listeners,
                controller_port=self._controller_port,
            )
        )
        return Serving(folder, "--config", str(config))

    def start(self) -> None:
        cluster_id = uuid_text(random_uuid(system_random()))
        formats = [
            subprocess.Popen(
                [str(MOLDAU), "kafka-storage", "format", "-t", cluster_id, "-c", broker.options[1]],
                stdout=subprocess.DEVNULL,
            )
            for broker in self.brokers.values()
        ]
        assert [one.wait(TIMEOUT_S) for one in formats] == [0, 0, 0]
        for broker in self.brokers.values():
            broker.launch()
        for broker in self.brokers.values():
            assert broker.read_line().startswith("ready"), broker.errors

    def stop(self) -> None:
        """End them, the voter last: the others sign off with it."""
        with ExitStack() as stack:
            for broker in self.brokers.values():
                stack.callback(broker.kill)

    def coordinator(self, transactional_id: str) -> int:
        """Return the broker that coordinates an id, once there is one."""
        found = -1
        with RawClient(("127.0.0.1", self.ports[VOTER])) as client:

            def is_found() -> bool:
                nonlocal found
                request = FindCoordinatorRequest(transactional_id, TRANSACTION_KEY)
                found = client.call(request, 2).node_id
                return found >= 0

            eventually(is_found, f"{transactional_id} has a coordinator")
        return found

    def id_away_from_the_voter(self, name: str) -> tuple[str, int]:
        """Return a transactional id with its coordinator, which may be killed."""
        for number in range(100):
            coordinator = self.coordinator(f"{name}-{number}")
            if coordinator != VOTER:
                return f"{name}-{number}", coordinator
        raise AssertionError("the voter coordinates everything")

    def ids_of(self, coordinator: int, *names: str) -> list[str]:
        """Return transactional ids that one broker coordinates."""
        return [
            next(
                one
                for one in (f"{name}-{number}" for number in range(100))
                if self.coordinator(one) == coordinator
            )
            for name in names
        ]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


class Client(ABC):
    """One transactional producer, whose transactions take a group's offset with them."""

    @abstractmethod
    def write(self, topic: str, value: str, group: str, offset: int) -> None:
        """Begin a transaction; write to every partition, and wait for the acknowledgements."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class Confluent(Client):
    """librdkafka."""

    def __init__(self, addresses: str, transactional_id: str) -> None:
        self._addresses = addresses
        self._producer = confluent.Producer(
            {"bootstrap.servers": addresses, "transactional.id": transactional_id, "linger.ms": 0}
        )
        self._producer.init_transactions(TIMEOUT_S)

    def write(self, topic: str, value: str, group: str, offset: int) -> None:
        failed: list[object] = []
        self._producer.begin_transaction()
        for partition in range(PARTITIONS):
            self._producer.produce(
                topic, value, partition=partition,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )  # fmt: skip
        assert not self._producer.flush(TIMEOUT_S)
        assert not failed
        member = confluent.Consumer({"bootstrap.servers": self._addresses, "group.id": group})
        try:
            self._producer.send_offsets_to_transaction(
                [confluent.TopicPartition(topic, 0, offset)],
                member.consumer_group_metadata(),
                TIMEOUT_S,
            )
        finally:
            member.close()

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        self._producer.close()


class Own(Client):
    """Moldau's client."""

    def __init__(self, addresses: str, transactional_id: str) -> None:
        self._producer = Producer(addresses, transactional_id=transactional_id)

    def write(self, topic: str, value: str, group: str, offset: int) -> None:
        self._producer.begin_transaction()
        sent = [
            self._producer.send(topic, value.encode(), partition=partition)
            for partition in range(PARTITIONS)
        ]
        for one in sent:
            one.result(TIMEOUT_S)
        member = SimpleNamespace(
            group_id=group, generation_id=-1, member_id="", group_instance_id=None
        )
        self._producer.send_offsets_to_transaction(
            {TopicPartition(topic, 0): OffsetAndMetadata(offset)}, member
        )

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close()


def make_topic(cluster: Cluster, name: str) -> None:
    """Make a topic whose partitions are led by all three brokers."""
    admin = AdminClient({"bootstrap.servers": cluster.addresses})
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(TIMEOUT_S)

    def leaders() -> set[int]:
        known = admin.list_topics(name, timeout=TIMEOUT_S).topics[name]
        return {one.leader for one in known.partitions.values()}

    eventually(lambda: leaders() == set(NODES), "all brokers lead")


def seen(cluster: Cluster, topic: str, isolation: str = READ_COMMITTED) -> list[list[str]]:
    return [
        read_to_the_end(cluster.addresses, topic, partition, isolation)[0]
        for partition in range(PARTITIONS)
    ]


def committed_offset(cluster: Cluster, topic: str, group: str) -> int:
    member = confluent.Consumer({"bootstrap.servers": cluster.addresses, "group.id": group})
    try:
        (found,) = member.committed([confluent.TopicPartition(topic, 0)], TIMEOUT_S)
        return int(found.offset)
    finally:
        member.close()


def test_transactions_end_everywhere_also_when_their_coordinator_is_killed(
    cluster: Cluster,
) -> None:
    make_topic(cluster, "out")
    first, victim = cluster.id_away_from_the_voter("librdkafka")
    second, third = cluster.ids_of(victim, "own", "aborted")
    clients = [
        Confluent(cluster.addresses, first),
        Own(cluster.addresses, second),
        Own(cluster.addresses, third),
    ]
    groups = ["one", "two", "three"]
    expected: list[str] = []
    for number, (client, group) in enumerate(zip(clients, groups, strict=True)):
        client.write("out", f"dropped {number}", group, 10)
        client.abort()
        client.write("out", f"kept {number}", group, 20)
        client.commit()
        expected.append(f"kept {number}")
    everywhere = [expected] * PARTITIONS
    eventually(lambda: seen(cluster, "out") == everywhere, "committed records are there")
    for group in groups:
        eventually(
            lambda group=group: committed_offset(cluster, "out", group) == 20, "offsets are there"
        )

    for number, (client, group) in enumerate(zip(clients, groups, strict=True)):
        client.write("out", f"open {number}", group, 30 + number)
    cluster.brokers[victim].kill()
    for client in clients[:2]:
        client.commit()
    clients[2].abort()
    after = [sorted([*expected, "open 0", "open 1"])] * PARTITIONS
    eventually(
        lambda: [sorted(one) for one in seen(cluster, "out")] == after,
        "what was committed after the kill is there, and nothing else",
    )
    offsets = [committed_offset(cluster, "out", group) for group in groups]
    assert offsets == [30, 31, 20]
    for values in seen(cluster, "out", READ_UNCOMMITTED):
        assert "open 2" in values
    for client in clients:
        client.close()
    for broker in cluster.brokers.values():
        assert "Traceback" not in broker.errors, broker.errors
