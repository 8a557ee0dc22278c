"""What happens to partitions when brokers come and go with their sessions, several at once too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.broker_arrivals import broker_came, broker_left
from kits.metadata_samples import after, topic_id
from moldau.cluster.broker_arrivals import brokers_changed
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import (
    NO_LEADER,
    Broker,
    ConfigResource,
    Endpoint,
    Partition,
    ResourceType,
)
from moldau.cluster.steps import PARTITIONS_PER_STEP

TOPIC = topic_id(1)


def life(broker_id, epoch=10):
    """One life of a broker, as its node tells it: without log directories."""
    listener = Endpoint("PLAINTEXT", f"host-{broker_id}", 9092, 0)
    return Broker(broker_id, epoch, epoch.to_bytes(16), (listener,), fenced=False)


def lives(*broker_ids):
    return {one: life(one) for one in broker_ids}


def cluster(
    replicas=(1, 2, 3), *, live=(1, 2, 3), eligible=True, minimum=1, unclean=False, **parts
):
    """One partition, all of its replicas in sync and led by the first, unless told otherwise."""
    resource = ConfigResource(ResourceType.TOPIC, "a")
    made = Partition(0, replicas, replicas, replicas[0])
    image = MetadataImage(
        brokers=lives(*live), features={"eligible.leader.replicas.version": int(eligible)}
    )
    return after(
        image,
        [
            TopicCreated("a", TOPIC),
            PartitionCreated(TOPIC, replace(made, **parts)),
            ConfigChanged(resource, "min.insync.replicas", str(minimum)),
            ConfigChanged(resource, "unclean.leader.election.enable", str(unclean)),
        ],
    )


def only(image):
    return image.topics["a"].partitions[0]


def state(image):
    partition = only(image)
    return partition.leader, partition.isr, partition.eligible_leaders


def left(image, *broker_ids):
    live = {one: broker for one, broker in image.brokers.items() if one not in broker_ids}
    return after(image, brokers_changed(image, live))


def restarted(image, *broker_ids, lacking=()):
    """The image after these brokers were restarted between two looks at them."""
    live = {**image.brokers, **{one: life(one, 20) for one in broker_ids}}
    return after(image, brokers_changed(image, live, lacking))


# One that leaves


def test_a_broker_that_leaves_is_unregistered_and_replaced_as_leader():
    image = cluster()
    steps = list(broker_left(image, 1))
    assert steps == [
        BrokerUnregistered(1, 10),
        PartitionChanged(TOPIC, 0, isr=(2, 3), leader=2),
    ]
    now = after(image, steps)
    assert 1 not in now.brokers
    assert only(now).leader_epoch == only(image).leader_epoch + 1


def test_a_follower_that_leaves_changes_the_isr_alone():
    image = cluster()
    now = after(image, broker_left(image, 3))
    assert state(now) == (1, (1, 2), ())
    assert only(now).leader_epoch == only(image).leader_epoch


def test_one_that_leaves_below_the_minimum_stays_eligible():
    image = cluster(minimum=2, isr=(1, 2))
    now = after(image, broker_left(image, 1))
    assert state(now) == (2, (2,), (1,))
    now = after(now, broker_left(now, 2))
    assert (state(now), only(now).last_known_leaders) == ((NO_LEADER, (), (1, 2)), (2,))


def test_without_eligible_leaders_the_last_member_stays():
    image = cluster(eligible=False, isr=(1,))
    assert state(after(image, broker_left(image, 1))) == (NO_LEADER, (1,), ())


def test_a_broker_that_is_not_known_can_leave():
    image = cluster(live=(2, 3))
    assert list(broker_left(image, 1)) == [PartitionChanged(TOPIC, 0, isr=(2, 3), leader=2)]


# One that comes


def test_a_broker_that_comes_is_registered_and_leads_what_waited_for_it():
    image = cluster(live=(2,), leader=NO_LEADER, isr=(), eligible_leaders=(1,), replicas=(1, 2))
    steps = list(broker_came(image, life(1, 20)))
    assert steps[0] == BrokerRegistered(life(1, 20))
    assert state(after(image, steps)) == (1, (1,), ())


def test_a_broker_that_comes_does_not_take_over_what_others_lead():
    image = cluster(live=(2, 3), leader=2, isr=(2, 3))
    steps = list(broker_came(image, life(1, 20)))
    assert steps == [BrokerRegistered(life(1, 20))]


def test_an_older_life_leaves_when_the_next_one_comes():
    image = cluster()
    steps = list(broker_came(image, life(1, 20)))
    assert steps == [
        BrokerUnregistered(1, 10),
        BrokerRegistered(life(1, 20)),
        PartitionChanged(TOPIC, 0, isr=(2, 3), leader=2),
    ]


def test_an_older_life_that_no_image_knows_leaves_too():
    image = cluster(live=(2, 3))
    now = after(image, broker_came(image, life(1, 20)))
    assert state(now) == (2, (2, 3), ())


@pytest.mark.parametrize("eligible", [True, False])
@pytest.mark.parametrize("lacks", [True, False])
@pytest.mark.parametrize("replicas", [(1,), (1, 2, 3)])
def test_a_restarted_leader_that_was_alone_leads_again_in_a_new_epoch(eligible, lacks, replicas):
    # Its log may have lost its end, which nobody acknowledged. Followers have to truncate too.
    image = cluster(replicas, eligible=eligible, isr=(1,))
    now = after(image, broker_came(image, life(1, 20), may_lack_records=lacks))
    assert state(now) == (1, (1,), ())
    assert only(now).leader_epoch == only(image).leader_epoch + 1
    assert not only(now).recovering


def test_one_that_may_lack_records_is_neither_in_sync_nor_eligible():
    image = cluster(live=(3,), minimum=3, leader=3, isr=(3,), eligible_leaders=(1, 2))
    now = after(image, broker_came(image, life(1, 20), may_lack_records=True))
    assert state(now) == (3, (3,), (2,))
    image = cluster(minimum=3)
    now = after(image, broker_came(image, life(1, 20), may_lack_records=True))
    assert state(now) == (2, (2, 3), ())


def test_one_that_lacks_nothing_stays_eligible():
    image = cluster(minimum=3)
    now = after(image, broker_came(image, life(1, 20)))
    assert state(now) == (2, (2, 3), (1,))


@pytest.mark.parametrize("eligible", [True, False])
def test_a_complete_replica_that_is_down_is_waited_for(eligible):
    image = cluster(eligible=eligible, isr=(1, 2))
    live = {1: life(1, 20), 3: life(3)}
    now = after(image, brokers_changed(image, live, [1]))
    expected = (NO_LEADER, (), (2,)) if eligible else (NO_LEADER, (2,), ())
    assert state(now) == expected


def test_what_a_life_lacked_when_it_came_does_not_count_again():
    image = cluster(minimum=2)
    assert list(brokers_changed(image, image.brokers, [1, 2, 3])) == []


# Several at once


def test_of_two_that_leave_none_is_elected():
    image = cluster(minimum=3)
    assert state(left(image, 1, 2)) == (3, (3,), (1, 2))
    unclean = cluster(unclean=True, isr=(1,))
    assert state(left(unclean, 1, 2)) == (3, (3,), ())


def test_all_that_leave_at_once_stay_eligible():
    # None of them can have committed anything without the others.
    now = left(cluster(), 1, 2, 3)
    assert (state(now), only(now).last_known_leaders) == ((NO_LEADER, (), (1, 2, 3)), (1,))


def test_without_eligible_leaders_one_of_those_that_leave_is_waited_for():
    assert state(left(cluster(eligible=False, leader=2), 1, 2, 3)) == (NO_LEADER, (2,), ())


@pytest.mark.parametrize("eligible", [True, False])
def test_the_one_that_is_back_leads_rather_than_the_one_that_is_not(eligible):
    image = cluster((1, 2), live=(1, 2), eligible=eligible)
    now = after(image, brokers_changed(image, {2: life(2, 20)}))
    assert state(now) == (2, (2,), ())


@pytest.mark.parametrize("eligible", [True, False])
def test_of_those_that_are_back_the_complete_one_leads(eligible):
    image = cluster(eligible=eligible)
    now = restarted(image, 1, 2, 3, lacking=[1, 2])
    assert state(now) == (3, (3,), ())


@pytest.mark.parametrize("eligible", [True, False])
def test_if_all_may_lack_records_the_last_leader_is_taken_for_complete(eligible):
    now = restarted(cluster(eligible=eligible, leader=2), 1, 2, 3, lacking=[1, 2, 3])
    assert (state(now), only(now).recovering) == ((2, (2,), ()), False)
    assert only(now).leader_epoch == 1


def test_each_partition_is_changed_once():
    image = cluster((1, 2), minimum=2)
    steps = [one for one in brokers_changed(image, {3: life(3, 20), 2: life(2, 30)}) if one]
    assert sum(isinstance(one, PartitionChanged) for one in steps) == 1
    assert state(after(image, steps)) == (2, (2,), (1,))


# What else may differ


def test_other_listeners_are_taken_over_and_nothing_else_is_touched():
    image = cluster()
    image = after(image, [BrokerChanged(1, 10, in_controlled_shutdown=True)])
    amended = replace(life(1), rack="r", endpoints=())
    steps = list(brokers_changed(image, {**image.brokers, 1: amended}))
    assert steps == [BrokerRegistered(replace(amended, in_controlled_shutdown=True))]


def test_a_life_that_was_read_too_late_is_ignored():
    image = cluster()
    assert list(brokers_changed(image, {**image.brokers, 1: life(1, 9)})) == []


def test_a_partition_that_waits_gets_a_leader_whoever_came():
    """The controller before this one may have stopped before it elected a leader."""
    image = cluster(leader=NO_LEADER, isr=(2,))
    assert state(after(image, brokers_changed(image, image.brokers))) == (2, (2,), ())


def test_a_leader_outside_of_the_isr_is_replaced_when_it_leaves():
    image = cluster(isr=(2, 3))
    assert state(left(image, 1)) == (2, (2, 3), ())


def test_many_partitions_are_looked_at_in_steps():
    image = cluster()
    partitions = tuple(replace(only(image), index=index) for index in range(1000))
    topic = replace(image.topics["a"], partitions=partitions)
    image = replace(image, topics={"a": topic})
    steps = list(brokers_changed(image, image.brokers))
    assert steps == [None] * (1000 // PARTITIONS_PER_STEP)
