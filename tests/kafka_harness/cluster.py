"""Brokers of one kind that form a cluster, with one voter: Kafka's or ours, by the same settings.

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
from .ports import free_port
from .waiting import eventually
from .wire import wait_until_answered

VOTER = 1
REPLICAS, MIN_ISR = 3, 2

REPLICATION: Mapping[str, str] = {
    "default.replication.factor": str(REPLICAS),
    "min.insync.replicas": str(MIN_ISR),
    "offsets.topic.replication.factor": str(REPLICAS),
    "transaction.state.log.replication.factor": str(REPLICAS),
    "transaction.state.log.min.isr": str(MIN_ISR),
}


class BrokerCluster:
    """Brokers 1 to `size`, each in its own process and folder; the first votes."""

    def __init__(
        self,
        kind: str,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        size: int = REPLICAS,
    ) -> None:
        self.kind = kind
        self.nodes = {
            node_id: make_broker(
                kind, directory / f"broker-{node_id}", {**REPLICATION, **(settings or {})}
            )
            for node_id in range(VOTER, VOTER + size)
        }
        controller = f"{self.nodes[VOTER].host}:{free_port()}"
        for node_id, node in self.nodes.items():
            node.join(_membership(node_id, node, controller))

    @property
    def address(self) -> str:
        """Return what clients call `bootstrap.servers`."""
        return ",".join(node.address for node in self.nodes.values())

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the brokers that run."""
        return [node.pid for node in self.nodes.values() if node.running]

    def start(self) -> Self:
        """Start all brokers at once, and return when each is part of the cluster."""
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
        """Kill all brokers that run."""
        for node in self.nodes.values():
            node.kill()


def _wait_for_answer(node: BrokerProcess) -> None:
    if not wait_until_answered(node.host, node.port, lambda: node.running, START_TIMEOUT_S):
        raise BrokerError(f"{node.kind} did not answer on {node.address}:\n{node.tail()}")


def _membership(node_id: int, node: BrokerProcess, controller: str) -> dict[str, str]:
    client = f"PLAINTEXT://{node.address}"
    votes = node_id == VOTER
    return {
        "node.id": str(node_id),
        "process.roles": "broker,controller" if votes else "broker",
        "controller.quorum.voters": f"{VOTER}@{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{client},CONTROLLER://{controller}" if votes else client,
        "advertised.listeners": client,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
