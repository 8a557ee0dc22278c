"""Changes become writes that leave a readable tree behind, wherever they are cut."""

from __future__ import annotations

import pytest

from kits.metadata_samples import every_change, lone_partition, topic_id
from kits.zookeeper_nodes import decode_topic
from kits.zookeeper_tree import DictTree, tree_of
from moldau.base.errors import InvariantViolated
from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerUnregistered,
    ConfigChanged,
    EligibleLeadersCleared,
    FeatureLevelSet,
    OpaqueRecorded,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import ConfigResource, Partition, ResourceType
from moldau.cluster.zookeeper.client.port import CreateNode, DeleteNode, NodeKind, SetData
from moldau.cluster.zookeeper.nodes.commit_writes import (
    commit_writes,
    leftover_removal,
    without_directories,
)
from moldau.cluster.zookeeper.nodes.tool_requests import DeletionWanted, PartitionsWanted
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment

EMPTY = MetadataImage()
ID = topic_id(1)
TOPIC = ConfigResource(ResourceType.TOPIC, "t")


def partition(index, *replicas, **parts):
    return Partition(index, replicas, replicas, replicas[0], **parts)


def created(*partitions, name="t", of=ID):
    return [TopicCreated(name, of), *(PartitionCreated(of, one) for one in partitions)]


def writes(before, changes, versions=(), epoch=12, wanted=None):
    after = before.apply(changes, before.version + 1)
    return list(commit_writes(before, changes, after, epoch, dict(versions), wanted))


def committed(tree, before, changes, wanted=None):
    after = before.apply(changes, before.version + 1)
    tree.apply(commit_writes(before, changes, after, 12, tree.versions(before), wanted))
    return after


