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

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

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
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import PartitionsWanted, ToolRequest
from moldau.cluster.zookeeper.nodes.topic_reading import TopicReading, read_topic

T = TypeVar("T")

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
) -> Generator[None, None, TreeReading]:
    """Return the image of all nodes, at this version; pauses where it yields.

    `known_ids` are ids that this broker remembers of topics, for those that have lost theirs.
    Without a readable /cluster/id the image has no cluster id.
    """
    return (yield from _TreeReader(nodes, known_ids or {}).read(version))


class _TreeReader:
    """Reads the tree, kind by kind."""

    def __init__(self, nodes: Mapping[str, StoredNode], known_ids: Mapping[str, TopicId]) -> None:
        self._nodes = nodes
        self._known_ids = known_ids
        self._topics: list[str] = []
        self._states: dict[str, dict[int, StoredNode]] = {}
        self._others: list[str] = []
        self._owners: dict[TopicId, str] = {}
        self._requests: list[ToolRequest] = []
        self._refused: list[MalformedNode] = []

    def read(self, version: int) -> Generator[None, None, TreeReading]:
        yield from self._sort()
        identity = self._attempt(self._cluster_id)
        draft = MetadataImage(cluster_id=identity or "").draft()
        for changes in self._changes():
            for count, change in enumerate(changes, 1):
                draft.take(change)
                if not count % PARTITIONS_PER_STEP:
                    yield
            yield
        yield from draft.settle_topics()
        image = draft.finish(version)
        for path in self._others:
            self._admin(path)
        return TreeReading(image, tuple(self._requests), tuple(self._refused))

    def _sort(self) -> Iterator[None]:
        """Sort the nodes by what they belong to."""
        for count, (path, node) in enumerate(self._nodes.items(), 1):
            key = paths.state_owner(path)
            if key is not None:
                self._states.setdefault(key.topic, {})[key.partition] = node
            elif (name := paths.child(paths.TOPICS, path)) is not None:
                self._topics.append(name)
            elif not path.startswith((f"{paths.TOPICS}/", f"{paths.CONSUMERS}/")):
                self._others.append(path)
            if not count % PARTITIONS_PER_STEP:
                yield
        self._topics.sort()
        self._others.sort()

    def _changes(self) -> Iterator[Iterable[Change]]:
        """Return the changes of one node or topic after the other, in the order of a snapshot."""
        if paths.FEATURE in self._nodes:
            yield self._all(lambda: feature_changes(_EMPTY, self._nodes[paths.FEATURE]))
        for path in self._others:
            if paths.child(paths.BROKER_IDS, path) is not None:
                yield self._broker(path)
        for name in self._topics:
            yield self._topic(name)
        for path in self._others:
            yield self._config(path)
        if paths.PRODUCER_ID_BLOCK in self._nodes:
            block = self._nodes[paths.PRODUCER_ID_BLOCK]
            yield self._all(lambda: producer_id_changes(_EMPTY, block))

    def _broker(self, path: str) -> Iterable[Change]:
        return self._all(lambda: broker_changes(_EMPTY, path, self._nodes[path]))

    def _topic(self, name: str) -> Iterable[Change]:
        reading = self._attempt(lambda: self._read_topic(name))
        if reading is None:
            return ()
        self._refused.extend(reading.refused)
        if paths.delete_topic(name) in self._nodes:
            # Its deletion may have begun. What is left must not be taken for a new topic.
            is_whole = not any(isinstance(one, PartitionsWanted) for one in reading.requests)
            return reading.changes if is_whole else ()
        self._requests.extend(reading.requests)
        return reading.changes

    def _read_topic(self, name: str) -> TopicReading:
        path = paths.topic(name)
        known_id = self._known_ids.get(name)
        states = self._states.get(name, {})
        config = self._nodes.get(config_path(ConfigEntity(TOPICS, name)))
        reading = read_topic(_EMPTY, name, self._nodes[path], states, config, known_id)
        for change in reading.changes:
            if isinstance(change, TopicCreated):
                owner = self._owners.setdefault(change.topic_id, name)
                if owner != name:
                    raise MalformedNode(path, f"topic_id is that of topic {owner}")
        return reading

    def _config(self, path: str) -> Iterable[Change]:
        resource = resource_at(path)
        if resource is None or resource.type == ResourceType.TOPIC:
            return ()
        found = self._attempt(lambda: usable_configs(path, self._nodes[path].data))
        if found is None:
            return ()
        settings, refused = found
        self._refused.extend(refused)
        return config_changes(_EMPTY, resource, settings)

    def _admin(self, path: str) -> None:
        request = self._attempt(lambda: tool_request(path, self._nodes[path]))
        if request is not None:
            self._requests.append(request)

    def _cluster_id(self) -> str:
        node = self._nodes.get(paths.CLUSTER_ID)
        return "" if node is None else decode_cluster_id(node.data)

    def _all(self, changes: Callable[[], Iterator[Change]]) -> list[Change]:
        return self._attempt(lambda: list(changes())) or []

    def _attempt(self, read: Callable[[], T]) -> T | None:
        """Read something; None if its node is malformed, which is reported."""
        try:
            return read()
        except MalformedNode as refused:
            self._refused.append(refused)
            return None
