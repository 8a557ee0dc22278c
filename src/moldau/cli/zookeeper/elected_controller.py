"""Who the controller is, as a ZooKeeper knows it: the broker that holds `/controller`."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

from moldau.base.errors import UserError
from moldau.cli.zookeeper.connection import NodeMissing, connect_to
from moldau.cluster.zookeeper.nodes.cluster_nodes import decode_cluster_id
from moldau.cluster.zookeeper.nodes.controller_nodes import (
    decode_controller,
    decode_controller_epoch,
)
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.paths import CLUSTER_ID, CONTROLLER, CONTROLLER_EPOCH

PATIENCE_S: Final = 2.0
"""Whoever looks at a cluster wants to see the rest of it soon."""


class ElectedController(NamedTuple):
    """The controller, its epoch, and the cluster; None where there is none."""

    broker_id: int | None
    epoch: int | None
    cluster_id: str | None


def read_controller(connect: str) -> ElectedController | None:
    """Return who the controller is; None if ZooKeeper does not tell."""
    broker_id = epoch = cluster_id = None
    try:
        with connect_to(connect, connect_timeout_s=PATIENCE_S) as connection:
            with suppress(NodeMissing):
                epoch = decode_controller_epoch(connection.read(CONTROLLER_EPOCH)[0])
            with suppress(NodeMissing):
                broker_id = decode_controller(connection.read(CONTROLLER)[0]).broker_id
            with suppress(NodeMissing):
                cluster_id = decode_cluster_id(connection.read(CLUSTER_ID)[0])
    except (UserError, MalformedNode):
        return None
    return ElectedController(broker_id, epoch, cluster_id)
