"""Brokers of one kind that form a cluster: Kafka's or ours, by the same settings.

Three replicas of everything, internal topics too, of which two must be in sync. What else differs
from the defaults is what a single broker of the kind has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient

from .broker import START_TIMEOUT_S, BrokerError, BrokerProcess
from .kinds import make_broker
from .memberships import VOTER, Keeping, Memberships, in_quorum, on_zookeeper
from .waiting import eventually
from .wire import quorum_leader, wait_until_answered
from .zookeeper_node import ZooKeeperNode

REPLICAS, MIN_ISR = 3, 2

REPLICATION: Mapping[str, str] = {
    "default.replication.factor": str(REPLICAS),
    "min.insync.replicas": str(MIN_ISR),
    "offsets.topic.replication.factor": str(REPLICAS),
    "transaction.state.log.replication.factor": str(REPLICAS),
    "transaction.state.log.min.isr": str(MIN_ISR),
}


class BrokerCluster:
    """Brokers 1 to `size`, each in its own process and folder, and their ZooKeeper if they need it.

    Where only one votes, it is the first.
    """

    def __init__(
        self,
        kind: str,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        size: int = REPLICAS,
        keeping: Keeping = Keeping.ONE_VOTER,
    ) -> None:
        self.kind = kind
        self._keeping = keeping
        self.nodes = {
            node_id: make_broker(
                kind, directory / f"broker-{node_id}", {**REPLICATION, **(settings or {})}
            )
            for node_id in range(VOTER, VOTER + size)
        }
        self.zookeeper = (
            ZooKeeperNode.as_shipped(directory / "zookeeper")
            if keeping is Keeping.ZOOKEEPER
            else None
        )
        for node_id, membership in self._memberships().items():
            self.nodes[node_id].join(membership)

    def _memberships(self) -> Memberships:
        if self.zookeeper is not None:
            return on_zookeeper(self.nodes, self.zookeeper.address)
        return in_quorum(
            self.nodes, {VOTER} if self._keeping is Keeping.ONE_VOTER else set(self.nodes)
        )

    @property
    def address(self) -> str:
        """Return what clients call `bootstrap.servers`."""
        return ",".join(node.address for node in self.nodes.values())

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the brokers that run."""
        return [node.pid for node in self.nodes.values() if node.running]

    @property
    def all_pids(self) -> list[int]:
        """Return the process ids of the brokers that run, and of their ZooKeeper."""
        return self.pids if self.zookeeper is None else [*self.pids, self.zookeeper.pid]

    def controller(self) -> int:
        """Return the broker that is the controller now."""
        if self._keeping is Keeping.ONE_VOTER:
            return VOTER
        if self._keeping is Keeping.ALL_VOTE:
            node = next(node for node in self.nodes.values() if node.running)
            return quorum_leader(node.host, node.port)
        admin = AdminClient({"bootstrap.servers": self.address})
        controller: int = admin.list_topics(timeout=START_TIMEOUT_S).controller_id
        return controller

    def start(self) -> Self:
        """Start all brokers at once, and return when each is part of the cluster."""
        if self.zookeeper is not None:
            self.zookeeper.start()
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            _wait_for_answer(node)
        self.wait_for_members(len(self.nodes))
        return self

    def wait_for_members(self, count: int) -> None:
        """Wait until clients are told of so many brokers."""
        admin = AdminClient({"bootstrap.servers": self.address})
        eventually(
            lambda: len(admin.list_topics(timeout=START_TIMEOUT_S).brokers) == count,
            f"{count} brokers of {self.kind} are in the cluster",
        )

    def kill(self) -> None:
        """Kill all processes that run."""
        for node in self.nodes.values():
            node.kill()
        if self.zookeeper is not None:
            self.zookeeper.kill()


def _wait_for_answer(node: BrokerProcess) -> None:
    if not wait_until_answered(node.host, node.port, lambda: node.running, START_TIMEOUT_S):
        raise BrokerError(f"{node.kind} did not answer on {node.address}:\n{node.tail()}")
