"""The brokers that are registered in a ZooKeeper: where commands of Kafka 1.x and 2.x find them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from moldau.base.errors import UserError
from moldau.cli.zookeeper.connection import NodeMissing, ZooKeeperConnection, connect_to
from moldau.cluster.zookeeper.nodes.broker_nodes import PLAINTEXT, BrokerNode, decode_broker
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.paths import BROKER_IDS, broker, number


def live_broker_addresses(connect: str) -> list[str]:
    """Return where clients reach each live broker; UserError if there is none, or no ZooKeeper."""
    with connect_to(connect) as connection:
        nodes = list(_live_brokers(connection))
    if not nodes:
        raise UserError(f"no broker is registered in ZooKeeper at {connect}")
    addresses = [address for node in nodes if (address := _address(node)) is not None]
    if not addresses:
        raise UserError(f"no broker in ZooKeeper at {connect} has a PLAINTEXT listener")
    return addresses


def _live_brokers(connection: ZooKeeperConnection) -> Iterator[BrokerNode]:
    """Read the nodes of all brokers, by their numbers; those that cannot be used are left out."""
    try:
        names, _ = connection.children(BROKER_IDS)
    except NodeMissing:
        return
    for broker_id in sorted(found for name in names if (found := number(name)) is not None):
        path = broker(broker_id)
        with suppress(NodeMissing, MalformedNode):  # it may have left meanwhile
            yield decode_broker(path, connection.read(path)[0])


def _address(node: BrokerNode) -> str | None:
    """Return the first address that a client without encryption can use."""
    for endpoint in node.endpoints:
        if endpoint.security_protocol == PLAINTEXT and endpoint.host:
            host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
            return f"{host}:{endpoint.port}"
    return None
