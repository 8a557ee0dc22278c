"""Several `moldau serve` processes whose metadata is kept by a quorum of several voters.

Brokers 1 to 3 vote, and are brokers too; further ones are brokers alone. With `links`, each node
has a way of its own to each voter, beside the way by which brokers and clients reach each other. So
a test may cut a node off from the voters, or from the brokers, and leave the other way open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kafka_harness.ports import free_port
from kafka_harness.waiting import eventually
from kits.kafka_command_kit import ours
from moldau.base.clock import system_random
from moldau.base.ids import random_uuid, uuid_text
from moldau.protocol.messages.metadata import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from process.clusters import SHORT_SESSION, Cluster
from process.links import Links, broker
from process.raw_client import RawClient

VOTERS = 3
METADATA = "__cluster_metadata"

_DESCRIBE_VERSION = 0


class Leadership(NamedTuple):
    """Who leads the quorum, and is the active controller."""

    leader: int
    epoch: int


def controller(node_id: int) -> str:
    """Return the name by which the way to a voter is cut."""
    return f"controller-{node_id}"


class QuorumCluster(Cluster):
    """Brokers 1 to `size`, of which the first `voters` vote; a context manager."""

    first_voter = Cluster.first_id

    def __init__(
        self,
        directory: Path,
        *,
        size: int = VOTERS,
        voters: int = VOTERS,
        settings: Mapping[str, str] = SHORT_SESSION,
        own_settings: Mapping[int, Mapping[str, str]] | None = None,
        links: Links | None = None,
    ) -> None:
        """`own_settings` are those of single nodes, by their ids."""
        self.voter_ids = range(self.first_voter, self.first_voter + voters)
        self.controller_ports = {node: free_port() for node in self.voter_ids}
        self.cluster_id = uuid_text(random_uuid(system_random()))
        self.expected_errors: list[str] = []
        """Texts of the errors in the logs that tests have caused."""
        self._own_settings = own_settings or {}
        super().__init__(directory, size=size, settings=settings, links=links)

    def _prepare(self, settings: Mapping[str, str], links: Links | None) -> None:
        for node_id in self.ids:
            listeners, roles = f"PLAINTEXT://127.0.0.1:{self.ports[node_id]}", "broker"
            if node_id in self.voter_ids:
                listeners += f",CONTROLLER://127.0.0.1:{self.controller_ports[node_id]}"
                roles = "broker,controller"
            quorum = {
                "node.id": str(node_id),
                "process.roles": roles,
                "listeners": listeners,
                "controller.quorum.voters": self._voters_as_seen_by(node_id, links),
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            }
            own = self._own_settings.get(node_id, {})
            file = self._write_settings(node_id, {**quorum, **settings, **own})
            said = ours("kafka-storage", "format", "-t", self.cluster_id, "-c", file)
            assert said.status == 0, said

    def _voters_as_seen_by(self, node_id: int, links: Links | None) -> str:
        """Name the voters, each where this node reaches it."""
        places = dict(self.controller_ports)
        if links is not None:
            for voter, port in self.controller_ports.items():
                if voter != node_id:
                    places[voter] = links.between(broker(node_id), controller(voter), port)
        return ",".join(f"{voter}@127.0.0.1:{port}" for voter, port in places.items())

    def start_with(self, node_id: int, environ: Mapping[str, str]) -> None:
        """Start a node alone with more in its environment, and wait until it is ready."""
        usual, self._environ = self._environ, {**(self._environ or {}), **environ}
        try:
            self.start(node_id)
        finally:
            self._environ = usual

    # The quorum

    def leadership(self, via: int | None = None) -> Leadership | None:
        """Return who leads, as a node that serves is told; None while nobody does."""
        asked = DescribeQuorumTopic(METADATA, [DescribeQuorumPartition(0)])
        with RawClient(self.address(self.serving[0] if via is None else via)) as client:
            answer = client.call(DescribeQuorumRequest([asked]), _DESCRIBE_VERSION)
        for topic in answer.topics:
            for one in topic.partitions:
                if answer.error_code == one.error_code == 0 and one.leader_id >= 0:
                    return Leadership(one.leader_id, one.leader_epoch)
        return None

    def active(self, via: int | None = None) -> Leadership:
        """Wait until somebody leads; return who."""
        found = eventually(lambda: self.leadership(via), "there is a controller")
        assert found is not None
        return found

    def wait_for_controller(self, after: int, via: int | None = None) -> Leadership:
        """Wait for a controller of a later epoch than this; return who it is."""
        eventually(lambda: self.active(via).epoch > after, f"a controller after epoch {after}")
        return self.active(via)

    def elect(self, node_id: int) -> Leadership:
        """Stop whoever leads, and start it again, until a node leads; return its leadership."""
        while (found := self.active()).leader != node_id:
            self.stop(found.leader)
            self.wait_for_controller(after=found.epoch)
            self.start(found.leader)
        return found

    def others(self, node_id: int) -> list[int]:
        """Return all nodes but one."""
        return [one for one in self.ids if one != node_id]

    def metadata_folder(self, node_id: int) -> Path:
        """Return where a node has its log of the metadata."""
        return self.data(node_id) / f"{METADATA}-0"

    # Checks at the end

    def error_lines(self, broker_id: int) -> list[str]:
        lines = super().error_lines(broker_id)
        return [line for line in lines if not any(one in line for one in self.expected_errors)]


class ControllersApart(QuorumCluster):
    """Brokers 1 to `size`, and the voters 11 to 13, which are no brokers."""

    first_voter = 11

    def _prepare(self, settings: Mapping[str, str], links: Links | None) -> None:
        super()._prepare(settings, links)
        for node_id in self.voter_ids:
            self._lives[node_id] = []
            self.data(node_id).mkdir(parents=True)
            properties = {
                "node.id": str(node_id),
                "process.roles": "controller",
                "listeners": f"CONTROLLER://127.0.0.1:{self.controller_ports[node_id]}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": self._voters_as_seen_by(node_id, links),
                "log.dirs": str(self.data(node_id)),
                **settings,
            }
            file = self.folder(node_id) / "server.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
            said = ours("kafka-storage", "format", "-t", self.cluster_id, "-c", file)
            assert said.status == 0, said

    @property
    def node_ids(self) -> Sequence[int]:
        return [*self.voter_ids, *self.ids]

    @property
    def serving(self) -> list[int]:
        return [node_id for node_id in super().serving if node_id in self.ids]


def cut_from_voters(links: Links, cluster: QuorumCluster, node_id: int) -> None:
    """Let nothing pass between a node and the voters, in either direction; brokers are reached."""
    for other in cluster.others(node_id):
        if other in cluster.voter_ids:
            links.cut(broker(node_id), controller(other))
        if node_id in cluster.voter_ids:
            links.cut(broker(other), controller(node_id))
