"""What happens to partitions when a broker registers or leaves, as Kafka's own log shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import (
    after,
    decided,
    directory_id,
    registration,
    with_brokers,
    with_topic,
)
from moldau.cluster.brokers import (
    allocate_producer_ids,
    begin_controlled_shutdown,
    fence_broker,
    lose_directories,
    register_broker,
    unfence_broker,
    unregister_broker,
)
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    FeatureLevelSet,
    PartitionChanged,
)
from moldau.cluster.configs import alter_configs, min_insync_replicas, replace_configs
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER, ConfigResource, FeatureRange, ResourceType
from moldau.cluster.steps import PARTITIONS_PER_STEP
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ApiError, ErrorCode


def only(image, name="a"):
    return image.topic(name).partitions[0]


def changes_of(steps):
    return [step for step in steps if step is not None]


def state(partition):
    return partition.leader, partition.isr, partition.eligible_leaders


def with_three(**configs):
    """An image with brokers 1 to 3 and a topic of one partition on all of them."""
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    wanted = NewTopic("a", assignments={0: [1, 2, 3]}, configs=settings)
    return with_topic(with_brokers([1, 2, 3]), wanted)


def with_partition(image, **parts):
    """The image with its only partition changed."""
    return after(image, [PartitionChanged(image.topic("a").id, 0, **parts)])


# Registration


def test_a_broker_is_registered_fenced_at_the_version_decided_on():
    image = MetadataImage(version=12)
    (registered,) = changes_of(register_broker(image, registration(1)))
    assert isinstance(registered, BrokerRegistered)
    assert (registered.broker.epoch, registered.broker.fenced) == (12, True)


def test_a_later_registration_has_a_higher_epoch():
    image = with_brokers([1])
    assert with_brokers([1], image=image).brokers[1].epoch > image.brokers[1].epoch


def test_the_same_incarnation_amends_what_it_said():
    image = with_three()
    again = replace(registration(2, "rack-b"), incarnation_id=image.brokers[2].incarnation_id)
    (change,) = changes_of(register_broker(image, again, has_session=True))
    assert change == BrokerRegistered(replace(image.brokers[2], rack="rack-b"))


def test_a_new_incarnation_leaves_every_isr_before_it_is_registered():
    image = with_three()
    again = registration(1, incarnation=99, previous_epoch=image.brokers[1].epoch)
    left, registered = changes_of(register_broker(image, again))
    assert left == PartitionChanged(image.topic("a").id, 0, isr=(2, 3), leader=2)
    assert isinstance(registered, BrokerRegistered)


FULL = {"metadata.version": 30, "group.version": 1, "eligible.leader.replicas.version": 1}
METADATA_ONLY = FeatureRange("metadata.version", 7, 30)
NARROW = FeatureRange("metadata.version", 7, 29)


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"incarnation_id": b"another incarnat"}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        ({"log_directories": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"log_directories": (bytes(15) + b"\x05",)}, ErrorCode.INVALID_REGISTRATION),
        ({"log_directories": (b"d" * 16, b"d" * 16)}, ErrorCode.INVALID_REGISTRATION),
        ({"log_directories": (directory_id(2),)}, ErrorCode.INVALID_REGISTRATION),
        ({"features": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"features": (NARROW,)}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": (METADATA_ONLY,)}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_registration_is_refused_with_kafkas_code(parts, code):
    image = replace(with_brokers([1, 2]), features=FULL, cluster_id="mine")
    own = replace(
        registration(1), incarnation_id=image.brokers[1].incarnation_id, cluster_id="mine"
    )
    assert changes_of(register_broker(image, own, has_session=True))
    with pytest.raises(ApiError) as refused:
        changes_of(register_broker(image, replace(own, **parts), has_session=True))
    assert refused.value.code is code


def test_the_first_of_several_reasons_is_told():
    image = replace(with_brokers([1, 2]), features=FULL, cluster_id="mine")
    wrong = replace(
        registration(1, incarnation=99), cluster_id="x", log_directories=(), features=()
    )
    codes = []
    for right in (
        {},
        {"cluster_id": "mine"},
        {"incarnation_id": image.brokers[1].incarnation_id},
        {"log_directories": (b"d" * 16,)},
    ):
        wrong = replace(wrong, **right)
        with pytest.raises(ApiError) as refused:
            changes_of(register_broker(image, wrong, has_session=True))
        codes.append((refused.value.code, refused.value.message))
    assert [code for code, _ in codes] == [
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.INVALID_REGISTRATION,
    ]
    assert "directories" in codes[2][1]
    assert "features" in codes[3][1]


def test_a_cluster_has_a_bounded_number_of_brokers(monkeypatch):
    monkeypatch.setattr("moldau.cluster.brokers.BROKERS_MAX", 3)
    image = with_brokers((1, 2, 3))
    with pytest.raises(ApiError, match="3 brokers are registered already") as caught:
        changes_of(register_broker(image, registration(4)))
    assert caught.value.code is ErrorCode.INVALID_REGISTRATION
    assert changes_of(register_broker(image, registration(3)))


def test_another_incarnation_takes_over_once_the_session_is_over():
    image = with_brokers([1])
    other = registration(1, incarnation=99)
    assert after(image, register_broker(image, other)).brokers[1].epoch == image.version


# A return that may have lost records


@pytest.mark.parametrize(
    ("isr", "eligible", "left"),
    [
        # Others in sync lead on.
        ((1, 2, 3), (), (2, (2, 3), ())),
        # Below the minimum a clean return would stay eligible.
        ((1, 2), (), (2, (2,), ())),
        # Somebody else has everything, and leads though it has just left the ISR.
        ((1,), (2,), (2, (2,), ())),
        ((), (1, 2), (2, (2,), ())),
        # The last one on record stays.
        ((1,), (), (NO_LEADER, (), (1,))),
        ((), (1,), (NO_LEADER, (), (1,))),
    ],
)
def test_an_unclean_return_leaves_isr_and_eligible_leaders_unless_it_is_the_last(
    isr, eligible, left
):
    image = with_three(min_insync_replicas="2")
    leader = 1 if isr else NO_LEADER
    image = with_partition(image, isr=isr, leader=leader, eligible_leaders=eligible)
    image = after(image, register_broker(image, registration(1, incarnation=99)))
    assert state(only(image)) == left


def test_an_unclean_return_waits_for_one_that_is_down():
    """Another replica has everything, and comes back later."""
    image = with_three(min_insync_replicas="2")
    image = with_partition(image, isr=(1, 2))
    for broker_id in (2, 1):
        image = after(image, fence_broker(image, broker_id))
    assert state(only(image)) == (NO_LEADER, (), (2, 1))
    image = after(image, register_broker(image, registration(1, incarnation=99)))
    image = after(image, unfence_broker(image, image.brokers[1]))
    assert state(only(image)) == (NO_LEADER, (), (2,))
    assert only(with_brokers([2], image=image)).leader == 2


def test_a_clean_return_stays_eligible():
    image = with_three(min_insync_replicas="2")
    image = with_partition(image, isr=(1, 2))
    clean = registration(1, incarnation=99, previous_epoch=image.brokers[1].epoch)
    image = after(image, register_broker(image, clean))
    assert state(only(image)) == (2, (2,), (1,))


def test_the_only_replica_stays_whatever_it_lost():
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    image = after(image, register_broker(image, registration(1, incarnation=99)))
    assert state(only(image)) == (NO_LEADER, (), (1,))
    image = after(image, unfence_broker(image, image.brokers[1]))
    assert state(only(image)) == (1, (1,), ())
    assert not only(image).recovering


def test_a_registration_that_was_not_heard_of_is_asked_for_again_and_costs_nothing():
    """The next life asks as the same incarnation, and keeps what the first one was given."""
    image = with_partition(with_three(min_insync_replicas="2"), isr=(1, 2))
    before = image.brokers[1].epoch
    unheard = registration(1, incarnation=99, previous_epoch=before)
    epoch, image = decided(image, register_broker(image, unheard))
    again, kept = decided(image, register_broker(image, unheard, has_session=True))
    assert again == epoch
    assert state(only(kept)) == (2, (2,), (1,))
    other = registration(1, incarnation=98, previous_epoch=before)
    assert state(only(after(image, register_broker(image, other)))) == (2, (2,), ())


def test_without_the_feature_a_new_incarnation_just_leaves_the_isr():
    image = MetadataImage()
    image = with_topic(with_brokers([1, 2], image=image), NewTopic("a", assignments={0: [1, 2]}))
    image = after(image, register_broker(image, registration(1, incarnation=99)))
    assert state(only(image)) == (2, (2,), ())
    image = after(image, register_broker(image, registration(2, incarnation=98)))
    assert state(only(image)) == (NO_LEADER, (2,), ())


# In service and out of it


def test_fencing_leaves_the_partitions_first():
    image = with_three()
    changes = changes_of(fence_broker(image, 1))
    assert changes == [
        PartitionChanged(image.topic("a").id, 0, isr=(2, 3), leader=2),
        BrokerChanged(1, image.brokers[1].epoch, fenced=True),
    ]


def test_unfencing_elects_where_nobody_leads():
    image = with_three()
    for broker_id in (1, 2, 3):
        image = after(image, fence_broker(image, broker_id))
    assert state(only(image)) == (NO_LEADER, (), (3,))
    assert only(image).last_known_leaders == (3,)
    unfenced, elected = changes_of(unfence_broker(image, image.brokers[3]))
    assert unfenced == BrokerChanged(3, image.brokers[3].epoch, fenced=False)
    assert (elected.leader, elected.isr) == (3, (3,))
    assert (elected.eligible_leaders, elected.last_known_leaders) == ((), ())
    assert changes_of(unfence_broker(image, image.brokers[2]))[1:] == []


def test_controlled_shutdown_moves_leaders_and_goes_on():
    image = with_three()
    begun, moved = changes_of(begin_controlled_shutdown(image, image.brokers[1]))
    assert begun == BrokerChanged(1, image.brokers[1].epoch, in_controlled_shutdown=True)
    assert (moved.leader, moved.isr) == (2, (2, 3))


def test_an_unregistered_broker_is_eligible_nowhere():
    image = with_three(min_insync_replicas="2")
    image = with_partition(image, isr=(1,), eligible_leaders=(2, 3))
    image = after(image, unregister_broker(image, 3))
    assert state(only(image)) == (1, (1,), (2,))
    image = after(image, unregister_broker(image, 1))
    assert state(only(image)) == (2, (2,), ())
    assert set(image.brokers) == {2}
    with pytest.raises(ApiError) as refused:
        changes_of(unregister_broker(image, 1))
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_replicas_in_a_failed_directory_leave():
    image = with_three(min_insync_replicas="3")
    two = (directory_id(1), b"e" * 16)
    image = after(image, [BrokerChanged(1, image.brokers[1].epoch, log_directories=two)])
    left, told = changes_of(lose_directories(image, image.brokers[1], [directory_id(1)]))
    assert (left.leader, left.isr, left.eligible_leaders) == (2, (2, 3), None)
    assert told == BrokerChanged(1, image.brokers[1].epoch, log_directories=(b"e" * 16,))
    assert not changes_of(lose_directories(image, image.brokers[1], [b"unknown........."]))
    image = after(image, [left, told])
    moved = with_partition(image, isr=(), leader=NO_LEADER, eligible_leaders=(1,))
    assert not changes_of(unfence_broker(moved, moved.brokers[1]))[1:]


def test_returning_after_an_orderly_stop_takes_everything_back():
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    stopped = after(image, fence_broker(image, 1))
    back = only(with_brokers([1], image=stopped))
    assert (back.leader, back.isr, back.eligible_leaders) == (1, (1,), ())
    assert back.last_known_leaders == ()
    assert back.leader_epoch == only(image).leader_epoch + 2


def test_returning_after_a_crash_raises_the_leader_epoch():
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    back = only(with_brokers([1], image=image))
    assert (back.leader, back.isr) == (1, (1,))
    assert back.leader_epoch > only(image).leader_epoch


def test_without_the_feature_the_last_of_the_isr_stays_in_it():
    image = with_topic(with_brokers([1], image=MetadataImage()), NewTopic("a", 1))
    left = only(after(image, fence_broker(image, 1)))
    assert (left.leader, left.isr, left.eligible_leaders) == (NO_LEADER, (1,), ())
    assert only(with_brokers([1], image=after(image, fence_broker(image, 1)))).leader == 1


def test_the_only_replica_leads_again_even_if_nobody_is_on_record():
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    lost = PartitionChanged(image.topic("a").id, 0, isr=(), leader=NO_LEADER, recovering=True)
    back = only(with_brokers([1], image=after(image, [lost])))
    assert (back.leader, back.isr, back.recovering) == (1, (1,), False)


def test_below_the_minimum_the_one_who_leaves_stays_eligible():
    wanted = NewTopic("a", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"})
    image = with_topic(with_brokers([1, 2]), wanted)
    image = after(image, fence_broker(image, 1))
    assert state(only(image)) == (2, (2,), (1,))
    image = after(image, fence_broker(image, 2))
    assert state(only(image)) == (NO_LEADER, (), (1, 2))
    image = with_brokers([2], image=image)
    assert state(only(image)) == (2, (2,), (1,))


def test_one_who_is_not_eligible_does_not_take_over():
    image = with_topic(with_brokers([1, 2]), NewTopic("a", assignments={0: [1, 2]}))
    image = with_partition(image, isr=(1,))
    image = after(image, fence_broker(image, 1))
    assert only(with_brokers([2], image=image)).leader == NO_LEADER


def test_a_broker_that_is_not_there_or_fenced_has_nothing_to_leave():
    image = with_brokers([1])
    assert not changes_of(fence_broker(image, 2))
    assert not changes_of(fence_broker(after(image, fence_broker(image, 1)), 1))


def test_a_walk_over_many_partitions_makes_small_steps():
    image = with_topic(with_brokers([1]), NewTopic("a", 5 * PARTITIONS_PER_STEP))
    image = with_brokers([2], image=image)
    steps = list(fence_broker(image, 2))
    assert steps[:-1] == [None] * 5


def test_blocks_of_producer_ids_follow_each_other():
    image = with_brokers([1])
    first = allocate_producer_ids(image, image.brokers[1])
    assert (first.broker_epoch, first.next_producer_id) == (image.brokers[1].epoch, 1000)
    image = after(image, [first])
    assert allocate_producer_ids(image, image.brokers[1]).next_producer_id == 2000


TOPIC = ConfigResource(ResourceType.TOPIC, "a")
CLUSTER = ConfigResource(ResourceType.BROKER, "")


def test_configs_change_only_where_they_differ():
    image = with_topic(with_brokers([1]), NewTopic("a", 1, configs={"x": "1", "y": "2"}))
    changes = alter_configs(image, TOPIC, {"x": "1", "y": None, "z": "3", "w": None})
    assert [(change.key, change.value) for change in changes] == [("y", None), ("z", "3")]
    assert after(image, changes).topic_config("a") == {"x": "1", "z": "3"}


def test_replacing_configs_removes_the_others():
    image = with_topic(with_brokers([1]), NewTopic("a", 1, configs={"x": "1", "y": "2"}))
    image = after(image, replace_configs(image, TOPIC, {"y": "5", "z": "3"}))
    assert image.topic_config("a") == {"y": "5", "z": "3"}


def test_a_topic_that_is_not_there_has_no_configs_to_change():
    with pytest.raises(ApiError) as refused:
        alter_configs(with_brokers([1]), TOPIC, {"x": "1"})
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_another_minimum_forgets_who_was_eligible():
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    image = with_topic(image, NewTopic("b", 1))
    image = after(image, fence_broker(image, 1))
    one = after(image, alter_configs(image, TOPIC, {"min.insync.replicas": "2"}))
    assert (only(one, "a").eligible_leaders, only(one, "b").eligible_leaders) == ((), (1,))
    both = after(image, alter_configs(image, CLUSTER, {"min.insync.replicas": "2"}))
    assert (only(both, "a").eligible_leaders, only(both, "b").eligible_leaders) == ((), ())
    off = replace(image, features={})
    kept = after(off, alter_configs(off, TOPIC, {"min.insync.replicas": "2"}))
    assert only(kept, "a").eligible_leaders == (1,)


def test_the_minimum_is_the_topics_then_the_clusters_then_one():
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    assert min_insync_replicas(image, "a") == 1
    image = after(image, alter_configs(image, CLUSTER, {"min.insync.replicas": "2"}))
    assert min_insync_replicas(image, "a") == 2
    image = after(image, alter_configs(image, TOPIC, {"min.insync.replicas": "3"}))
    assert min_insync_replicas(image, "a") == 3


def test_the_minimum_that_eligible_leaders_depend_on_stays_where_it_is():
    """Kafka refuses these two as long as it keeps eligible leaders, and takes them otherwise."""
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    image = after(image, alter_configs(image, CLUSTER, {"min.insync.replicas": "2"}))
    own = ConfigResource(ResourceType.BROKER, "1")
    for resource, value in ((own, "1"), (own, None), (CLUSTER, None)):
        with pytest.raises(ApiError) as caught:
            alter_configs(image, resource, {"min.insync.replicas": value})
        assert caught.value.code is ErrorCode.INVALID_CONFIG
    with pytest.raises(ApiError):
        replace_configs(image, CLUSTER, {"log.retention.ms": "5"})
    off = after(image, [FeatureLevelSet("eligible.leader.replicas.version", 0)])
    assert min_insync_replicas(after(off, replace_configs(off, CLUSTER, {})), "a") == 1
