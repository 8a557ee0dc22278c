"""Where a simulated cluster keeps its metadata: on the disk of one voter, or in ZooKeeper.

Machines, faults and checks are the same for both. What differs is asked here: the settings of a
node, whether its disk holds the metadata, who is the controller, and what is decided by now.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Protocol

from moldau.base.ids import random_uuid, uuid_text
from moldau.cluster.formatting import identify_directories
from moldau.cluster.image import MetadataImage
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.controller_nodes import decode_controller
from moldau.server.parts import OpenZooKeeper
from moldau.sim.disk import SimDisk
from moldau.sim.process import PORT, SimBroker
from moldau.sim.world import World
from moldau.sim.zookeeper.ensemble import SimEnsemble
from moldau.sim.zookeeper.session import SimZooKeeper

CONTROLLER_PORT = 9093
FOLDER = "/data"
VOTER_ID = 1
VOTER_NAME = f"broker-{VOTER_ID}"


class MetadataKeeper(Protocol):
    """What keeps the metadata of a run."""

    def settings_of(self, node_id: int, name: str) -> dict[str, str]:
        """Return the settings of a node at this host that depend on it."""
        ...

    def format(self, disk: SimDisk, node_id: int, now_ms: int) -> None:
        """Prepare an empty disk for this cluster."""
        ...

    def open_zookeeper(self, name: str) -> OpenZooKeeper | None:
        """Return how the broker at this host reaches ZooKeeper; None without one."""
        ...

    def is_on_disk_of(self, node_id: int) -> bool:
        """Tell whether the metadata is lost with the disk of this node."""
        ...

    def controller_id(self) -> int | None:
        """Return who decides; None if nobody does."""
        ...

    def newest_image(self, processes: Iterable[SimBroker], known: MetadataImage) -> MetadataImage:
        """Return what is decided by now, as far as it was seen; `known` was seen before."""
        ...


class OneVoter:
    """The first node votes alone, and the others follow it."""

    def __init__(self, world: World) -> None:
        self._seed = world.seed
        self._cluster_id = uuid_text(random_uuid(world.random("cluster id")))

    def settings_of(self, node_id: int, name: str) -> dict[str, str]:
        listener = f"PLAINTEXT://{name}:{PORT}"
        controller = f"CONTROLLER://{name}:{CONTROLLER_PORT}"
        votes = node_id == VOTER_ID
        return {
            "node.id": str(node_id),
            "log.dirs": FOLDER,
            "process.roles": "broker,controller" if votes else "broker",
            "listeners": f"{listener},{controller}" if votes else listener,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": f"{VOTER_ID}@{VOTER_NAME}:{CONTROLLER_PORT}",
        }

    def format(self, disk: SimDisk, node_id: int, now_ms: int) -> None:
        """Format a disk; the same node gets the same directory id again.

        It is as if `meta.properties` were put back. With another id a partition whose only replica
        in sync was lost would wait for an operator.
        """
        identify_directories(
            disk,
            [FOLDER],
            FOLDER,
            node_id,
            random.Random(f"{self._seed}/format-{node_id}"),
            now_ms,
            self._cluster_id,
            founds_cluster=node_id == VOTER_ID,
        )

    def open_zookeeper(self, name: str) -> OpenZooKeeper | None:
        del name
        return None

    def is_on_disk_of(self, node_id: int) -> bool:
        return node_id == VOTER_ID

    def controller_id(self) -> int | None:
        return VOTER_ID

    def newest_image(self, processes: Iterable[SimBroker], known: MetadataImage) -> MetadataImage:
        for voter in processes:
            if voter.name == VOTER_NAME and voter.serving and voter.broker is not None:
                return voter.broker.parts.store.image
        return known


class OnZooKeeper:
    """The metadata is in an ensemble, and any broker may be elected."""

    def __init__(self, world: World) -> None:
        self.ensemble = SimEnsemble(world)

    def settings_of(self, node_id: int, name: str) -> dict[str, str]:
        return {
            "broker.id": str(node_id),
            "log.dirs": FOLDER,
            "listeners": f"PLAINTEXT://{name}:{PORT}",
            "zookeeper.connect": "zookeeper:2181",
        }

    def format(self, disk: SimDisk, node_id: int, now_ms: int) -> None:
        """Do nothing: a broker learns from ZooKeeper which cluster it belongs to."""

    def open_zookeeper(self, name: str) -> OpenZooKeeper | None:
        return lambda _, session_timeout_s, __: SimZooKeeper(
            self.ensemble, name, session_timeout_s=session_timeout_s
        )

    def is_on_disk_of(self, node_id: int) -> bool:
        del node_id
        return False

    def controller_id(self) -> int | None:
        node = self.ensemble.find(paths.CONTROLLER)
        return None if node is None else decode_controller(node.data).broker_id

    def newest_image(self, processes: Iterable[SimBroker], known: MetadataImage) -> MetadataImage:
        """Return the newest image by its version: versions only grow, over all controllers.

        A broker may be elected while it starts. The image that it then has from the tree is of
        version 0, and no state of the history.
        """
        for process in processes:
            if process.alive and process.newest_broker is not None:
                image = process.newest_broker.parts.store.image
                if image.version > known.version:
                    known = image
        return known
