"""Random commits of a controller: topics, partitions, configs, features and producer ids."""

from __future__ import annotations

from hypothesis import strategies as st

from kits.metadata_samples import topic_id
from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    ConfigChanged,
    EligibleLeadersCleared,
    FeatureLevelSet,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.model import ConfigResource, Partition, ResourceType

NAMES = ("a", "b", "c")
IDS = st.integers(1, 6)
REPLICAS = st.lists(IDS, unique=True, min_size=1, max_size=4).map(tuple)
FEW = st.lists(IDS, unique=True, max_size=3).map(tuple)


def some_of(replicas):
    return st.lists(st.sampled_from(replicas), unique=True).map(tuple)


@st.composite
def states(draw, replicas):
    """Leader, ISR and the rest of a partition with these replicas, as PartitionChanged has them."""
    isr = draw(some_of(replicas))
    return {
        "isr": isr,
        "leader": draw(st.none() | st.sampled_from((-1, *isr))),
        "adding_replicas": draw(some_of(replicas)),
        "removing_replicas": draw(some_of(replicas)),
        "eligible_leaders": draw(some_of(replicas)),
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
        leader = (*parts["isr"], -1)[0] if leader is None else leader
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
    replicas = draw(REPLICAS) if kind < 6 else partition.replicas
    moved = draw(states(replicas))
    if moved["leader"] is None and partition.leader not in moved["isr"]:
        moved["leader"] = BrokerId(-1)
    if replicas != partition.replicas:
        moved["replicas"] = replicas
    return [PartitionChanged(topic.id, partition.index, **moved)]


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
