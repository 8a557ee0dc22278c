"""What follows on ZooKeeper from the end of a broker's process (ADR 0017).

The controller takes its node away, and it leaves its ISRs at once. If it was the controller itself,
any broker frees its seat.
"""

from __future__ import annotations

import logging

from moldau.cluster.model import Broker
from moldau.cluster.store import ControllerFenced, StoreFailed
from moldau.cluster.zookeeper.client.port import ZooKeeperError
from moldau.cluster.zookeeper.eviction import evict_broker, free_seat
from moldau.cluster.zookeeper.store import ZooKeeperStore

logger = logging.getLogger(__name__)


async def take_away(store: ZooKeeperStore, broker: Broker) -> None:
    """Take the nodes of a process away that is gone."""
    try:
        await _take_away(store, broker)
    except (ControllerFenced, StoreFailed, ZooKeeperError) as error:
        logger.debug("broker %d keeps its nodes: %s", broker.id, error)


async def _take_away(store: ZooKeeperStore, broker: Broker) -> None:
    tenure = store.tenure
    if tenure is not None and not tenure.is_over:
        if await evict_broker(tenure, broker):
            logger.warning("broker %d is gone: its port refuses connections", broker.id)
    elif broker.id == store.leader_id and await free_seat(store.lives.session, broker.id):
        logger.warning("the controller, broker %d, is gone: a new one is elected", broker.id)
