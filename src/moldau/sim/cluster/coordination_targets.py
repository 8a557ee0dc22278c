"""What the clients of coordinators share in a cluster.

The histories are those of one broker (`sim.transaction_history`, `sim.group_history`). Here a
coordinator is the leader of one partition of an internal topic, in one leader epoch: its term.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.base.ids import PartitionKey
from moldau.cluster.image import MetadataImage
from moldau.coordination.hashing import partition_of
from moldau.server.lifecycle.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from moldau.sim.cluster.atlas import Atlas
from moldau.sim.cluster.claims import PartitionClaims
from moldau.sim.cluster.client import ClusterTargets
from moldau.sim.workload.coordinated import CoordinatorKind
from moldau.sim.workload.targets import Targets, TopicTarget

KEPT_NAME = "kept"
KEPT_PARTITIONS = 3
TOPICS = {
    CoordinatorKind.GROUP: OFFSETS_TOPIC,
    CoordinatorKind.TRANSACTION: TRANSACTIONS_TOPIC,
}


class CoordinatorTerm(NamedTuple):
    """Who coordinates, and since which election."""

    leader: int
    leader_epoch: int


NO_TERM = CoordinatorTerm(-1, -1)


class CoordinationTargets(Targets):
    """The topic that transactions and groups use, and the histories of both."""

    def __init__(self, cluster: ClusterTargets, atlas: Atlas, *, clocks_jump: bool) -> None:
        super().__init__(cluster.world, cluster.network)
        self.cluster = cluster
        self.seen = cluster.seen
        self.clocks_jump = clocks_jump
        """Transactions may time out at any moment: coordinators use the wall clock."""
        self.places: list[PartitionClaims] = []
        """The partitions of the topic, to look up their leaders."""
        self._atlas = atlas

    def begin_kept(self, topic: TopicTarget) -> None:
        """Learn of the topic for transactions and groups, which was created."""
        self.topics.append(topic)
        self.places = [
            PartitionClaims(PartitionKey(topic.name, index), topic.id, self._atlas)
            for index in range(topic.partition_count)
        ]

    @property
    def is_void(self) -> bool:
        """Whether records of coordinators or of the topic may be lost: nothing is promised then."""
        names = {KEPT_NAME, *TOPICS.values()}
        return any(key.topic in names for key in self._atlas.exceeded)

    def term(self, kind: CoordinatorKind, key: str) -> CoordinatorTerm:
        """Return who coordinates a group or a transactional id, as was decided."""
        return term_in(self.cluster.nodes.image, kind, key)


def term_in(image: MetadataImage, kind: CoordinatorKind, key: str) -> CoordinatorTerm:
    """Return who coordinates a group or a transactional id, as this image has it."""
    topic = image.topic(TOPICS[kind])
    if topic is None:
        return NO_TERM
    partition = topic.partitions[partition_of(key, len(topic.partitions))]
    return CoordinatorTerm(partition.leader, partition.leader_epoch)
