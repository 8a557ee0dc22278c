"""What happens to partitions when a broker registers or leaves, as Kafka's own log shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import registration, with_brokers, with_topic
from moldau.cluster.brokers import allocate_producer_ids, register_broker, retire_broker
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    FeatureLevelSet,
    PartitionChanged,
)
from moldau.cluster.configs import alter_configs, min_insync_replicas, replace_configs
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER, ConfigResource, ResourceType
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ApiError, ErrorCode


def after(image, changes):
    return image.apply(changes, image.version + len(changes))


def only(image, name="a"):
    return image.topic(name).partitions[0]


def test_a_broker_is_registered_fenced_and_unfenced_at_once():
    image = MetadataImage(version=12)
    changes = register_broker(image, registration(1))
    assert isinstance(changes[0], BrokerRegistered)
    assert changes[0].broker.fenced
    assert changes[1] == BrokerChanged(1, 12, fenced=False)
    assert after(image, changes).brokers[1].active


def test_a_later_registration_has_a_higher_epoch():
    image = with_brokers([1])
    assert with_brokers([1], image=image).brokers[1].epoch > image.brokers[1].epoch


def test_leaving_alone_leaves_no_leader_and_one_who_is_eligible():
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    changes = retire_broker(image, 1)
    epoch = image.brokers[1].epoch
    assert changes[0] == BrokerChanged(1, epoch, in_controlled_shutdown=True)
    assert changes[-1] == BrokerChanged(1, epoch, fenced=True)
    left = only(after(image, changes))
    assert (left.leader, left.isr, left.eligible_leaders) == (NO_LEADER, (), (1,))
    assert left.last_known_leaders == (1,)


def test_returning_after_an_orderly_stop_takes_everything_back():
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    stopped = after(image, retire_broker(image, 1))
    back = only(with_brokers([1], image=stopped))
    assert (back.leader, back.isr, back.eligible_leaders) == (1, (1,), ())
    assert back.last_known_leaders == ()
    assert back.leader_epoch == only(image).leader_epoch + 2


def test_returning_after_a_crash_raises_the_leader_epoch():
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    back = only(with_brokers([1], image=image))
    assert (back.leader, back.isr) == (1, (1,))
    assert back.leader_epoch == only(image).leader_epoch + 1


def test_without_the_feature_the_last_of_the_isr_stays_in_it():
    image = with_topic(with_brokers([1], image=MetadataImage()), NewTopic("a", 1))
    left = only(after(image, retire_broker(image, 1)))
    assert (left.leader, left.isr, left.eligible_leaders) == (NO_LEADER, (1,), ())
    assert only(with_brokers([1], image=after(image, retire_broker(image, 1)))).leader == 1


def test_the_only_replica_leads_again_even_if_nobody_is_on_record():
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    lost = PartitionChanged(image.topic("a").id, 0, isr=(), leader=NO_LEADER, recovering=True)
    back = only(with_brokers([1], image=after(image, [lost])))
    assert (back.leader, back.isr, back.recovering) == (1, (1,), False)


def test_leadership_goes_to_the_next_in_sync_replica():
    image = with_topic(with_brokers([1, 2, 3]), NewTopic("a", assignments={0: [1, 2, 3]}))
    left = only(after(image, retire_broker(image, 1)))
    assert (left.leader, left.isr, left.eligible_leaders) == (2, (2, 3), ())


def test_below_the_minimum_the_one_who_leaves_stays_eligible():
    wanted = NewTopic("a", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"})
    image = with_topic(with_brokers([1, 2]), wanted)
    image = after(image, retire_broker(image, 1))
    assert (only(image).leader, only(image).isr, only(image).eligible_leaders) == (2, (2,), (1,))
    image = after(image, retire_broker(image, 2))
    assert (only(image).isr, only(image).eligible_leaders) == ((), (1, 2))
    image = with_brokers([2], image=image)
    assert (only(image).leader, only(image).isr, only(image).eligible_leaders) == (2, (2,), (1,))


def test_one_who_is_not_eligible_does_not_take_over():
    image = with_topic(with_brokers([1, 2]), NewTopic("a", assignments={0: [1, 2]}))
    behind = PartitionChanged(image.topic("a").id, 0, isr=(1,))
    image = after(image, [behind])
    image = after(image, retire_broker(image, 1))
    assert only(with_brokers([2], image=image)).leader == NO_LEADER


def test_a_follower_that_returns_changes_nothing():
    image = with_topic(with_brokers([1, 2]), NewTopic("a", assignments={0: [1, 2]}))
    assert only(with_brokers([2], image=image)) == only(image)


def test_a_broker_that_is_not_there_or_fenced_has_nothing_to_leave():
    image = with_brokers([1])
    assert retire_broker(image, 2) == []
    assert retire_broker(after(image, retire_broker(image, 1)), 1) == []


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
    image = after(image, retire_broker(image, 1))
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
