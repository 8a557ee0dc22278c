"""Periodic work of the nodes of a cluster.

Every broker looks for followers that lag. The voter also looks for brokers that are silent, and for
partitions that should have another leader.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from moldau.cluster.controller import Controller
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError
from moldau.server.configuration.quorum import NodeKind
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.lifecycle.replicas import Replicas
from moldau.server.upkeep.housekeeping import Chore

logger = logging.getLogger(__name__)

CHECKS_PER_SESSION: Final = 8
"""A session that has ended is noticed within an eighth of its length, as in Kafka."""


def cluster_chores(
    settings: BrokerSettings, controller: Controller, replicas: Replicas
) -> list[Chore]:
    """Return the chores of a node; none where it stands alone."""
    values, kind = settings.values, settings.quorum.kind
    if kind is NodeKind.ALONE:
        return []
    lag_s = values.integer("replica.lag.time.max.ms") / 1000
    chores = [Chore("ISR shrinks", lag_s / 2, replicas.shrink_isrs)]
    if kind is NodeKind.OBSERVER:
        return chores
    unclean_s = values.integer("unclean.leader.election.interval.ms") / 1000
    chores.append(
        Chore(
            "unclean elections",
            unclean_s,
            partial(_while_there_is_more, controller, controller.elect_unclean_leaders),
        )
    )
    if values.value("auto.leader.rebalance.enable"):
        balance_s = values.integer("leader.imbalance.check.interval.seconds")
        elect_preferred = partial(
            _while_there_is_more, controller, controller.elect_preferred_leaders
        )
        chores.append(Chore("preferred leaders", balance_s, elect_preferred))
    if kind is NodeKind.ELECTED:
        return chores  # ZooKeeper has the sessions
    session_s = values.integer("broker.session.timeout.ms") / 1000
    chores.append(
        Chore(
            "sessions",
            session_s / CHECKS_PER_SESSION,
            partial(_while_there_is_more, controller, controller.check_sessions),
        )
    )
    return chores


async def _while_there_is_more(
    controller: Controller, work: Callable[[], Awaitable[object]]
) -> None:
    """Work until nothing is left. A controller that cannot is asked again later."""
    if not controller.is_active:
        return
    try:
        # A broker is told by its id, which may be 0.
        while (more := await work()) is not None and more is not False:
            pass
    except (ApiError, StoreFailed) as error:
        logger.warning("the controller could not do its work: %s", error)
