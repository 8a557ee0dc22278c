"""An image and the tree of its nodes stay the same, whatever is committed.

A random history of commits is written to a tree. After each commit, three must agree: the image of
the controller that has committed, the image that is read from the tree, and that of a broker that
reads nodes as they change. A commit that is cut off anywhere leaves a tree that can be read.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.metadata_samples import topic_id
from kits.zookeeper_tree import DictTree, register, tree_of
from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    BrokerRegistered,
    ConfigChanged,
    EligibleLeadersCleared,
    FeatureLevelSet,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker, ConfigResource, Endpoint, Partition, ResourceType
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.commit_writes import commit_writes, leftover_removal
from moldau.cluster.zookeeper.nodes.tool_requests import DeletionWanted, TopicNodeIncomplete
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment, TopicNode, encode_topic
from moldau.cluster.zookeeper.nodes.topic_reading import read_topic, restored_topic

NAMES = ("a", "b", "c")
IDS = st.integers(1, 6)
REPLICAS = st.lists(IDS, unique=True, min_size=1, max_size=4).map(tuple)
FEW = st.lists(IDS, unique=True, max_size=3).map(tuple)


def some_of(replicas):
    return st.lists(st.sampled_from(replicas), unique=True).map(tuple)


@st.composite
def states(draw, replicas):
    """Leader, ISR and the rest of a partition with these replicas, as PartitionChanged has them."""
    return {
        "isr": draw(some_of(replicas)),
        "leader": draw(st.none() | st.sampled_from((-1, *replicas))),
        "adding_replicas": draw(some_of(replicas)),
        "removing_replicas": draw(some_of(replicas)),
        "eligible_leaders": draw(FEW),
        "last_known_leaders": draw(FEW),
        "recovering": draw(st.booleans()),
    }


@st.composite
def new_partitions(draw, topic, first):
    made = []
    for index in range(first, first + draw(st.integers(1, 3))):
        replicas = draw(REPLICAS)
        parts = draw(states(replicas))
        leader = parts.pop("leader")
        leader = replicas[0] if leader is None else leader
        partition = Partition(index, replicas, leader=leader, **parts)
        made.append(PartitionCreated(topic, partition))
    return made


def draw_topic(draw, image, number):
    """Changes of topics: create, grow, change, delete."""
    if not image.topics or draw(st.integers(0, 3)) == 0:
        free = [name for name in NAMES if name not in image.topics]
        if free:
            name, made = draw(st.sampled_from(free)), topic_id(number)
            return [TopicCreated(name, made), *draw(new_partitions(made, 0))]
    topic = image.topics[draw(st.sampled_from(sorted(image.topics)))]
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return [TopicRemoved(topic.id)]
    if kind == 1:
        return draw(new_partitions(topic.id, len(topic.partitions)))
    if kind == 2:
        return [EligibleLeadersCleared(draw(st.sampled_from(("", topic.name))))]
    partition = draw(st.sampled_from(topic.partitions))
    if kind < 6:
        replicas = draw(REPLICAS)
        moved = draw(states(replicas))
        if moved["leader"] is None and partition.leader not in (-1, *replicas):
            moved["leader"] = BrokerId(-1)
        return [PartitionChanged(topic.id, partition.index, replicas=replicas, **moved)]
    return [PartitionChanged(topic.id, partition.index, **draw(states(partition.replicas)))]


def draw_other(draw, image):
    """Changes of configs, features and producer ids."""
    kind = draw(st.integers(0, 2))
    if kind == 0:
        resource = draw(
            st.sampled_from(
                [
                    *(ConfigResource(ResourceType.TOPIC, name) for name in sorted(image.topics)),
                    ConfigResource(ResourceType.BROKER, ""),
                    ConfigResource(ResourceType.BROKER, "1"),
                    ConfigResource(ResourceType.GROUP, "a/b c"),
                    ConfigResource(ResourceType.CLIENT_METRICS, "ü"),
                ]
            )
        )
        key, value = draw(st.sampled_from("xyz")), draw(st.none() | st.text("ab\n", max_size=3))
        return [ConfigChanged(resource, key, value)]
    if kind == 1:
        return [FeatureLevelSet(draw(st.sampled_from("fg")), draw(st.integers(0, 3)))]
    following = image.next_producer_id + draw(st.integers(1, 5000))
    return [ProducerIdsAllocated(draw(IDS), -1, following)]


def draw_commit(draw, image, number):
    """A few decisions that are committed together."""
    changes, after = [], image
    for step in range(draw(st.integers(1, 3))):
        if draw(st.booleans()) or not step:
            more = draw_topic(draw, after, number * 10 + step + 1)
        else:
            more = draw_other(draw, after)
        after = after.apply(more, image.version + 1)
        changes += more
    return changes, after


def first_image(tree):
    broker = Broker(
        BrokerId(1), 9, (9).to_bytes(16), (Endpoint("SSL", "h", 1, 1),), None, fenced=False
    )
    register(tree, broker)
    return MetadataImage().apply([BrokerRegistered(broker)], 1)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_image_tree_and_followers_agree(data):
    tree = DictTree()
    image = first_image(tree)
    eager = late = image
    for number in range(data.draw(st.integers(1, 6))):
        changes, after = draw_commit(data.draw, image, number)
        writes = commit_writes(image, changes, after, 7, tree.versions(image))
        changed = []
        for write in writes:
            path = tree.write(write)
            changed.append(path)
            eager = tree.follow(eager, path, after.version)
        for path in changed:
            late = tree.follow(late, path, after.version)
        reading = tree.read(after.version)
        assert reading.refused == reading.requests == ()
        assert reading.image == after
        assert eager == after
        assert late == after
        for path, node in tree_of(after, 7).nodes.items():
            if path.endswith("/state"):
                assert node.version == tree.nodes[path].version
        image = after


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_tree_is_its_image(data):
    image = first_image(DictTree())
    for number in range(data.draw(st.integers(1, 6))):
        _, image = draw_commit(data.draw, image, number)
    reading = tree_of(image).read(image.version)
    assert reading.image == image
    assert reading.refused == reading.requests == ()


def history(data, commits):
    """A tree after some commits, and its image."""
    tree = DictTree()
    image = first_image(tree)
    for number in range(data.draw(commits)):
        changes, after = draw_commit(data.draw, image, number)
        tree.apply(commit_writes(image, changes, after, 7, tree.versions(image)))
        image = after
    return tree, image


def finish_as_a_controller(tree, version):
    """Do what the tree asks for."""
    for request in tree.read(version).requests:
        image = tree.read(version).image
        topic = image.topic(request.topic)
        if isinstance(request, DeletionWanted) and topic is None:
            tree.apply(leftover_removal(request.topic, tree.versions(image)))
            continue
        wanted = []
        if isinstance(request, DeletionWanted):
            changes = [TopicRemoved(topic.id)]
        else:
            wanted.append(request)
            changes = list(wanted_changes(request, is_new=topic is None))
        after = image.apply(changes, version)
        tree.apply(commit_writes(image, changes, after, 8, tree.versions(image), wanted))


def wanted_changes(request, *, is_new):
    if is_new:
        yield TopicCreated(request.topic, request.topic_id)
        resource = ConfigResource(ResourceType.TOPIC, request.topic)
        for key, value in request.configs.items():
            yield ConfigChanged(resource, key, value)
    for index, (replicas, adding, removing) in enumerate(request.assignments, request.first):
        partition = Partition(
            index,
            replicas,
            replicas,
            replicas[0],
            adding_replicas=adding,
            removing_replicas=removing,
        )
        yield PartitionCreated(request.topic_id, partition)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_commit_may_be_cut_anywhere(data):
    tree, image = history(data, st.integers(0, 4))
    changes, after = draw_commit(data.draw, image, 9)
    writes = list(commit_writes(image, changes, after, 7, tree.versions(image)))
    tree.apply(writes[: data.draw(st.integers(0, len(writes)))])
    assert tree.read(after.version).refused == ()
    # The next controller finishes what has begun, and can then write whatever it decides.
    finish_as_a_controller(tree, after.version)
    reading = tree.read(after.version)
    assert reading.refused == reading.requests == ()
    for name, topic in reading.image.topics.items():
        assert topic.id in {one.topics[name].id for one in (image, after) if name in one.topics}
    changes, last = draw_commit(data.draw, reading.image, 10)
    tree.apply(commit_writes(reading.image, changes, last, 8, tree.versions(reading.image)))
    assert tree.read(last.version).image == last


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_an_old_tool_never_changes_an_id(data):
    """It writes the replicas again, and knows of nothing else (KAFKA-14190)."""
    tree, image = history(data, st.integers(1, 4))
    for name, topic in image.topics.items():
        path = paths.topic(name)
        replicas = tuple(Assignment(partition.replicas) for partition in topic.partitions)
        tree.put(path, encode_topic(TopicNode(replicas, None, 1)))
        assert tree.follow(image, path, image.version) == image
        reading = read_topic(image, name, tree.nodes[path], {})
        assert reading.requests == [TopicNodeIncomplete(name, topic.id)]
        tree.write(restored_topic(image, name, tree.nodes[path], topic.id))
    assert tree.read(image.version).image == image
