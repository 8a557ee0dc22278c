"""A broker's own node in `/brokers/ids`: that it is there says that the broker lives.

The transaction that creates the node is the broker's epoch (czxid). The node is created empty and
then set, in one multi, because ZooKeeper tells the czxid only of nodes that were set.

A node of this id may be there already: that of an earlier life, whose session has not expired yet,
or that of another broker with the same id. If it names an address at which this broker listens now,
it is an earlier life: two processes cannot have one port. Otherwise it is waited for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from moldau.base.errors import MoldauError
from moldau.base.ids import BrokerId
from moldau.cluster.model import Endpoint
from moldau.cluster.zookeeper.client.port import (
    CreateNode,
    NodeError,
    NodeExists,
    NodeKind,
    NoNode,
    SetData,
    UnknownOutcome,
    Watch,
    ZooKeeperSession,
)
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.broker_nodes import decode_broker
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode


class IdTaken(MoldauError):  # noqa: N818 - it names the state
    """A node of this id is there, and belongs to another session."""


async def register_broker(session: ZooKeeperSession, broker_id: BrokerId, data: bytes) -> int:
    """Create a broker's node and return its epoch; IdTaken if another session holds it."""
    path = paths.broker(broker_id)
    while True:
        try:
            results = await session.multi(
                [CreateNode(path, kind=NodeKind.EPHEMERAL), SetData(path, data, 0)]
            )
        except NodeExists as error:
            stat = await session.exists(path)
            if stat is None:
                continue
            if stat.ephemeral_owner != session.session_id:
                raise IdTaken(f"another broker is registered as {path}") from error
            return stat.czxid
        except UnknownOutcome:
            await session.sync()
            continue
        stat = results[1].stat
        assert stat is not None  # of a node that was set
        return stat.czxid


async def end_earlier_life(
    session: ZooKeeperSession, broker_id: BrokerId, endpoints: Collection[Endpoint]
) -> None:
    """Delete a node of this id that names one of these addresses, at which this broker listens."""
    path = paths.broker(broker_id)
    own = {(one.host, one.port) for one in endpoints}
    with contextlib.suppress(NodeError, UnknownOutcome, MalformedNode):
        node = await session.read(path)
        named = decode_broker(path, node.data).endpoints
        if any((one.host, one.port) in own for one in named):
            await session.delete(path, node.stat.version)


async def is_registered(
    session: ZooKeeperSession, broker_id: BrokerId, epoch: int, watch: Watch
) -> bool:
    """Tell whether a broker's node is still that of this epoch; the watch tells of its end."""
    try:
        node = await session.read(paths.broker(broker_id), watch)
    except NoNode:
        return False
    return node.stat.czxid == epoch
