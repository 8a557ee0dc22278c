"""What tools ask for by writing nodes is carried out, and their nodes are removed."""

from __future__ import annotations

import random

import pytest

from kits.metadata_samples import topic_id
from kits.zookeeper_nodes import (
    decode_reassignment,
    decode_topic,
    encode_partitions,
    encode_reassignment,
    encode_topic,
    read_topic,
)
from kits.zookeeper_tree import tree_of
from moldau.base.ids import PartitionKey
from moldau.cluster.changes import PartitionChanged, PartitionCreated, TopicCreated
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER, Broker, Partition
from moldau.cluster.reassignment import WantedReplicas
from moldau.cluster.zookeeper.client.port import DeleteNode
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.commit_writes import commit_writes, without_directories
from moldau.cluster.zookeeper.nodes.config_nodes import encode_config
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import (
    DeletionWanted,
    PartitionsWanted,
    PreferredElectionWanted,
    ReassignmentWanted,
    TopicNodeIncomplete,
)
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment, TopicNode
from moldau.cluster.zookeeper.tool_decisions import (
    DONE,
    PROBLEMS_TOLD,
    RequestOutcome,
    RequestSettings,
    decide_request,
    follow_reassignment,
)

ID = topic_id(1)
SETTINGS = RequestSettings(random.Random(1))
NODE = StoredNode(b"", 4)


def cluster(*partitions, eligible=True, brokers=(1, 2, 3)):
    """Live brokers, and a topic "t" with these partitions."""
    image = MetadataImage(
        brokers={one: Broker(one, 10, (10).to_bytes(16), fenced=False) for one in brokers},
        features={"eligible.leader.replicas.version": 1} if eligible else {},
    )
    changes = [TopicCreated("t", ID)] if partitions else []
    changes += [PartitionCreated(ID, one) for one in partitions]
    return image.apply(changes, 1)


def partition(index=0, replicas=(1, 2), **parts):
    return Partition(index, replicas, replicas, replicas[0], **parts)


def decided(image, request, nodes=(), settings=SETTINGS):
    """The outcome, and the changes of the image."""
    return finished(decide_request(image, request, dict(nodes), settings))


def finished(steps):
    changes = []
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return end.value, changes
        if step is not None:
            changes.append(without_directories(step))


class Bench:
    """A tree that tools write to, and a controller that reads it once in a while."""

    def __init__(self, image):
        self.tree = tree_of(image)
        self.image = self.tree.read().image

    def carry_out(self, settings=SETTINGS):
        """Read the tree as a new controller and decide on all that is asked for."""
        reading = self.tree.read()
        self.image = reading.image
        return self.decide(reading.requests, settings)

    def decide(self, requests, settings=SETTINGS):
        """Decide on one request after the other; return the outcomes."""
        wanted = {one.topic: one for one in requests if isinstance(one, PartitionsWanted)}
        outcomes = []
        for request in requests:
            outcome, changes = decided(self.image, request, self.tree.nodes, settings)
            self.commit(changes, wanted)
            writes = tuple(outcome.writes)
            self.tree.apply(writes)
            outcomes.append(outcome._replace(writes=writes))
        return outcomes

    def commit(self, changes, wanted=None):
        before = self.image
        self.image = before.apply(changes, before.version + 1)
        versions = self.tree.versions(before)
        self.tree.apply(commit_writes(before, changes, self.image, 12, versions, wanted))

    def rest(self):
        """What the tree asks for now; it says the same as the image."""
        reading = self.tree.read(self.image.version)
        assert reading.refused == ()
        assert reading.image.topics == self.image.topics
        assert reading.image.configs == self.image.configs
        return reading.requests


def written_by_1_x(*replicas):
    """A topic node as a tool of Kafka 1.x writes it."""
    return encode_topic(TopicNode(tuple(map(Assignment, replicas)), version=1))


def states(image, name="t"):
    return [(one.leader, one.isr, one.eligible_leaders) for one in image.topics[name].partitions]


# New partitions


def test_a_topic_of_an_old_tool_is_created_with_an_id_and_its_configs():
    bench = Bench(cluster())
    bench.tree.put("/config/topics/new", encode_config({"retention.ms": "5"}))
    bench.tree.put(paths.topic("new"), written_by_1_x((1, 2), (9, 3, 2)))
    assert bench.carry_out() == [DONE]
    assert bench.rest() == ()
    assert states(bench.image, "new") == [(1, (1, 2), ()), (3, (3, 2), ())]
    assert bench.image.topic_config("new") == {"retention.ms": "5"}
    node = decode_topic("/t", bench.tree.nodes[paths.topic("new")].data)
    assert node.topic_id == bench.image.topics["new"].id


def test_a_topic_that_has_an_id_keeps_it():
    bench = Bench(cluster())
    bench.tree.put(paths.topic("new"), encode_topic(TopicNode((Assignment((1,)),), ID)))
    assert bench.carry_out() == [DONE]
    assert bench.image.topics["new"].id == ID
    assert bench.rest() == ()


