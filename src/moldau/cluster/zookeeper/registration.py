"""A broker's own node in `/brokers/ids`: that it is there says that the broker lives.

The transaction that creates the node is the broker's epoch (czxid). The node is created empty and
then set, in one multi, because ZooKeeper tells the czxid only of nodes that were set.

A node of this id may be there already. It is that of an earlier life, whose session has not expired
yet, or of another broker with the same id. Nobody can tell which, so it is waited for.
"""

from __future__ import annotations

from moldau.base.errors import MoldauError
from moldau.base.ids import BrokerId
from moldau.cluster.zookeeper.client.port import (
    CreateNode,
    NodeExists,
    NodeKind,
    NoNode,
    SetData,
    UnknownOutcome,
    Watch,
    ZooKeeperSession,
)
from moldau.cluster.zookeeper.nodes import paths


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


async def is_registered(
    session: ZooKeeperSession, broker_id: BrokerId, epoch: int, watch: Watch
) -> bool:
    """Tell whether a broker's node is still that of this epoch; the watch tells of its end."""
    try:
        node = await session.read(paths.broker(broker_id), watch)
    except NoNode:
        return False
    return node.stat.czxid == epoch
