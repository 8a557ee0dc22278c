"""An image and the tree of its nodes stay the same, whatever is committed.

A random history of commits is written to a tree. After each commit, three must agree: the image of
the controller that has committed, the image that is read from the tree, and that of a broker that
reads nodes as they change. A commit that is cut off anywhere leaves a tree that can be read.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.metadata_commits import draw_commit
from kits.zookeeper_nodes import encode_topic, read_topic, restored_topic
from kits.zookeeper_tree import DictTree, register, tree_of
from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    BrokerRegistered,
    ConfigChanged,
    PartitionCreated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker, ConfigResource, Endpoint, Partition, ResourceType
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.commit_writes import commit_writes, leftover_removal
from moldau.cluster.zookeeper.nodes.tool_requests import DeletionWanted, TopicNodeIncomplete
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment, TopicNode


def first_image(tree):
    broker = Broker(
        BrokerId(1), 9, (9).to_bytes(16), (Endpoint("SSL", "h", 1, 1),), None, fenced=False
    )
    register(tree, broker)
    return MetadataImage().apply([BrokerRegistered(broker)], 1)


@settings(max_examples=80, deadline=None)
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
        if not changed:  # there was nothing to clear, and nobody is told of it
            eager, late = eager.apply((), after.version), late.apply((), after.version)
        reading = tree.read(after.version)
        assert reading.refused == reading.requests == ()
        assert reading.image == after
        assert eager == after
        assert late == after
        for path, node in tree_of(after, 7).nodes.items():
            if path.endswith("/state"):
                assert node.version == tree.nodes[path].version
        image = after


@settings(max_examples=80, deadline=None)
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
            tree.apply(leftover_removal(request.topic, tree.nodes))
            continue
        wanted = {}
        if isinstance(request, DeletionWanted):
            changes = [TopicRemoved(topic.id)]
        else:
            wanted[request.topic] = request
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


@settings(max_examples=100, deadline=None)
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


@settings(max_examples=50, deadline=None)
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
