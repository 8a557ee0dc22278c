"""The settings that make brokers one cluster: one voter, a vote for each, or ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from .broker import BrokerProcess
from .ports import free_port

VOTER = 1
"""The broker that votes where only one does."""
SESSION_MS = 9_000
"""Kafka's default for brokers of a quorum. On ZooKeeper its default is twice as long."""

Memberships = Mapping[int, Mapping[str, str]]
"""Settings by broker id."""


class Keeping(Enum):
    """What keeps the metadata of a cluster."""

    ONE_VOTER = auto()
    ALL_VOTE = auto()
    ZOOKEEPER = auto()


def in_quorum(nodes: Mapping[int, BrokerProcess], voters: set[int]) -> Memberships:
    """Let these brokers be controllers too."""
    controllers = {voter: f"{nodes[voter].host}:{free_port()}" for voter in voters}
    shared = {
        "controller.quorum.voters": ",".join(f"{id_}@{at}" for id_, at in controllers.items()),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    return {
        node_id: shared | _roles(node_id, f"PLAINTEXT://{node.address}", controllers.get(node_id))
        for node_id, node in nodes.items()
    }


def _roles(node_id: int, client: str, controller: str | None) -> dict[str, str]:
    return {
        "node.id": str(node_id),
        "process.roles": "broker,controller" if controller else "broker",
        "listeners": f"{client},CONTROLLER://{controller}" if controller else client,
        "advertised.listeners": client,
    }


def on_zookeeper(nodes: Mapping[int, BrokerProcess], connect: str) -> Memberships:
    """Let the brokers elect their controller in ZooKeeper."""
    return {
        node_id: {
            "broker.id": str(node_id),
            "zookeeper.connect": connect,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "listeners": f"PLAINTEXT://{node.address}",
            "advertised.listeners": f"PLAINTEXT://{node.address}",
        }
        for node_id, node in nodes.items()
    }
