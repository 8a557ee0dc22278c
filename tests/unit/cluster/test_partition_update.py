"""What one partition becomes: who leads, who stays eligible, when a reassignment is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import after, directory_id, with_brokers, with_topic
from moldau.cluster.brokers import fence_broker
from moldau.cluster.changes import BrokerChanged, PartitionChanged
from moldau.cluster.image import changed_partition
from moldau.cluster.leader_choice import Election, ElectionRules, choose_leader
from moldau.cluster.model import LOST_DIRECTORY, NO_LEADER, UNASSIGNED_DIRECTORY
from moldau.cluster.partition_update import PartitionTarget, change_partition
from moldau.cluster.topics import NewTopic

ONLINE, PREFERRED, UNCLEAN = Election.ONLINE, Election.PREFERRED, Election.UNCLEAN


def cluster(fenced=(), configs=None, features=None):
    """Brokers 1 to 5, some of them fenced, and topic `t` on 1 to 3."""
    image = with_brokers([1, 2, 3, 4, 5])
    if features is not None:
        image = replace(image, features=features)
    wanted = NewTopic("t", assignments={0: [1, 2, 3]}, configs=configs or {})
    image = with_topic(image, wanted)
    for broker_id in fenced:
        fence = BrokerChanged(broker_id, image.brokers[broker_id].epoch, fenced=True)
        image = after(image, [fence])
    return image


def changed(image, target=None, **parts):
    """The partition as it was given, and after a change to this target."""
    topic = image.topics["t"]
    old = replace(topic.partitions[0], **parts)
    change = change_partition(ElectionRules(image), topic, old, target or PartitionTarget())
    return old, old if change is None else changed_partition(old, change)


def state(partition):
    return partition.leader, partition.isr, partition.eligible_leaders


# Elections


@pytest.mark.parametrize(
    ("election", "fenced", "leader", "isr", "eligible", "last", "chosen"),
    [
        # The leader stays while it can.
        (ONLINE, (), 2, (1, 2, 3), (), (), (2, False)),
        (UNCLEAN, (), 2, (1, 2, 3), (), (), (2, False)),
        # The preferred replica comes before it, if it is in sync and alive.
        (PREFERRED, (), 2, (1, 2, 3), (), (), (1, False)),
        (PREFERRED, (), 2, (2, 3), (), (), (2, False)),
        (PREFERRED, (1,), 2, (1, 2, 3), (), (), (2, False)),
        # The first replica in the ISR that is alive, in the order of replicas.
        (ONLINE, (1,), 1, (3, 2, 1), (), (), (2, False)),
        (ONLINE, (1, 2), 1, (3, 2, 1), (), (), (3, False)),
        # Eligible replicas count only while the ISR is empty.
        (ONLINE, (), NO_LEADER, (), (3,), (), (3, False)),
        (ONLINE, (), NO_LEADER, (), (3, 2), (), (2, False)),
        (ONLINE, (3,), NO_LEADER, (3,), (2,), (), (NO_LEADER, False)),
        # A last known leader, only alone, only alive, only when nobody is eligible.
        (ONLINE, (), NO_LEADER, (), (), (2,), (2, True)),
        (PREFERRED, (), NO_LEADER, (), (), (2,), (2, True)),
        (ONLINE, (2,), NO_LEADER, (), (), (2,), (NO_LEADER, False)),
        (ONLINE, (), NO_LEADER, (), (), (2, 3), (NO_LEADER, False)),
        (ONLINE, (), NO_LEADER, (), (), (5,), (NO_LEADER, False)),
        (ONLINE, (3,), NO_LEADER, (), (3,), (2,), (NO_LEADER, False)),
        # Anybody, if that is allowed.
        (UNCLEAN, (1, 3), 3, (3,), (), (), (2, True)),
        (UNCLEAN, (1, 2, 3), 3, (3,), (), (), (NO_LEADER, False)),
        (ONLINE, (1, 3), 3, (3,), (), (), (NO_LEADER, False)),
        (PREFERRED, (1, 3), 3, (3,), (), (), (NO_LEADER, False)),
    ],
)
def test_candidates_are_asked_in_kafkas_order(
    election, fenced, leader, isr, eligible, last, chosen
):
    image = cluster(fenced)
    partition = replace(image.topics["t"].partitions[0], leader=leader, last_known_leaders=last)
    rules = ElectionRules(image)
    assert choose_leader(rules, partition, (1, 2, 3), isr, eligible, election) == chosen


def test_without_the_feature_a_last_known_leader_is_not_asked():
    image = cluster(features={})
    partition = replace(image.topics["t"].partitions[0], leader=NO_LEADER, last_known_leaders=(2,))
    choice = choose_leader(ElectionRules(image), partition, (1, 2, 3), (), (), ONLINE)
    assert choice.leader == NO_LEADER


def test_a_broker_that_shuts_down_or_whose_directory_is_offline_does_not_lead():
    image = cluster()
    rules, partition = ElectionRules(image), image.topics["t"].partitions[0]
    broker = image.brokers[1]
    assert rules.may_lead(partition, 1)
    assert not rules.with_broker(replace(broker, in_controlled_shutdown=True)).may_lead(
        partition, 1
    )
    assert not rules.without_broker(1).may_lead(partition, 1)
    for directories, online in (
        ((directory_id(1),), True),
        ((directory_id(7),), False),
        ((), True),
    ):
        changed_rules = rules.with_broker(replace(broker, log_directories=directories))
        assert changed_rules.may_lead(partition, 1) is online
    for directory, online in (
        (UNASSIGNED_DIRECTORY, True),
        (bytes(16), True),
        (LOST_DIRECTORY, False),
    ):
        elsewhere = replace(partition, directories=(directory, *partition.directories[1:]))
        assert rules.may_lead(elsewhere, 1) is online


def test_an_unclean_leader_is_alone_and_recovers():
    image = cluster(fenced=[1], configs={"unclean.leader.election.enable": "true"})
    old, new = changed(
        image, PartitionTarget(isr=()), isr=(1,), eligible_leaders=(), last_known_leaders=()
    )
    assert state(new) == (2, (2,), ())
    assert new.recovering
    assert new.leader_epoch == old.leader_epoch + 1


@pytest.mark.parametrize(
    ("topic", "every", "default", "election"),
    [
        (None, None, False, ONLINE),
        (None, None, True, UNCLEAN),
        (None, "true", False, UNCLEAN),
        (None, "false", True, ONLINE),
        ("true", "false", False, UNCLEAN),
        ("false", "true", True, ONLINE),
    ],
)
def test_unclean_elections_are_the_topics_then_the_clusters_choice(topic, every, default, election):
    key = "unclean.leader.election.enable"
    image = cluster()
    configs = {(2, "t"): {key: topic}, (4, ""): {key: every}}
    given = {where: set_ for where, set_ in configs.items() if None not in set_.values()}
    image = replace(image, configs=given)
    rules = ElectionRules(image, unclean_by_default=default)
    assert rules.usual_election("t") is election


# Eligible leader replicas (KIP-966)


@pytest.mark.parametrize(
    ("minimum", "isr", "eligible", "target", "expected"),
    [
        # Enough in sync: nobody outside is eligible.
        (2, (1, 2, 3), (), (1, 2), ()),
        (2, (1,), (2, 3), (1, 3), ()),
        # Too few: those who leave stay eligible.
        (2, (1, 2, 3), (), (1,), (2, 3)),
        (2, (1, 2), (), (1,), (2,)),
        (3, (1, 2), (3,), (1,), (3, 2)),
        (3, (1,), (2, 3), (1, 2), (3,)),
        # The minimum is never larger than the number of replicas.
        (9, (1,), (2,), (1, 2, 3), ()),
    ],
)
def test_eligible_are_those_who_left_below_the_minimum(minimum, isr, eligible, target, expected):
    image = cluster(configs={"min.insync.replicas": str(minimum)})
    _, new = changed(image, PartitionTarget(isr=target), isr=isr, eligible_leaders=eligible)
    assert (new.isr, new.eligible_leaders) == (target, expected)
    _, new = changed(
        replace(image, features={}), PartitionTarget(isr=target), isr=isr, eligible_leaders=()
    )
    assert (new.isr, new.eligible_leaders) == (target, ())


def test_one_that_may_lack_records_is_not_eligible():
    image = cluster(configs={"min.insync.replicas": "3"})
    _, new = changed(image, PartitionTarget(isr=(1, 2), not_eligible=frozenset({3})))
    assert new.eligible_leaders == ()


def test_a_partition_without_a_leader_remembers_the_first_one_it_lost():
    image = cluster(fenced=[1, 2, 3])
    old, new = changed(image, PartitionTarget(isr=()), isr=(1,))
    assert (state(new), new.last_known_leaders) == ((NO_LEADER, (), (1,)), (1,))
    assert new.leader_epoch == old.leader_epoch + 1
    _, again = changed(
        image, leader=NO_LEADER, isr=(), eligible_leaders=(2,), last_known_leaders=(3,)
    )
    assert again.last_known_leaders == (3,)


def test_who_leads_out_of_the_eligible_is_alone_in_the_isr():
    image = cluster(fenced=[1], configs={"min.insync.replicas": "2"})
    gone = {"leader": NO_LEADER, "isr": (), "last_known_leaders": (1,)}
    _, new = changed(image, eligible_leaders=(1, 2), **gone)
    assert (state(new), new.last_known_leaders) == ((2, (2,), (1,)), ())
    assert not new.recovering


def test_a_last_known_leader_recovers():
    image = cluster()
    _, new = changed(image, leader=NO_LEADER, isr=(), last_known_leaders=(3,))
    assert (state(new), new.recovering, new.last_known_leaders) == ((3, (3,), ()), True, ())


def test_an_isr_that_shrinks_keeps_the_leader_epoch():
    """Kafka raised it with older metadata levels (KAFKA-15021)."""
    old, new = changed(cluster(), PartitionTarget(isr=(1, 2)))
    assert (new.leader_epoch, new.partition_epoch) == (old.leader_epoch, old.partition_epoch + 1)


def test_nothing_changes_where_all_is_as_wanted():
    image = cluster()
    topic = image.topics["t"]
    target = PartitionTarget(isr=(1, 2, 3), election=PREFERRED)
    assert change_partition(ElectionRules(image), topic, topic.partitions[0], target) is None


# Reassignments that come to their end


@pytest.mark.parametrize(
    ("replicas", "adding", "removing", "isr", "after_change"),
    [
        # All that are added are in sync.
        ((4, 5, 1, 2), (4, 5), (1, 2), (1, 2, 4, 5), ((4, 5), (4, 5))),
        # One of them is not.
        ((4, 5, 1, 2), (4, 5), (1, 2), (1, 2, 4), None),
        # Replicas that stay may be behind, unless the number of replicas gets smaller.
        ((2, 3, 4, 1), (4,), (1,), (1, 2, 4), ((2, 3, 4), (2, 4))),
        ((3, 4, 1, 2), (4,), (1, 2), (1, 2, 4), None),
        ((3, 4, 1, 2), (4,), (1, 2), (1, 2, 3, 4), ((3, 4), (3, 4))),
        # Nobody who stays is in sync.
        ((3, 1, 2), (), (1, 2), (1, 2), None),
        ((3, 1, 2), (), (1, 2), (1, 3), ((3,), (3,))),
        # Only growing.
        ((1, 2, 4), (4,), (), (1, 2, 4), ((1, 2, 4), (1, 2, 4))),
    ],
)
def test_a_reassignment_ends_inside_the_next_change(replicas, adding, removing, isr, after_change):
    image = cluster()
    directories = tuple(map(directory_id, replicas))
    parts = {
        "replicas": replicas,
        "adding_replicas": adding,
        "removing_replicas": removing,
        "isr": (1,),
        "directories": directories,
    }
    old, new = changed(image, PartitionTarget(isr=isr), **parts)
    if after_change is None:
        assert (new.replicas, new.adding_replicas, new.removing_replicas, new.isr) == (
            replicas,
            adding,
            removing,
            isr,
        )
        return
    assert (new.replicas, new.isr) == after_change
    assert (new.adding_replicas, new.removing_replicas) == ((), ())
    assert new.directories == tuple(map(directory_id, new.replicas))
    assert new.leader in new.isr
    # Whoever is dropped must hear of it as a new leadership.
    assert new.leader_epoch == old.leader_epoch + (1 if removing else 0)


def test_a_replica_that_is_dropped_is_not_eligible():
    image = cluster(configs={"min.insync.replicas": "3"})
    parts = {
        "replicas": (2, 3, 4, 1),
        "adding_replicas": (4,),
        "removing_replicas": (1,),
        "isr": (1, 2),
        "eligible_leaders": (3,),
        "directories": tuple(map(directory_id, (2, 3, 4, 1))),
    }
    _, new = changed(image, PartitionTarget(isr=(1, 2, 4)), **parts)
    assert (new.replicas, new.isr, new.eligible_leaders) == ((2, 3, 4), (2, 4), (3,))


def test_new_replicas_lie_where_their_brokers_have_room():
    image = cluster()
    several = replace(image.brokers[5], log_directories=(b"x" * 16, b"y" * 16))
    image = replace(image, brokers={**image.brokers, 5: several})
    target = PartitionTarget(replicas=(4, 5, 1, 2, 3), adding=(4, 5))
    _, new = changed(image, target)
    assert new.directories == (
        directory_id(4),
        UNASSIGNED_DIRECTORY,
        *map(directory_id, (1, 2, 3)),
    )


def test_a_change_names_only_what_differs():
    image = cluster()
    image = after(image, fence_broker(image, 2))
    topic = image.topics["t"]
    target = PartitionTarget(isr=(1,))
    change = change_partition(ElectionRules(image), topic, topic.partitions[0], target)
    assert change == PartitionChanged(topic.id, 0, isr=(1,))
