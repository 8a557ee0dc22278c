"""From ZooKeeper to the quorum: what of a tree is taken over, and what is compared. Pure.

While a cluster moves, none of its brokers runs. So all of them have left: each partition gets the
state that a controller gives it when the last broker goes, without a leader, and with all complete
replicas on record. What nobody can read, or nobody has finished yet, stops the move; so does what
has no place in our metadata. Nothing is left behind in silence.

**Epochs of brokers.** On ZooKeeper the epoch of a broker is the number of a transaction, in the log
it is the offset of a record, and that has to be larger than all epochs of the same id before it. So
the new log does not begin at 0, but behind the newest transaction of the tree. A broker that has
stopped in order keeps its last epoch on its disk, and names it when it registers (KIP-966). The
tree has that epoch too (`registration`): with it each broker is taken over, as a fenced one. So the
controller finds the epoch that it expects, and the broker stays eligible to lead. One whose epoch
the tree does not have (only Kafka ran it) registers as if it might lack records. Then the last one
on record leads, and the others fetch from it.

**Log directories.** The tree does not tell in which directory a replica lies. A broker with one
directory leaves no choice; the others tell the controller after their start (KIP-858).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from moldau.base.ids import BrokerId
from moldau.cluster.broker_arrivals import brokers_changed
from moldau.cluster.changes import BrokerRegistered, Change, PartitionCreated
from moldau.cluster.cluster_minimum import ClusterMinimum
from moldau.cluster.configs import EVERY_BROKER, MIN_INSYNC_REPLICAS
from moldau.cluster.formatting import FIRST_FEATURES
from moldau.cluster.image import MetadataImage
from moldau.cluster.image_difference import image_difference
from moldau.cluster.model import MIGRATING_DIRECTORY, Broker, Partition, Topic
from moldau.cluster.record_codec import METADATA_VERSION
from moldau.cluster.snapshots import SnapshotId
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.config_resources import resource_at
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode, decode_object
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import (
    DeletionWanted,
    PartitionsWanted,
    PreferredElectionWanted,
    ToolRequest,
    TopicNodeIncomplete,
)
from moldau.cluster.zookeeper.nodes.tree_image import TreeReading

_TYPE_PARENT_DEPTH: Final = 2
"""Slashes in `/config/topics`, the parent of all configs of a type."""


@dataclass(frozen=True, slots=True)
class TreeNodes:
    """What was read of a tree while nobody else wrote it."""

    metadata: Mapping[str, StoredNode]
    """The nodes that make the image, and requests of tools."""
    untranslated: Mapping[str, StoredNode]
    """Nodes of kinds that the image has no place for."""
    broker_epochs: Mapping[BrokerId, int]
    """The last epoch of each broker id, as far as our brokers have left it."""
    controller_epoch: int
    newest_transaction: int
    """No broker has a larger epoch."""

    @property
    def snapshot(self) -> SnapshotId:
        """The snapshot that the new log begins behind; its first leader has a larger epoch."""
        newest = max(self.newest_transaction, 0, *self.broker_epochs.values())
        return SnapshotId(newest + 1, self.controller_epoch)


# What stops the move


def obstacles(nodes: TreeNodes, reading: TreeReading) -> Iterator[str]:
    """Say in a line each what cannot be taken over."""
    if not reading.image.cluster_id and paths.CLUSTER_ID not in nodes.metadata:
        yield f"{paths.CLUSTER_ID}: it is missing, so this is no tree of a cluster"
    for malformed in reading.refused:
        yield str(malformed)
    for request in reading.requests:
        yield f"{_asked_at(request)}: what it asks for is not done; start the brokers again for it"
    unknown = {
        path: node
        for path, node in nodes.metadata.items()
        if path.startswith(f"{paths.CONFIG}/")
        and path.count("/") > _TYPE_PARENT_DEPTH
        and not path.startswith(f"{paths.CONFIG_CHANGES}/")
        and resource_at(path) is None
    }
    for path, node in {**unknown, **nodes.untranslated}.items():
        if not _is_empty(path, node.data):
            yield f"{path}: the quorum has no place for it; remove it if nobody needs it"


def _asked_at(request: ToolRequest) -> str:
    """Return the node that asks."""
    match request:
        case DeletionWanted(topic):
            return paths.delete_topic(topic)
        case PartitionsWanted(topic=topic) | TopicNodeIncomplete(topic=topic):
            return paths.topic(topic)
        case PreferredElectionWanted():
            return paths.PREFERRED_REPLICA_ELECTION
        case _:
            return paths.REASSIGN_PARTITIONS


def _is_empty(path: str, data: bytes) -> bool:
    """Tell whether a node says nothing: Kafka leaves `{"version":1,"config":{}}` behind."""
    if not data:
        return True
    try:
        fields = decode_object(path, data)
        names = [name for name in fields if name != "version"]
        return not names or (names == ["config"] and not len(fields.object("config")))
    except MalformedNode:
        return False


# What is taken over


def taken_over(
    tree: MetadataImage, brokers: Sequence[Broker], end_offset: int, min_insync_replicas: int
) -> MetadataImage:
    """Return the metadata that the quorum begins with, at this version.

    `brokers` are those whose last epoch is known, fenced. `min_insync_replicas` is that of the
    settings, for a tree that has no features yet.
    """
    image = tree.apply(_first_changes(tree), tree.version)
    minimum = ClusterMinimum(min_insync_replicas).stated(image)
    image = image.apply(minimum, image.version)
    departures = [one for one in brokers_changed(image, {}) if one is not None]
    image = image.apply(departures, image.version)
    registered = [BrokerRegistered(broker) for broker in brokers]
    return image.apply([*registered, *_located(image, brokers)], end_offset)


def _first_changes(tree: MetadataImage) -> list[Change]:
    """Return the features that a tree of Kafka's lacks: there they are in settings."""
    if METADATA_VERSION in tree.features:
        return []
    return [one for one in FIRST_FEATURES if one.name not in tree.features]


