"""A broker's own node in `/brokers/ids`: that it is there says that the broker lives.

The transaction that creates the node is the broker's epoch (czxid). The node is created empty and
then set, in one multi, because ZooKeeper tells the czxid only of nodes that were set.

A node of this id may be there already: that of an earlier life, whose session has not expired yet,
or that of another broker with the same id. If it names an address at which this broker listens now,
it is an earlier life: two processes cannot have one port. Otherwise it is waited for.

The same transaction sets a node in `/brokers/epochs`, which stays. So whoever registers next knows
the last epoch of this id (mzxid). A broker with another epoch on its disk may lack records: it has
lost them, or another machine had its id since and has acknowledged some. Its node says so.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from moldau.base.errors import MoldauError
from moldau.base.ids import BrokerId
from moldau.cluster.model import Endpoint
from moldau.cluster.zookeeper.client.port import (
    BadVersion,
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
from moldau.cluster.zookeeper.nodes.broker_nodes import BrokerNode, decode_broker, encode_broker
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode

logger = logging.getLogger(__name__)


class IdTaken(MoldauError):  # noqa: N818 - it names the state
    """A node of this id is there, and belongs to another session."""


class Registered(NamedTuple):
    """A registration that was made."""

    epoch: int
    may_lack_records: bool


async def register_broker(
    session: ZooKeeperSession, broker_id: BrokerId, last_epoch: int, registered: BrokerNode
) -> Registered:
    """Create a broker's node; IdTaken if another session holds it.

    `last_epoch` is that of the records on its disk, -1 if they may be incomplete.
    """
    path, last_path = paths.broker(broker_id), paths.broker_epoch(broker_id)
    while True:
        last = await session.exists(last_path)
        may_lack_records = last is None or last.mzxid != last_epoch
        data = encode_broker(replace(registered, may_lack_records=may_lack_records))
        try:
            results = await session.multi(
                [
                    CreateNode(path, kind=NodeKind.EPHEMERAL),
                    SetData(path, data, 0),
                    CreateNode(last_path)
                    if last is None
                    else SetData(last_path, b"", last.version),
                ]
            )
        except NodeExists as error:
            if error.path == path:
                found = await _own_registration(session, path)
                if found is not None:
                    return found
        except BadVersion:
            await session.sync()  # another one has registered, and its node is gone again
        except UnknownOutcome:
            await session.sync()
        else:
            stat = results[1].stat
            assert stat is not None  # of a node that was set
            return Registered(stat.czxid, may_lack_records)


async def _own_registration(session: ZooKeeperSession, path: str) -> Registered | None:
    """Return what this session has registered; None if the node is gone, IdTaken if it is not."""
    try:
        node = await session.read(path)
    except NoNode:
        return None
    if node.stat.ephemeral_owner != session.session_id:
        raise IdTaken(f"another broker is registered as {path}")
    return Registered(node.stat.czxid, decode_broker(path, node.data).may_lack_records)


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


async def keep_registration(
    session: ZooKeeperSession, broker_id: BrokerId, epoch: int, registered: BrokerNode, watch: Watch
) -> bool:
    """Tell whether a broker's node is still that of this epoch; the watch tells of its end.

    A node that somebody has written is written again: a controller that cannot read it takes the
    broker for dead, and the broker would not notice.
    """
    path = paths.broker(broker_id)
    while True:
        try:
            node = await session.read(path, watch)
        except NoNode:
            return False
        if node.stat.czxid != epoch:
            return False
        if _says(path, node.data, registered):
            return True
        logger.error(
            "a node of ZooKeeper is written again, because somebody has changed it: %s", path
        )
        try:
            await session.set_data(path, encode_broker(registered), node.stat.version)
        except UnknownOutcome:
            continue
        except NodeError as error:
            logger.debug("the watch tells what became of it: %s", error)
        return True


def _says(path: str, data: bytes, registered: BrokerNode) -> bool:
    """Tell whether a node has all of a registration, whenever it was made."""
    try:
        found = decode_broker(path, data)
    except MalformedNode:
        return False
    wanted = decode_broker(path, encode_broker(registered))
    return found == replace(wanted, timestamp_ms=found.timestamp_ms)
