"""Makes an image of all nodes of the tree, as they are read at start.

A node that is malformed is left out with what depends on it, and reported. All others count.

The tree and the image do not hold the same things. What differs, and what we decided:

* **Epoch of a broker.** The image has the offset of a record, the tree the transaction that created
  the broker's node. Both only grow. A broker's incarnation id is not in the tree, and is made of
  the epoch: each registration has a new one.
* **Fenced brokers, controlled shutdown.** In the tree a broker is there while its session lives. So
  a broker with a node is not fenced, and one without is not in the image. A controlled shutdown is
  in the memory of the controller only, as in Kafka, and a new controller does not know of it.
* **Brokers that may lack records.** A broker whose disk may have lost some says so in its node. The
  image has no place for it: it counts once, when the broker comes (`node_changes.registration_at`).
* **Log directories** of brokers and of replicas (KIP-858) are not in the tree: the bytes of states
  are Kafka's, and a broker tells of a failed directory by a notification. So an image of the tree
  has none, and a store has to remove them from changes before it commits them
  (`commit_writes.without_directories`).
* **Epoch of a partition.** It is the version of its state node. A change that only moves replicas
  sets the state, too, because in the image each change of a partition raises its epoch.
* **Controller epoch.** Each state names the controller that wrote it. The image does not have it.
* **Eligible leaders** (KIP-966) are extra fields of the state, which Kafka's tools ignore.
* **Features** are in /feature, all of them. Kafka keeps `metadata.version` in settings files when
  it runs with ZooKeeper. Mixed clusters are no goal, so ours is in the node, too.
* **Configs** of client metrics and groups are in nodes of our own (`config_nodes`), those of broker
  loggers nowhere, as in the image.
* **Quotas, SCRAM credentials, ACLs, delegation tokens** are in the image as KRaft's records that
  we keep unread. In the tree they have nodes of another form, which are not translated: an image
  of the tree has none, and a commit of one fails. Their nodes stay as they are.
* **Topic ids.** A topic written by Kafka before 2.8 has none, and is in the image once the
  controller gave it one (`topic_reading`).
* **Requests of tools, notifications, old consumers** have no place in the image
  (`tool_requests`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from moldau.base.ids import TopicId
from moldau.cluster.changes import Change, TopicCreated
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import ResourceType
from moldau.cluster.steps import PARTITIONS_PER_STEP
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.cluster_nodes import decode_cluster_id
from moldau.cluster.zookeeper.nodes.config_nodes import TOPICS, ConfigEntity, config_path
from moldau.cluster.zookeeper.nodes.config_resources import resource_at, usable_configs
from moldau.cluster.zookeeper.nodes.node_changes import (
    broker_changes,
    config_changes,
    feature_changes,
    producer_id_changes,
    tool_request,
)
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.steps import Pace, Steps, amount_of
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import PartitionsWanted, ToolRequest
from moldau.cluster.zookeeper.nodes.topic_nodes import decode_id_copy
from moldau.cluster.zookeeper.nodes.topic_reading import read_topic

_EMPTY: Final = MetadataImage()


@dataclass(frozen=True, slots=True)
class TreeReading:
    """What the nodes of the tree say together."""

    image: MetadataImage
    requests: tuple[ToolRequest, ...]
    refused: tuple[MalformedNode, ...]


def read_tree(
    nodes: Mapping[str, StoredNode],
    version: int,
    known_ids: Mapping[str, TopicId] | None = None,
) -> Steps[TreeReading]:
    """Return the image of all nodes, at this version; pauses where it yields.

    `known_ids` are ids that this broker remembers of topics. They are for topics that have lost
    theirs, and have no copy of it either.
    Without a readable /cluster/id the image has no cluster id.
    """
    return (yield from _TreeReader(nodes, known_ids or {}).read(version))


class _TreeReader:
    """Reads the tree, kind by kind."""

    def __init__(self, nodes: Mapping[str, StoredNode], known_ids: Mapping[str, TopicId]) -> None:
        self._nodes = nodes
        self._known_ids = known_ids
        self._brokers: list[str] = []
        self._topics: list[str] = []
        self._states: dict[str, dict[int, StoredNode]] = {}
        self._configs: list[str] = []
        self._others: list[str] = []
        self._owners: dict[TopicId, str] = {}
        self._requests: list[ToolRequest] = []
        self._refused: list[MalformedNode] = []
        self._draft = MetadataImage(cluster_id=self._cluster_id()).draft()
        self._pace = Pace()

    def read(self, version: int) -> Steps[TreeReading]:
        """Read one node or topic after the other, in the order of a snapshot."""
        yield from self._sort()
        nodes = self._nodes
        if (features := nodes.get(paths.FEATURE)) is not None:
            yield from self._take(features, _listed(feature_changes(_EMPTY, features)))
        for path in self._brokers:
            broker = _listed(broker_changes(_EMPTY, path, nodes[path]))
            yield from self._take(nodes[path], broker)
        for name in self._topics:
            yield from self._take(nodes[paths.topic(name)], self._topic(name))
        for path in self._configs:
            yield from self._take(nodes[path], self._config(path))
        if (block := nodes.get(paths.PRODUCER_ID_BLOCK)) is not None:
            yield from self._take(block, _listed(producer_id_changes(_EMPTY, block)))
        for path in self._others:
            yield from self._take(nodes[path], self._request(path))
        yield from self._draft.settle_topics()
        image = self._draft.finish(version)
        return TreeReading(image, tuple(self._requests), tuple(self._refused))

    def _cluster_id(self) -> str:
        node = self._nodes.get(paths.CLUSTER_ID)
        try:
            return "" if node is None else decode_cluster_id(node.data)
        except MalformedNode as malformed:
            self._refused.append(malformed)
            return ""

    def _sort(self) -> Steps[None]:
        """Sort the nodes by what they belong to."""
        for count, (path, node) in enumerate(self._nodes.items(), 1):
            key = paths.state_owner(path)
            if key is not None:
                self._states.setdefault(key.topic, {})[key.partition] = node
            elif (name := paths.child(paths.TOPICS, path)) is not None:
                self._topics.append(name)
            elif paths.child(paths.BROKER_IDS, path) is not None:
                self._brokers.append(path)
            elif path.startswith(f"{paths.CONFIG}/"):
                self._configs.append(path)
            elif not path.startswith((f"{paths.TOPICS}/", f"{paths.CONSUMERS}/")):
                self._others.append(path)
            if not count % PARTITIONS_PER_STEP:
                yield
        for found in (self._brokers, self._topics, self._configs, self._others):
            found.sort()

    def _take(self, node: StoredNode, reading: Steps[Iterable[Change]]) -> Steps[None]:
        """Take the changes of a node; one that is malformed is reported, and changes nothing."""
        try:
            changes = yield from reading
        except MalformedNode as malformed:
            self._refused.append(malformed)
            changes = ()
        for change in changes:
            self._draft.take(change)
            if self._pace.is_due(2):
                yield
        if self._pace.is_due(amount_of(node.data)):
            yield

    def _topic(self, name: str) -> Steps[Iterable[Change]]:
        path, parent = paths.topic(name), paths.partitions(name)
        copied = self._nodes.get(parent)
        copied_id = None if copied is None else decode_id_copy(parent, copied.data)
        known_id = copied_id or self._known_ids.get(name)
        states = self._states.get(name, {})
        config = self._nodes.get(config_path(ConfigEntity(TOPICS, name)))
        reading = yield from read_topic(_EMPTY, name, self._nodes[path], states, config, known_id)
        for change in reading.changes[:1]:
            if isinstance(change, TopicCreated):
                owner = self._owners.setdefault(change.topic_id, name)
                if owner != name:
                    raise MalformedNode(path, f"topic_id is that of topic {owner}")
        self._refused.extend(reading.refused)
        if paths.delete_topic(name) in self._nodes:
            # Its deletion may have begun. What is left must not be taken for a new topic.
            is_whole = not any(isinstance(one, PartitionsWanted) for one in reading.requests)
            return reading.changes if is_whole else ()
        self._requests.extend(reading.requests)
        return reading.changes

    def _config(self, path: str) -> Steps[Iterable[Change]]:
        resource = resource_at(path)
        if resource is None or resource.type == ResourceType.TOPIC:
            return ()
        settings, refused = yield from usable_configs(path, self._nodes[path].data)
        self._refused.extend(refused)
        return config_changes(_EMPTY, resource, settings)

    def _request(self, path: str) -> Steps[Iterable[Change]]:
        """Take what a tool asks for; it changes nothing by itself."""
        request = yield from tool_request(path, self._nodes[path])
        if request is not None:
            self._requests.append(request)
        return ()


def _listed(changes: Iterator[Change]) -> Steps[Iterable[Change]]:
    """Return changes of a small node."""
    yield from ()
    return list(changes)