def test_a_new_topic_has_the_bytes_of_kafkas():
    changes = created(
        partition(0, 0, 1), partition(1, 1, 2), partition(2, 2, 0), name="secondTopic"
    )
    made = writes(EMPTY, changes)
    assert [one.path for one in made] == [
        "/config/topics/secondTopic",
        "/brokers/topics/secondTopic",
        "/brokers/topics/secondTopic/partitions",
        "/brokers/topics/secondTopic/partitions/0",
        "/brokers/topics/secondTopic/partitions/0/state",
        "/brokers/topics/secondTopic/partitions/1",
        "/brokers/topics/secondTopic/partitions/1/state",
        "/brokers/topics/secondTopic/partitions/2",
        "/brokers/topics/secondTopic/partitions/2/state",
    ]
    assert all(isinstance(one, CreateNode) and one.kind is NodeKind.PERSISTENT for one in made)
    data = {one.path.rpartition("/secondTopic")[2]: one.data for one in made}
    assert made[0].data == b'{"version":1,"config":{}}'
    assert made[1].data == (
        b'{"partitions":{"0":[0,1],"1":[1,2],"2":[2,0]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ",'
        b'"adding_replicas":{},"removing_replicas":{},"version":3}'
    )
    assert data["/partitions"] == b'{"version":1,"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}'
    assert data["/partitions/0"] == b""
    assert data["/partitions/0/state"] == (
        b'{"controller_epoch":12,"leader":0,"version":1,"leader_epoch":0,"isr":[0,1]}'
    )
    assert data["/partitions/1/state"] == (
        b'{"controller_epoch":12,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    )


def test_configs_come_before_the_topic_and_without_a_notification():
    made = writes(EMPTY, [*created(partition(0, 1)), ConfigChanged(TOPIC, "a", "b")])
    assert made[0] == CreateNode("/config/topics/t", b'{"version":1,"config":{"a":"b"}}')
    assert made[1].path == "/brokers/topics/t"
    assert not any(one.path.startswith("/config/changes") for one in made)


def test_a_topic_that_a_tool_has_begun_is_finished():
    versions = {"/brokers/topics/t": 3, "/config/topics/t": 0, "/brokers/topics/t/partitions": 0}
    made = writes(EMPTY, created(partition(0, 1)), versions)
    assert [(type(one), one.path) for one in made] == [
        (SetData, "/config/topics/t"),
        (SetData, "/brokers/topics/t"),
        (SetData, "/brokers/topics/t/partitions"),
        (CreateNode, "/brokers/topics/t/partitions/0"),
        (CreateNode, "/brokers/topics/t/partitions/0/state"),
    ]
    assert made[1].version == 3


def test_configs_that_were_left_behind_are_replaced():
    made = writes(EMPTY, created(partition(0, 1)), {"/config/topics/t": 2})
    assert made[0] == SetData("/config/topics/t", b'{"version":1,"config":{}}', 2)


BEFORE = EMPTY.apply(created(partition(0, 1, 2), partition(1, 2, 1)), 1)


def test_each_change_of_a_state_is_a_set_at_its_epoch():
    changes = [
        PartitionChanged(ID, 0, isr=(1,)),
        PartitionChanged(ID, 0, leader=BrokerId(1), recovering=True),
        PartitionChanged(ID, 1, eligible_leaders=(1,)),
        EligibleLeadersCleared(),
    ]
    made = writes(BEFORE, changes)
    assert [(one.path[-7:], one.version) for one in made] == [
        ("0/state", 0),
        ("0/state", 1),
        ("1/state", 0),
        ("1/state", 1),
    ]
    assert (
        made[0].data
        == made[1].data
        == (
            b'{"controller_epoch":12,"leader":1,"version":1,"leader_recovery_state":1,'
            b'"leader_epoch":1,"isr":[1]}'
        )
    )


def test_a_reassignment_sets_replicas_before_states_and_takes_them_after():
    tree = tree_of(BEFORE)
    topic, state = "/brokers/topics/t", "/brokers/topics/t/partitions/0/state"
    begin = PartitionChanged(
        ID, 0, replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(1, 2)
    )
    versions = tree.versions(BEFORE)
    made = writes(BEFORE, [begin], versions)
    assert [one.path for one in made] == [topic, state]
    tree.apply(made)
    moving = BEFORE.apply([begin], 2)
    end = PartitionChanged(
        ID,
        0,
        isr=(3,),
        leader=BrokerId(3),
        replicas=(3,),
        adding_replicas=(),
        removing_replicas=(),
    )
    made = writes(moving, [end], tree.versions(moving))
    assert [one.path for one in made] == [state, topic]
    tree.apply(made)
    assert tree.read(3).image == moving.apply([end], 3)


def test_one_commit_may_begin_and_end_reassignments():
    image = BEFORE.apply([PartitionChanged(ID, 1, adding_replicas=(1,))], 2)
    tree = tree_of(image)
    changes = [
        PartitionChanged(ID, 0, replicas=(3, 1, 2), adding_replicas=(3,)),
        PartitionChanged(ID, 1, replicas=(2,), isr=(2,), adding_replicas=()),
    ]
    made = writes(image, changes, tree.versions(image))
    first, *states, last = made
    assert [one.path[-7:] for one in states] == ["0/state", "1/state"]
    assert decode_topic("/t", first.data).assignments == (
        Assignment((3, 1, 2), (3,)),
        Assignment((2, 1), (1,)),
    )
    assert decode_topic("/t", last.data).assignments == (
        Assignment((3, 1, 2), (3,)),
        Assignment((2,)),
    )
    assert last.version == first.version + 1


def test_a_target_that_replaces_another_has_all_replicas_in_between():
    image = BEFORE.apply([PartitionChanged(ID, 0, replicas=(3, 1), isr=(1,))], 2)
    tree = tree_of(image)
    made = writes(
        image, [PartitionChanged(ID, 0, replicas=(4, 1), adding_replicas=(4,))],
        tree.versions(image),
    )  # fmt: skip
    assert decode_topic("/t", made[0].data).assignments[0] == Assignment((4, 1, 3), (4,), (3,))
    assert decode_topic("/t", made[-1].data).assignments[0] == Assignment((4, 1), (4,))


def test_a_topic_is_marked_while_it_is_deleted():
    tree = tree_of(BEFORE)
    tree.put("/config/topics/t", b"")
    made = writes(BEFORE, [TopicRemoved(ID)], tree.versions(BEFORE))
    assert [(type(one), one.path) for one in made] == [
        (CreateNode, "/admin/delete_topics/t"),
        (DeleteNode, "/brokers/topics/t/partitions/1/state"),
        (DeleteNode, "/brokers/topics/t/partitions/1"),
        (DeleteNode, "/brokers/topics/t/partitions/0/state"),
        (DeleteNode, "/brokers/topics/t/partitions/0"),
        (DeleteNode, "/brokers/topics/t/partitions"),
        (DeleteNode, "/brokers/topics/t"),
        (DeleteNode, "/config/topics/t"),
        (DeleteNode, "/admin/delete_topics/t"),
    ]


@pytest.mark.parametrize("done", range(9))
def test_a_deletion_that_was_cut_can_be_finished(done):
    tree = tree_of(BEFORE)
    tree.put("/config/topics/t", b"")
    marked = done > 0
    tree.apply(writes(BEFORE, [TopicRemoved(ID)], tree.versions(BEFORE))[:done])
    reading = tree.read()
    assert not reading.refused
    assert reading.requests == ((DeletionWanted("t"),) if marked else ())
    assert ("t" in reading.image.topics) == (done < 2)
    if reading.image.topics:
        committed(tree, reading.image, [TopicRemoved(ID)])
    else:
        tree.apply(leftover_removal("t", tree.nodes))
    assert tree.nodes.keys() == DictTree().nodes.keys()


def test_a_topic_may_be_deleted_and_created_in_one_commit():
    tree = tree_of(BEFORE)
    tree.put("/config/topics/t", b'{"version":1,"config":{"a":"b"}}')
    other = topic_id(2)
    changes = [
        TopicRemoved(ID),
        *created(partition(0, 3), of=other),
        ConfigChanged(TOPIC, "c", "d"),
    ]
    before = tree.read().image
    after = committed(tree, before, changes)
    assert tree.read(after.version).image == after


def test_a_change_of_configs_notifies():
    tree = tree_of(BEFORE)
    broker = ConfigResource(ResourceType.BROKER, "")
    changes = [
        ConfigChanged(TOPIC, "a", "b"),
        ConfigChanged(TOPIC, "c", None),
        ConfigChanged(broker, "min.insync.replicas", "2"),
    ]
    made = writes(BEFORE, changes, {**tree.versions(BEFORE), "/config/brokers/<default>": 5})
    assert made == [
        CreateNode("/config/topics/t", b'{"version":1,"config":{"a":"b"}}'),
        CreateNode(
            "/config/changes/config_change_",
            b'{"version":2,"entity_path":"topics/t"}',
            kind=NodeKind.SEQUENTIAL,
        ),
        SetData(
            "/config/brokers/<default>", b'{"version":1,"config":{"min.insync.replicas":"2"}}', 5
        ),
        CreateNode(
            "/config/changes/config_change_",
            b'{"version":2,"entity_path":"brokers/<default>"}',
            kind=NodeKind.SEQUENTIAL,
        ),
    ]


def test_configs_that_kafkas_tree_does_not_know_have_parents():
    tree = DictTree()
    changes = [
        ConfigChanged(ConfigResource(ResourceType.GROUP, "a/b"), "x", "1"),
        ConfigChanged(ConfigResource(ResourceType.CLIENT_METRICS, "m"), "y", "2"),
    ]
    after = committed(tree, EMPTY, changes)
    assert tree.nodes["/config/groups/a%2Fb"].data == b'{"version":1,"config":{"x":"1"}}'
    assert tree.read(after.version).image == after


def test_partitions_that_a_tool_has_added_stay():
    tree = tree_of(BEFORE)
    added = (Assignment((3,)), Assignment((4,)))
    wanted = {"t": PartitionsWanted("t", ID, 2, added)}
    move = PartitionChanged(ID, 0, replicas=(1, 2, 3), adding_replicas=(3,))
    after = committed(tree, BEFORE, [move], wanted)
    assert tree.read().requests == (PartitionsWanted("t", ID, 2, added),)
    # They are created as the tool wanted them: the node has them already.
    changes = [PartitionCreated(ID, partition(2, 3))]
    version = tree.nodes["/brokers/topics/t"].version
    after = committed(tree, after, changes, wanted)
    assert tree.nodes["/brokers/topics/t"].version == version
    assert tree.read(after.version).image == after
    assert tree.read().requests == (PartitionsWanted("t", ID, 3, added[1:]),)


def test_producer_ids_and_features():
    image = EMPTY.apply([ProducerIdsAllocated(BrokerId(1), 1, 1000), FeatureLevelSet("a", 1)], 1)
    changes = [
        FeatureLevelSet("b", 2),
        FeatureLevelSet("a", 0),
        ProducerIdsAllocated(BrokerId(2), 1, 2000),
        ProducerIdsAllocated(BrokerId(3), 1, 3000),
    ]
    assert writes(image, changes, {"/latest_producer_id_block": 4}) == [
        CreateNode(
            "/feature", b'{"features":{"b":{"max_version_level":2}},"version":2,"status":1}'
        ),
        SetData(
            "/latest_producer_id_block",
            b'{"version":1,"broker":3,"block_start":"2000","block_end":"2999"}',
            4,
        ),
    ]


def test_a_large_commit_can_pause():
    changes = created(*(partition(index, 1) for index in range(250)))
    made = writes(EMPTY, changes)
    assert made[:2] == [None, None]
    assert len([one for one in made if one is not None]) == 3 + 2 * 250


def test_brokers_write_their_own_nodes():
    image = EMPTY.apply(every_change()[3:4], 1)
    changes = [BrokerChanged(BrokerId(7), 70, fenced=False), BrokerUnregistered(BrokerId(7), 70)]
    assert writes(image, changes) == []


def test_what_the_tree_cannot_keep_is_not_lost_silently():
    with pytest.raises(InvariantViolated, match="the tree has no node for OpaqueRecorded"):
        writes(EMPTY, [OpaqueRecorded(18, 0, b"an access rule")])
    with pytest.raises(InvariantViolated, match="configs of type 8 are not stored"):
        writes(EMPTY, [ConfigChanged(ConfigResource(ResourceType.BROKER_LOGGER, "1"), "a", "b")])
    with pytest.raises(InvariantViolated, match="has epoch 3, but its node will have version 0"):
        writes(EMPTY, created(partition(0, 1, partition_epoch=3)))


def test_directories_are_taken_out_of_changes():
    stated = PartitionCreated(ID, lone_partition(0, 1))
    assert without_directories(stated).partition == partition(0, 1)
    changed = PartitionChanged(ID, 0, isr=(1,), directories=(bytes(16),))
    assert without_directories(changed) == PartitionChanged(ID, 0, isr=(1,))
    assert without_directories(TopicRemoved(ID)) == TopicRemoved(ID)
