"""The settings of a cluster on one machine: Kafka's `server.properties`, and ZooKeeper's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from moldau.base.errors import UserError
from moldau.base.properties import format_properties, parse_properties
from moldau.cli.clusters.layout import (
    FIRST_BROKER,
    HOST,
    ClusterFolder,
    LocalNode,
    LocalZooKeeper,
)

REPLICAS: Final = 3
MIN_ISR: Final = 2

HEADING: Final = "# Written at every `moldau cluster up`: set keys with its --override.\n"

ZOOKEEPER_HEADING: Final = "# Written at every `moldau cluster up`.\n"

METRICS: Final = "moldau.metrics.listen"
"""The one key whose value differs from node to node although the user sets it."""

FIXED: Final = frozenset(
    (
        "node.id",
        "broker.id",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "inter.broker.listener.name",
        "security.inter.broker.protocol",
        "listener.security.protocol.map",
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "zookeeper.connect",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
    )
)
"""Keys that make the cluster what it is. No value of theirs fits all brokers."""


def properties_text(cluster: ClusterFolder, node: LocalNode, overrides: Mapping[str, str]) -> str:
    """Write the settings of one node."""
    own = _on_zookeeper if cluster.shape.zookeeper is not None else _in_quorum
    settings = {**own(cluster, node), **_replication(cluster), **overrides}
    return HEADING + format_properties(settings)


def overrides_of(node: LocalNode, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return what the user sets for one node: its metrics have a port of their own.

    The user names the port of broker 1. Numbers of nodes follow their ports, here as well.
    """
    host, _, port = overrides.get(METRICS, "").rpartition(":")
    if not host or not port.isdecimal() or int(port) == 0:
        return dict(overrides)
    return {**overrides, METRICS: f"{host}:{int(port) + node.node_id - FIRST_BROKER}"}


def metrics_of(node: LocalNode) -> str | None:
    """Return where a node serves metrics, as its settings say; None if it serves none."""
    try:
        written = node.properties.read_text(encoding="utf-8")
    except OSError:
        return None
    return parse_properties(written).get(METRICS) or None


def zookeeper_properties_text(zookeeper: LocalZooKeeper) -> str:
    """Write the settings of the cluster's own ZooKeeper.

    Its sessions may be short, so that somebody who kills brokers need not wait, and as long as
    brokers ask for: two to twenty ticks would not allow both.
    """
    settings = {
        "dataDir": str(zookeeper.data),
        "clientPort": str(zookeeper.port),
        "clientPortAddress": HOST,
        "maxClientCnxns": "0",
        "tickTime": "1000",
        "minSessionTimeout": "2000",
        "maxSessionTimeout": "60000",
        "autopurge.purgeInterval": "24",
        "admin.enableServer": "false",
    }
    return ZOOKEEPER_HEADING + format_properties(settings)


def refuse_comma(path: Path) -> None:
    """Raise UserError if `log.dirs` cannot name a path: its entries are separated by commas."""
    if "," in str(path.absolute()):
        raise UserError(f"{path}: a comma in the path would separate two log directories")


def refuse_fixed_keys(overrides: Mapping[str, str]) -> None:
    """Raise UserError if the user sets what only this command can set."""
    for key in overrides:
        if key in FIXED:
            raise UserError(f"--override {key}: `moldau cluster up` sets it for each broker")


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of brokers: without variables that stand for fixed keys.

    A variable wins over the file. One that is meant for a single broker would be taken by all.
    """
    hidden = {f"KAFKA_{key.upper().replace('.', '_')}" for key in FIXED}
    return {name: value for name, value in inherited.items() if name not in hidden}


def _in_quorum(cluster: ClusterFolder, node: LocalNode) -> dict[str, str]:
    client = f"PLAINTEXT://{node.address}" if node.is_broker else ""
    controller = f"CONTROLLER://{HOST}:{node.controller_port}" if node.is_voter else ""
    voters = [f"{one.node_id}@{HOST}:{one.controller_port}" for one in cluster.voters]
    roles = {"broker": node.is_broker, "controller": node.is_voter}
    return {
        "node.id": str(node.node_id),
        "process.roles": ",".join(role for role, is_taken in roles.items() if is_taken),
        "listeners": ",".join(filter(None, (client, controller))),
        **({"advertised.listeners": client} if client else {}),
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(voters),
        "log.dirs": str(node.data),
    }


def _on_zookeeper(cluster: ClusterFolder, broker: LocalNode) -> dict[str, str]:
    connect = cluster.zookeeper_connect
    assert connect is not None  # that makes it this kind of cluster
    client = f"PLAINTEXT://{broker.address}"
    return {
        "broker.id": str(broker.node_id),
        "listeners": client,
        "advertised.listeners": client,
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
        "zookeeper.connect": connect,
        "log.dirs": str(broker.data),
    }


def _replication(cluster: ClusterFolder) -> dict[str, str]:
    replicas = min(REPLICAS, cluster.shape.broker_count)
    return {
        "default.replication.factor": str(replicas),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(MIN_ISR, replicas)),
    }