@pytest.mark.parametrize(
    ("eligible", "state"),
    [(True, (NO_LEADER, (), (8, 9))), (False, (NO_LEADER, (8,), ()))],
)
def test_a_partition_without_live_replicas_waits_for_them(eligible, state):
    bench = Bench(cluster(eligible=eligible))
    bench.tree.put(paths.topic("t"), written_by_1_x((8, 9), (1,)))
    assert bench.carry_out() == [DONE]
    assert states(bench.image) == [state, (1, (1,), ())]
    assert bench.rest() == ()


def test_partitions_are_added():
    bench = Bench(cluster(partition()))
    bench.tree.put(paths.topic("t"), written_by_1_x((1, 2), (3, 1), (2,)))
    requests = read_topic(bench.image, "t", bench.tree.nodes[paths.topic("t")], {}).requests
    restored, added = bench.decide(requests)
    assert (len(restored.writes), added) == (1, DONE)
    assert states(bench.image) == [(1, (1, 2), ()), (3, (3, 1), ()), (2, (2,), ())]
    assert bench.image.topics["t"].id == ID
    assert bench.rest() == ()


def test_a_new_partition_is_where_it_is_to_be_moved():
    moved = Assignment((1, 2, 3), (1,), (2, 3))
    _, (_, change) = decided(cluster(), PartitionsWanted("t", ID, 0, (moved,)))
    assert change.partition == partition(0, (1,))


@pytest.mark.parametrize(("first", "of"), [(2, ID), (0, topic_id(9)), (0, None), (1, topic_id(9))])
def test_what_is_older_than_the_image_changes_nothing(first, of):
    wanted = PartitionsWanted("t", of, first, (Assignment((1,)),) * 3)
    assert decided(cluster(partition()), wanted) == (DONE, [])


def test_partitions_that_are_there_already_are_not_made_again():
    wanted = PartitionsWanted("t", ID, 0, (Assignment((3,)),) * 3)
    outcome, changes = decided(cluster(partition(0), partition(1)), wanted)
    assert outcome == DONE
    assert [one.partition.index for one in changes] == [2]


def test_a_name_that_no_topic_can_have_is_told_and_nothing_is_created():
    wanted = PartitionsWanted("__cluster_metadata", None, 0, (Assignment((1,)),))
    outcome, changes = decided(cluster(), wanted)
    assert (outcome.left, changes) == (wanted, [])
    assert outcome.problems == ("Creation of internal topic __cluster_metadata is prohibited.",)


# Nodes without what older tools do not know


def test_an_id_that_a_tool_erased_is_restored():
    bench = Bench(cluster(partition()))
    bench.tree.put(paths.topic("t"), written_by_1_x((1, 2)))
    # The controller has the id in its image.
    requests = read_topic(bench.image, "t", bench.tree.nodes[paths.topic("t")], {}).requests
    (outcome,) = bench.decide(requests)
    assert (len(outcome.writes), outcome.left) == (1, None)
    assert bench.rest() == ()


def test_a_topic_that_never_had_an_id_gets_one():
    bench = Bench(cluster(partition()))
    bench.tree.put(paths.topic("t"), written_by_1_x((1, 2)))
    assert bench.tree.read().requests == (TopicNodeIncomplete("t", None),)
    bench.carry_out()
    reading = bench.tree.read()
    assert reading.requests == ()
    assert reading.image.topics["t"].id not in (None, ID)


@pytest.mark.parametrize("of", [None, topic_id(9)])
def test_the_id_of_a_known_topic_is_not_replaced(of):
    nodes = {paths.topic("t"): StoredNode(written_by_1_x((1, 2)))}
    assert decided(cluster(partition()), TopicNodeIncomplete("t", of), nodes) == (DONE, [])


def test_a_node_that_is_gone_is_not_restored():
    assert decided(cluster(), TopicNodeIncomplete("t", None)) == (DONE, [])


# Deletions


def test_a_topic_is_deleted_with_the_node_that_asked():
    bench = Bench(cluster(partition()))
    bench.tree.create(paths.delete_topic("t"))
    assert bench.carry_out() == [DONE]
    assert bench.image.topics == {}
    assert bench.rest() == ()
    assert not [path for path in bench.tree.nodes if path.endswith("/t")]


def test_what_is_left_of_a_topic_is_removed():
    bench = Bench(cluster())
    bench.tree.create(paths.delete_topic("t"))
    bench.tree.put(paths.topic("t"), written_by_1_x((1, 2), (1, 2)))
    bench.tree.create(paths.partition("t", 0))
    bench.carry_out()
    assert bench.rest() == ()
    assert not [path for path in bench.tree.nodes if "/t/" in f"{path}/"]


def test_a_topic_that_is_not_known_leaves_nothing_to_do_but_the_node():
    bench = Bench(cluster())
    bench.tree.create(paths.delete_topic("nobody"))
    bench.carry_out()
    assert bench.rest() == ()
    assert paths.delete_topic("nobody") not in bench.tree.nodes


