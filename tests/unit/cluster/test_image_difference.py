"""The difference between two images, told as changes, leads from one to the other."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kits.metadata_samples import (
    controller,
    every_change,
    lone_partition,
    registration,
    topic_id,
)
from moldau.base.ids import BrokerId
from moldau.cluster.brokers import register_broker
from moldau.cluster.changes import (
    BrokerUnregistered,
    ConfigChanged,
    ControllerRegistered,
    ControllerUnregistered,
    FeatureLevelSet,
    OpaqueRecorded,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.image_difference import difference_in_pieces, image_difference
from moldau.cluster.model import ConfigResource, ResourceType


def after(image, *changes):
    return image.apply(changes, image.version + len(changes))


def checked(old, new):
    """Return the difference, which must lead from the one to the other."""
    changes = list(image_difference(old, new))
    assert old.apply(changes, new.version) == new
    assert changes == [change for piece in difference_in_pieces(old, new) for change in piece]
    return changes


def test_equal_images_have_no_difference():
    image = MetadataImage().apply(every_change(), 40)
    assert checked(image, image) == []
    assert checked(image, MetadataImage(image.version).apply(image.as_changes(), 40)) == []


def test_from_nothing_the_difference_is_the_image():
    image = MetadataImage().apply(every_change(), 40)
    assert checked(MetadataImage(), image) == list(image.as_changes())


def test_to_nothing_everything_goes():
    image = after(
        MetadataImage(),
        TopicCreated("a", topic_id(1)),
        PartitionCreated(topic_id(1), lone_partition(0, 1)),
        ConfigChanged(ConfigResource(ResourceType.TOPIC, "a"), "k", "v"),
        ConfigChanged(ConfigResource(ResourceType.BROKER, "1"), "k", "v"),
        FeatureLevelSet("f", 2),
        *register_broker(MetadataImage(), registration(3)),
    )
    changes = checked(image, MetadataImage(version=99))
    assert TopicRemoved(topic_id(1)) in changes
    assert ConfigChanged(ConfigResource(ResourceType.TOPIC, "a"), "k", None) not in changes
    assert ConfigChanged(ConfigResource(ResourceType.BROKER, "1"), "k", None) in changes


def test_a_topic_made_again_under_its_name_is_removed_and_created():
    config = ConfigChanged(ConfigResource(ResourceType.TOPIC, "a.b"), "k", "v")
    old = after(
        MetadataImage(),
        TopicCreated("a.b", topic_id(1)),
        PartitionCreated(topic_id(1), lone_partition(0, 1)),
        config,
    )
    new = after(
        old,
        TopicRemoved(topic_id(1)),
        TopicCreated("a.b", topic_id(2)),
        PartitionCreated(topic_id(2), lone_partition(0, 1)),
        config,
    )
    changes = checked(old, new)
    assert changes[:2] == [TopicRemoved(topic_id(1)), TopicCreated("a.b", topic_id(2))]
    assert config in changes


def test_a_partition_whose_epochs_moved_on_is_stated_as_a_whole():
    old = after(
        MetadataImage(),
        TopicCreated("a", topic_id(1)),
        PartitionCreated(topic_id(1), lone_partition(0, 1)),
        PartitionCreated(topic_id(1), lone_partition(1, 1)),
    )
    new = after(
        old,
        PartitionChanged(topic_id(1), 1, leader=BrokerId(-1)),
        PartitionChanged(topic_id(1), 1, leader=BrokerId(1)),
    )
    assert checked(old, new) == [PartitionCreated(topic_id(1), new.topics["a"].partitions[1])]


def test_a_broker_that_was_unregistered_goes():
    old = after(MetadataImage(), *register_broker(MetadataImage(), registration(3)))
    new = after(old, BrokerUnregistered(BrokerId(3), 0))
    assert [type(change) for change in checked(old, new)] == [BrokerUnregistered]


def test_controllers_come_go_and_register_again():
    first, again = controller(1), controller(1, incarnation=9)
    old = after(
        MetadataImage(),
        *map(ControllerRegistered, (controller(2), first, controller(3))),
    )
    new = after(
        old,
        ControllerUnregistered(BrokerId(2)),
        ControllerRegistered(again),
        ControllerRegistered(controller(4)),
    )
    assert checked(old, new) == [
        ControllerUnregistered(2),
        ControllerRegistered(again),
        ControllerRegistered(controller(4)),
    ]


def test_records_we_do_not_understand_become_more():
    old = after(MetadataImage(), OpaqueRecorded(18, 0, b"a"), OpaqueRecorded(18, 0, b"a"))
    new = after(old, OpaqueRecorded(18, 0, b"a"), OpaqueRecorded(19, 0, b"b"))
    assert checked(old, new) == [OpaqueRecorded(18, 0, b"a"), OpaqueRecorded(19, 0, b"b")]


@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(0, 40))
def test_the_difference_of_any_two_moments_leads_from_one_to_the_other(seed, before, later):
    dice = random.Random(seed)
    images = [MetadataImage()]
    for _ in range(max(before, later)):
        images.append(after(images[-1], random_change(images[-1], dice)))
    if before > later:
        before, later = later, before
    checked(images[before], images[later])


def random_change(image, dice):
    """Change something that can be changed."""
    topics = sorted(image.topics.values(), key=lambda topic: topic.name)
    fresh = topic_id(dice.randrange(1, 2**60))
    named = {topic.name for topic in topics}
    choices = [
        ConfigChanged(
            ConfigResource(dice.choice((2, 4)), dice.choice("abc")),
            dice.choice("xy"),
            dice.choice((None, "1", "2")),
        ),
        FeatureLevelSet(dice.choice("fg"), dice.randrange(3)),
        ControllerRegistered(controller(dice.randrange(4), dice.randrange(3))),
        ControllerUnregistered(BrokerId(dice.randrange(4))),
        ProducerIdsAllocated(BrokerId(1), 1, image.next_producer_id + 1000),
    ]
    choices += [TopicCreated(name, fresh) for name in "abc" if name not in named]
    for topic in topics:
        count = len(topic.partitions)
        choices.append(PartitionCreated(topic.id, lone_partition(count, 1)))
        choices.append(TopicRemoved(topic.id))
        choices += [
            PartitionChanged(topic.id, index, leader=BrokerId(dice.choice((-1, 1))))
            for index in range(count)
        ]
    return dice.choice(choices)
