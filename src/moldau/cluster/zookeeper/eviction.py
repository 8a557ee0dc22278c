"""Takes the nodes of a process away that is gone, before its session expires (ADR 0017).

A wrong suspicion does no harm: a broker that lives finds its node gone, and registers again with a
new epoch; a controller that lives finds another one elected, whose epoch fences its writes.
"""

from __future__ import annotations

import contextlib
import logging

from moldau.base.ids import BrokerId
from moldau.cluster.model import Broker
from moldau.cluster.zookeeper.client.port import (
    PERSISTENT_OWNER,
    CheckVersion,
    DeleteNode,
    NodeError,
    NoNode,
    UnknownOutcome,
    ZooKeeperSession,
)
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.controller_nodes import NO_KRAFT_EPOCH, decode_controller
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.tenure import Tenure

logger = logging.getLogger(__name__)


async def evict_broker(tenure: Tenure, broker: Broker) -> bool:
    """Delete the node of this life of a broker, as the controller; tell whether it was there.

    ControllerFenced if this is not the controller any more, StoreFailed if nobody knows.
    """
    path = paths.broker(broker.id)
    async with tenure.turn:
        try:
            node = await tenure.session.read(path)
            if node.stat.czxid != broker.epoch:
                return False
            await tenure.write([DeleteNode(path, node.stat.version)])
        except NodeError:
            return False
    return True


async def remove_unheld_seat(session: ZooKeeperSession) -> bool:
    """Delete `/controller` if no session holds it; tell whether it was deleted.

    Somebody has made it by hand. It would never go, and nobody could be elected. That of a KRaft
    controller, while Kafka moves a cluster away from ZooKeeper, has such a node, too, and is kept.
    """
    with contextlib.suppress(NoNode):
        epoch = await session.read(paths.CONTROLLER_EPOCH)
        node = await session.read(paths.CONTROLLER)
        with contextlib.suppress(MalformedNode):
            if decode_controller(node.data).kraft_controller_epoch != NO_KRAFT_EPOCH:
                return False
        if node.stat.ephemeral_owner != PERSISTENT_OWNER:
            return False
        check = CheckVersion(paths.CONTROLLER_EPOCH, epoch.stat.version)
        with contextlib.suppress(NodeError, UnknownOutcome):
            await session.multi([check, DeleteNode(paths.CONTROLLER, node.stat.version)])
            logger.error("%s was removed: no session of a broker held it", paths.CONTROLLER)
            return True
    return False


async def free_seat(session: ZooKeeperSession, controller_id: BrokerId) -> bool:
    """Delete `/controller` if it is this broker's; tell whether it was deleted.

    The check of the epoch keeps it from deleting the node of one that was elected since.
    """
    with contextlib.suppress(NoNode, MalformedNode):
        epoch = await session.read(paths.CONTROLLER_EPOCH)
        node = await session.read(paths.CONTROLLER)
        if decode_controller(node.data).broker_id != controller_id:
            return False
        check = CheckVersion(paths.CONTROLLER_EPOCH, epoch.stat.version)
        with contextlib.suppress(NodeError, UnknownOutcome):
            await session.multi([check, DeleteNode(paths.CONTROLLER, node.stat.version)])
            return True
    return False