def test_where_topics_are_not_deleted_only_the_request_is():
    bench = Bench(cluster(partition()))
    bench.tree.create(paths.delete_topic("t"))
    before = dict(bench.tree.nodes)
    bench.carry_out(RequestSettings(random.Random(1), deletes_topics=False))
    assert before.keys() - bench.tree.nodes.keys() == {paths.delete_topic("t")}
    assert bench.rest() == ()


def test_a_deletion_that_was_carried_out_is_not_made_again():
    assert decided(cluster(partition()), DeletionWanted("t")) == (DONE, [])


# Reassignments


def moving(bench):
    """Follow the reassignment once; return the partitions that are left."""
    node = bench.tree.nodes[paths.REASSIGN_PARTITIONS]
    request = ReassignmentWanted(decode_reassignment(node.data))
    outcome, changes = finished(follow_reassignment(bench.image, request, node))
    assert changes == []
    bench.tree.apply(outcome.writes)
    return outcome.left


def test_a_reassignment_is_followed_until_it_is_over():
    bench = Bench(cluster(partition(0), partition(1), partition(2)))
    wanted = [
        WantedReplicas("t", 0, (3, 1)),  # adds broker 3
        WantedReplicas("t", 1, (2, 1)),  # over at once
        WantedReplicas("t", 2, (2, 9)),  # there is no broker 9
        WantedReplicas("x", 0, (1,)),
    ]
    bench.tree.put(paths.REASSIGN_PARTITIONS, encode_reassignment(wanted))
    (outcome,) = bench.carry_out()
    assert outcome.left == ReassignmentWanted(tuple(wanted))
    assert [one.partition(":")[0] for one in outcome.problems] == ["t-2", "x-0"]
    assert [one.replicas for one in bench.image.topics["t"].partitions] == [
        (3, 1, 2),
        (2, 1),
        (1, 2),
    ]
    assert moving(bench) == ReassignmentWanted((wanted[0],))
    assert bench.rest() == (ReassignmentWanted((wanted[0],)),)
    version = bench.tree.nodes[paths.REASSIGN_PARTITIONS].version
    # The next controller decides again, and changes nothing.
    assert bench.carry_out() == [RequestOutcome(left=ReassignmentWanted((wanted[0],)))]
    assert moving(bench) == ReassignmentWanted((wanted[0],))
    assert bench.tree.nodes[paths.REASSIGN_PARTITIONS].version == version
    bench.commit(
        [PartitionChanged(ID, 0, (1, 3), replicas=(3, 1), adding_replicas=(), removing_replicas=())]
    )
    assert moving(bench) is None
    assert paths.REASSIGN_PARTITIONS not in bench.tree.nodes
    assert bench.rest() == ()


def test_a_move_that_another_one_replaced_is_not_waited_for():
    image = cluster(partition(0, (3, 1, 2), adding_replicas=(3,), removing_replicas=(2,)))
    request = ReassignmentWanted((WantedReplicas("t", 0, (3, 2)),))
    outcome, _ = finished(follow_reassignment(image, request, NODE))
    assert outcome == RequestOutcome((DeleteNode(paths.REASSIGN_PARTITIONS, 4),))


def test_many_moves_are_looked_at_in_steps():
    request = ReassignmentWanted((WantedReplicas("t", 0, (3, 2)),) * 1000)
    steps = follow_reassignment(cluster(), request, NODE)
    assert [next(steps) for _ in range(10)] == [None] * 10


def test_of_many_problems_some_are_told():
    wanted = tuple(WantedReplicas("x", index, (1,)) for index in range(1000))
    outcome, changes = decided(cluster(), ReassignmentWanted(wanted))
    assert (len(outcome.problems), changes) == (PROBLEMS_TOLD + 1, [])
    assert outcome.problems[0] == "x-0: Unable to find a topic named x."
    assert outcome.problems[-1] == f"and {1000 - PROBLEMS_TOLD} more"


# Elections


def test_preferred_leaders_are_elected_and_the_request_is_removed():
    led_by_2 = Partition(0, (1, 2), (1, 2), 2)
    behind = Partition(1, (3, 2), (2,), 2)
    bench = Bench(cluster(led_by_2, behind, partition(2)))
    keys = [PartitionKey("t", index) for index in range(4)]
    bench.tree.put(paths.PREFERRED_REPLICA_ELECTION, encode_partitions(keys))
    (outcome,) = bench.carry_out()
    assert [one.leader for one in bench.image.topics["t"].partitions] == [1, 2, 1]
    assert outcome.problems == (
        "t-1: The preferred leader was not available.",
        "t-3: No such partition as t-3",
    )
    assert outcome.left is None
    assert bench.rest() == ()
    assert paths.PREFERRED_REPLICA_ELECTION not in bench.tree.nodes


def test_an_election_that_was_carried_out_removes_nothing_more():
    wanted = PreferredElectionWanted((PartitionKey("t", 0),))
    assert decided(cluster(partition()), wanted) == (DONE, [])