def _located(image: MetadataImage, brokers: Sequence[Broker]) -> Iterator[Change]:
    """State in which log directories the replicas lie, as far as there is no choice."""
    only = {one.id: one.log_directories[0] for one in brokers if len(one.log_directories) == 1}
    for topic in image.topics.values():
        for partition in topic.partitions:
            directories = tuple(only.get(one, MIGRATING_DIRECTORY) for one in partition.replicas)
            yield PartitionCreated(topic.id, replace(partition, directories=directories))


def brokers_with_replicas(tree: MetadataImage) -> frozenset[BrokerId]:
    """Return the brokers that a partition names."""
    return frozenset(
        broker
        for topic in tree.topics.values()
        for partition in topic.partitions
        for broker in partition.replicas
    )


# What is compared


def differences(tree: MetadataImage, taken: MetadataImage, found: MetadataImage) -> Iterator[str]:
    """Say in a line each where metadata that was read back differs.

    It has to be exactly what was to be written. And it is compared with the tree once more, by
    rules that know nothing of how it was made.
    """
    if (found.cluster_id, found.version) != (taken.cluster_id, taken.version):
        yield f"cluster {found.cluster_id} at {found.version}, not as written"
    for change in image_difference(found, taken):
        yield f"not as written: {change}"
    for name in sorted(found.topics.keys() - tree.topics.keys()):
        yield f"topic {name}: it is not in the tree"
    for topic in tree.topics.values():
        yield from _topic_differences(topic, found.topics.get(topic.name))
    yield from _other_differences(tree, found)


def _topic_differences(topic: Topic, found: Topic | None) -> Iterator[str]:
    if found is None or found.id != topic.id or len(found.partitions) != len(topic.partitions):
        yield f"topic {topic.name}: its id or its partitions are not those of the tree"
        return
    for old, new in zip(topic.partitions, found.partitions, strict=True):
        yield from (
            f"partition {topic.name}-{old.index}: {problem}"
            for problem in _partition_problems(old, new)
        )


def _partition_problems(old: Partition, new: Partition) -> Iterator[str]:
    if (old.replicas, old.adding_replicas, old.removing_replicas, old.recovering) != (
        new.replicas, new.adding_replicas, new.removing_replicas, new.recovering,
    ):  # fmt: skip
        yield "its replicas are not those of the tree"
    if new.leader_epoch < old.leader_epoch or new.partition_epoch < old.partition_epoch:
        yield "its epochs go back"
    # A replica that was not complete must not lead; a complete one must not be forgotten.
    complete = {*old.isr, *old.eligible_leaders}
    may_lead = {*new.isr, *new.eligible_leaders}
    if not may_lead <= complete or bool(may_lead) != bool(complete):
        yield "others may lead than in the tree"


def _other_differences(tree: MetadataImage, found: MetadataImage) -> Iterator[str]:
    for resource in tree.configs.keys() | found.configs.keys():
        settings = dict(found.config(resource))
        if resource == EVERY_BROKER and MIN_INSYNC_REPLICAS not in tree.config(resource):
            settings.pop(MIN_INSYNC_REPLICAS, None)  # stated for the choice of eligible leaders
        if settings != dict(tree.config(resource)):
            yield f"configs of {resource.name or 'all brokers'}: they are not those of the tree"
    if found.next_producer_id != tree.next_producer_id:
        yield f"producer ids go on from {found.next_producer_id}, not {tree.next_producer_id}"
    if not tree.features.items() <= found.features.items():
        yield "features: they are not those of the tree"


def first_of(problems: Iterable[str]) -> str | None:
    """Return the first problem, and how many more there are; None if there is none."""
    lines = list(problems)
    if not lines:
        return None
    return lines[0] if len(lines) == 1 else f"{lines[0]} (and {len(lines) - 1} more)"
