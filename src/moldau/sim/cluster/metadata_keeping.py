"""Where a simulated cluster keeps its metadata: with one voter, in a quorum, or in ZooKeeper.

Machines, faults and checks are the same for all. What differs is asked here: the settings of a
node, whether its disk holds the metadata, who is the controller, and what is decided by now.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from typing import Final, Protocol

from moldau.base.ids import random_uuid, uuid_text
from moldau.cluster.formatting import identify_directories
from moldau.cluster.image import MetadataImage
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterEndpoint, VoterSet
from moldau.cluster.zookeeper.history import controller_epoch_of
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.controller_nodes import decode_controller
from moldau.server.parts import OpenZooKeeper
from moldau.sim.cluster.quorum_nodes import store_of
from moldau.sim.disk import SimDisk
from moldau.sim.process import PORT, SimBroker
from moldau.sim.world import World
from moldau.sim.zookeeper.ensemble import SimEnsemble
from moldau.sim.zookeeper.session import SimZooKeeper

CONTROLLER_PORT = 9093
FOLDER = "/data"
METADATA_DIRECTORY = f"{FOLDER}-metadata"
"""Where a node of a quorum has its metadata. Faults of its disk are of both folders."""
VOTER_ID = 1
VOTER_NAME = f"broker-{VOTER_ID}"
VOTER_IDS: Final = (1, 2, 3)
"""Of a quorum, however many brokers there are; the others observe."""


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

    def may_lose_disk(self, node_id: int) -> bool:
        """Tell whether a cluster has to stand that this node finds an empty disk."""
        ...

    def controller_id(self, processes: Iterable[SimBroker]) -> int | None:
        """Return who decides; None if nobody does."""
        ...

    def controller_epoch(self, processes: Iterable[SimBroker], known: MetadataImage) -> int:
        """Return the newest epoch in which one of the processes, or `known`, was decided on."""
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
        return _settings(node_id, name, (VOTER_ID,))

    def format(self, disk: SimDisk, node_id: int, now_ms: int) -> None:
        """Format a disk; the same node gets the same directory id again.

        It is as if `meta.properties` were put back. With another id a partition whose only replica
        in sync was lost would wait for an operator.
        """
        chance = random.Random(f"{self._seed}/format-{node_id}")
        founds, cluster_id = node_id == VOTER_ID, self._cluster_id
        identify_directories(
            disk, [FOLDER], FOLDER, node_id, chance, now_ms, cluster_id, founds_cluster=founds
        )

    def open_zookeeper(self, name: str) -> OpenZooKeeper | None:
        del name
        return None

    def is_on_disk_of(self, node_id: int) -> bool:
        return node_id == VOTER_ID

    def may_lose_disk(self, node_id: int) -> bool:
        return node_id != VOTER_ID

    def controller_id(self, processes: Iterable[SimBroker]) -> int | None:
        del processes
        return VOTER_ID

    def controller_epoch(self, processes: Iterable[SimBroker], known: MetadataImage) -> int:
        """Return 0: there is no other controller."""
        del processes, known
        return 0

    def newest_image(self, processes: Iterable[SimBroker], known: MetadataImage) -> MetadataImage:
        for voter in processes:
            if voter.name == VOTER_NAME and voter.serving and voter.broker is not None:
                return voter.broker.parts.store.image
        return known


def _settings(node_id: int, name: str, voters: Collection[int]) -> dict[str, str]:
    """Return the settings of a node of a cluster in which these nodes vote."""
    listener = f"PLAINTEXT://{name}:{PORT}"
    controller = f"CONTROLLER://{name}:{CONTROLLER_PORT}"
    votes = node_id in voters
    return {
        "node.id": str(node_id),
        "log.dirs": FOLDER,
        "process.roles": "broker,controller" if votes else "broker",
        "listeners": f"{listener},{controller}" if votes else listener,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.voters": ",".join(
            f"{voter}@broker-{voter}:{CONTROLLER_PORT}" for voter in voters
        ),
    }


class InQuorum:
    """Three nodes vote, and the others observe. In every other run the log names the voters.

    A voter whose disk is empty has forgotten whom it has voted for. With voters that the settings
    name nobody notices, and two leaders may be elected. So no cluster has to stand that. Where the
    log names them it is another voter, which takes the place of the first by itself (KIP-1186).
    """

    def __init__(self, world: World) -> None:
        self._seed = world.seed
        self._cluster_id = uuid_text(random_uuid(world.random("cluster id")))
        chance = world.random("voters")
        self.names_voters = chance.random() < 0.5
        """Whether the log names the voters."""
        self._replicas = {node: ReplicaKey(NodeId(node), random_uuid(chance)) for node in VOTER_IDS}
        self._first_voters = VoterSet(
            tuple(
                Voter(
                    self.replica(node),
                    (VoterEndpoint("CONTROLLER", f"broker-{node}", CONTROLLER_PORT),),
                )
                for node in VOTER_IDS
            )
        )

    def replica(self, node_id: int) -> ReplicaKey:
        """Return a node that may vote, with the directory that it has now."""
        return self._replicas[node_id]

    def settings_of(self, node_id: int, name: str) -> dict[str, str]:
        settings = _settings(node_id, name, VOTER_IDS) | {"metadata.log.dir": METADATA_DIRECTORY}
        if self.names_voters:
            del settings["controller.quorum.voters"]
            settings["controller.quorum.bootstrap.servers"] = ",".join(
                f"broker-{voter}:{CONTROLLER_PORT}" for voter in VOTER_IDS
            )
            votes = node_id in VOTER_IDS
            settings["controller.quorum.auto.join.enable"] = str(votes).lower()
        return settings

    def format(self, disk: SimDisk, node_id: int, now_ms: int) -> None:
        """Format a disk; the same node gets the same directory id again (see `OneVoter`)."""
        chance = random.Random(f"{self._seed}/format-{node_id}")
        is_voter = node_id in VOTER_IDS
        voters = self._first_voters if is_voter and self.names_voters else None
        self._format(disk, node_id, chance, now_ms, is_first=is_voter, voters=voters)

    def _format(
        self,
        disk: SimDisk,
        node_id: int,
        chance: random.Random,
        now_ms: int,
        *,
        is_first: bool,
        voters: VoterSet | None,
    ) -> None:
        identity = identify_directories(
            disk,
            [FOLDER],
            METADATA_DIRECTORY,
            node_id,
            chance,
            now_ms,
            self._cluster_id,
            founds_cluster=is_first,
            voters=voters,
        )
        self._replicas[node_id] = ReplicaKey(NodeId(node_id), identity.metadata_directory_id)

    def lose_metadata(self, disk: SimDisk, node_id: int, now_ms: int) -> None:
        """Give a voter an empty directory for its metadata, formatted as that of a new one."""
        disk.faults.heal()
        disk.remove_folder(METADATA_DIRECTORY)
        disk.sync_folder("/")
        chance = random.Random(f"{self._seed}/format-{self.replica(node_id).directory.hex()}")
        self._format(disk, node_id, chance, now_ms, is_first=False, voters=None)

    def open_zookeeper(self, name: str) -> OpenZooKeeper | None:
        del name
        return None

    def is_on_disk_of(self, node_id: int) -> bool:
        """Tell that it is not: a majority of the voters has it."""
        del node_id
        return False

    def may_lose_disk(self, node_id: int) -> bool:
        return node_id not in VOTER_IDS

    def controller_id(self, processes: Iterable[SimBroker]) -> int | None:
        return max(_tenures(processes), default=(0, None))[1]

    def controller_epoch(self, processes: Iterable[SimBroker], known: MetadataImage) -> int:
        del known
        return max(_tenures(processes), default=(0, 0))[0]

    def newest_image(self, processes: Iterable[SimBroker], known: MetadataImage) -> MetadataImage:
        """Return the newest image by its version, the offset up to which it was read.

        Only what is committed is read into an image, so that all have one history.
        """
        return _newest_image(processes, known)


def _tenures(processes: Iterable[SimBroker]) -> Iterable[tuple[int, int]]:
    """Name the epochs and the nodes of those that believe to be the controller."""
    for process in processes:
        store = store_of(process)
        if store is not None and (tenure := store.tenure) is not None and not tenure.is_over:
            yield tenure.epoch, store.identity.node_id


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

    def may_lose_disk(self, node_id: int) -> bool:
        del node_id
        return True

    def controller_id(self, processes: Iterable[SimBroker]) -> int | None:
        del processes
        node = self.ensemble.find(paths.CONTROLLER)
        return None if node is None else decode_controller(node.data).broker_id

    def controller_epoch(self, processes: Iterable[SimBroker], known: MetadataImage) -> int:
        del processes
        return controller_epoch_of(known.version)

    def newest_image(self, processes: Iterable[SimBroker], known: MetadataImage) -> MetadataImage:
        """Return the newest image by its version: versions only grow, over all controllers.

        A broker may be elected while it starts. The image that it then has from the tree is of
        version 0, and no state of the history.
        """
        return _newest_image(processes, known)


def _newest_image(processes: Iterable[SimBroker], known: MetadataImage) -> MetadataImage:
    for process in processes:
        if process.alive and process.newest_broker is not None:
            image = process.newest_broker.parts.store.image
            if image.version > known.version:
                known = image
    return known
