"""Two images become the commands that lead a broker from one to the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import directory_id, topic_id
from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    BrokerRegistered,
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
from moldau.cluster.model import (
    Broker,
    ConfigResource,
    Endpoint,
    FeatureRange,
    Partition,
    ResourceType,
)
from moldau.cluster.zookeeper.commands.outgoing import (
    Sender,
    leader_and_isr,
    stop_replica,
    update_metadata,
)
from moldau.cluster.zookeeper.commands.pieces import (
    PIECE_WEIGHT,
    PIECE_WEIGHT_MAX,
    request_weight,
)
from moldau.cluster.zookeeper.commands.touched import Touched
from moldau.protocol.messages.replication import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataBrokerFeature,
    UpdateMetadataConfigEntry,
    UpdateMetadataConfigResource,
    UpdateMetadataEndpoint,
    UpdateMetadataFeature,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

SENDER = Sender(BrokerId(9), 4)
ID, OTHER, AGAIN = topic_id(1), topic_id(2), topic_id(3)
TOPIC = ConfigResource(ResourceType.TOPIC, "t")
BROKER = Broker(
    BrokerId(1),
    70,
    (70).to_bytes(16),
    (Endpoint("A", "host", 9092, 3),),
    "r",
    (FeatureRange("f", 1, 3),),
    fenced=False,
    in_controlled_shutdown=True,
    log_directories=(directory_id(1),),
)
PARTITION = Partition(
    0, (1, 2, 3), (1, 2), 1, 5, 9, (3,), (2,), (3,), (2,), True, (directory_id(1),) * 3
)
CHANGES = [
    FeatureLevelSet("f", 2),
    BrokerRegistered(BROKER),
    TopicCreated("t", ID),
    PartitionCreated(ID, PARTITION),
    PartitionCreated(ID, Partition(1, (2,), (2,), 2)),
    TopicCreated("u", OTHER),
    PartitionCreated(OTHER, Partition(0, (1,), (1,), 1, 6, 7)),
    ConfigChanged(TOPIC, "k", "ü"),
    ProducerIdsAllocated(BrokerId(1), 70, 3000),
    OpaqueRecorded(18, 0, b"?"),
]
IMAGE = MetadataImage().apply(CHANGES, 100)
STATED = UpdateMetadataPartitionState(
    partition_index=0,
    controller_epoch=4,
    leader=1,
    leader_epoch=5,
    isr=[1, 2],
    zk_version=9,
    replicas=[1, 2, 3],
    adding_replicas=[3],
    removing_replicas=[2],
    eligible_leaders=[3],
    last_known_leaders=[2],
    recovering=True,
)


def after(changes, image=IMAGE):
    """The image after these changes, and what they touch."""
    touched = Touched()
    touched.take(changes)
    return image.apply(changes, image.version + 1), touched


def pieces(requests):
    return [request for request in requests if request is not None]


def update(changes, old=IMAGE):
    new, touched = after(changes, old)
    (request,) = pieces(update_metadata(SENDER, 70, old, new, touched))
    return request


def incremental(**stated):
    return UpdateMetadataRequest(
        controller_id=9,
        controller_epoch=4,
        broker_epoch=70,
        type=1,
        base_version=100,
        version=101,
        is_last=True,
        **stated,
    )


def test_a_full_update_states_everything():
    (request,) = pieces(update_metadata(SENDER, 70, None, IMAGE, Touched()))
    assert request == UpdateMetadataRequest(
        controller_id=9,
        controller_epoch=4,
        broker_epoch=70,
        type=2,
        base_version=-1,
        version=100,
        is_last=True,
        features=[UpdateMetadataFeature("f", 2)],
        live_brokers=[
            UpdateMetadataBroker(
                id=1,
                endpoints=[UpdateMetadataEndpoint(9092, "host", "A", 3)],
                rack="r",
                epoch=70,
                in_controlled_shutdown=True,
                features=[UpdateMetadataBrokerFeature("f", 1, 3)],
            )
        ],
        topic_states=[
            UpdateMetadataTopicState(
                "t",
                ID,
                [
                    STATED,
                    UpdateMetadataPartitionState(
                        partition_index=1, controller_epoch=4, leader=2, isr=[2], replicas=[2]
                    ),
                ],
            ),
            UpdateMetadataTopicState(
                "u",
                OTHER,
                [
                    UpdateMetadataPartitionState(
                        partition_index=0,
                        controller_epoch=4,
                        leader=1,
                        leader_epoch=6,
                        isr=[1],
                        zk_version=7,
                        replicas=[1],
                    )
                ],
            ),
        ],
        configs=[
            UpdateMetadataConfigResource(2, "t", [UpdateMetadataConfigEntry("k", "ü".encode())])
        ],
        next_producer_id=3000,
    )


def test_only_what_changed_is_stated():
    request = update([PartitionChanged(ID, 0, recovering=False)])
    (topic,) = request.topic_states
    (state,) = topic.partition_states
    assert (topic.topic_name, topic.topic_id) == ("t", ID)
    assert (state.partition_index, state.zk_version, state.recovering) == (0, 10, False)
    assert request == incremental(topic_states=[topic])


def test_what_is_gone_is_named():
    request = update(
        [
            FeatureLevelSet("f", 0),
            BrokerUnregistered(BrokerId(1), 70),
            TopicRemoved(OTHER),
            ConfigChanged(TOPIC, "k", None),
        ]
    )
    assert request == incremental(
        features=[UpdateMetadataFeature("f", 0)],
        removed_brokers=[1],
        removed_topics=[OTHER],
        configs=[UpdateMetadataConfigResource(2, "t", [UpdateMetadataConfigEntry("k", None)])],
    )


def test_a_topic_made_again_is_removed_and_stated():
    request = update(
        [
            TopicRemoved(ID),
            TopicCreated("t", AGAIN),
            PartitionCreated(AGAIN, Partition(0, (1,), (1,), 1)),
            ConfigChanged(TOPIC, "k", "ü"),
        ]
    )
    assert request.removed_topics == [ID]
    (topic,) = request.topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", AGAIN)
    assert [state.partition_index for state in topic.partition_states] == [0]
    # The value is that of before, but it went with the topic.
    (entry,) = request.configs[0].entries
    assert entry == UpdateMetadataConfigEntry("k", "ü".encode())


def test_a_topic_that_came_and_went_is_not_named():
    made = [TopicCreated("v", AGAIN), PartitionCreated(AGAIN, Partition(0, (1,), (1,), 1))]
    assert update([*made, TopicRemoved(AGAIN)]) == incremental()


@pytest.mark.parametrize("name", ["", "t"])
def test_eligible_leaders_are_cleared_in_all_partitions(name):
    request = update([EligibleLeadersCleared(name)])
    (topic,) = request.topic_states
    (state,) = topic.partition_states
    assert (topic.topic_name, state.partition_index) == ("t", 0)
    assert state.eligible_leaders == state.last_known_leaders == []


def test_the_same_image_again_states_nothing():
    touched = Touched()
    touched.take(CHANGES)
    (request,) = pieces(update_metadata(SENDER, 70, IMAGE, replace(IMAGE, version=101), touched))
    # That a value did not change is no proof that its topic is the same.
    assert request == incremental(
        configs=[
            UpdateMetadataConfigResource(2, "t", [UpdateMetadataConfigEntry("k", "ü".encode())])
        ]
    )


def many(topics, partitions):
    for number in range(topics):
        made = topic_id(number + 10)
        yield TopicCreated(f"topic-{number}", made)
        for index in range(partitions):
            yield PartitionCreated(made, Partition(index, (1, 2, 3), (1, 2, 3), 1))
        resource = ConfigResource(ResourceType.TOPIC, f"topic-{number}")
        yield ConfigChanged(resource, "k", "v" * 100)


@pytest.mark.parametrize(("topics", "partitions"), [(1, 3 * PIECE_WEIGHT), (PIECE_WEIGHT, 2)])
def test_a_large_update_comes_in_numbered_pieces(topics, partitions):
    new, touched = after(list(many(topics, partitions)), MetadataImage())
    requests = pieces(update_metadata(SENDER, 70, None, new, touched))
    assert len(requests) > 2
    assert [request.piece for request in requests] == list(range(len(requests)))
    assert [request.is_last for request in requests[:-1]] == [False] * (len(requests) - 1)
    assert requests[-1].is_last
    assert {(request.base_version, request.version) for request in requests} == {(-1, 1)}
    assert all(request_weight(request) <= 2 * PIECE_WEIGHT for request in requests)
    stated = [
        (topic.topic_name, state.partition_index)
        for request in requests
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    assert len(set(stated)) == len(stated) == topics * partitions


def test_a_walk_over_many_topics_can_be_paused():
    new, _ = after(list(many(2 * PIECE_WEIGHT, 1)), MetadataImage())
    requests = update_metadata(SENDER, 70, new, replace(new, version=2), Touched(all=True))
    assert None in list(requests)


def test_long_values_fill_a_piece_sooner():
    names = [f"k{number:02}" for number in range(40)]
    changes = [ConfigChanged(TOPIC, name, "v" * 500_000) for name in names]
    new, touched = after(changes)
    requests = pieces(update_metadata(SENDER, 70, IMAGE, new, touched))
    assert len(requests) > 4
    assert all(request_weight(request) <= PIECE_WEIGHT_MAX for request in requests)
    entries = [entry.key for request in requests for entry in request.configs[0].entries]
    assert entries == names


def test_names_that_the_wire_cannot_carry_are_left_out():
    request = update([ConfigChanged(TOPIC, "k" * 10_000, "v"), ConfigChanged(TOPIC, "l", "v")])
    (resource,) = request.configs
    assert [entry.key for entry in resource.entries] == ["l"]


def test_roles_go_to_the_replicas():
    changes = [
        PartitionChanged(ID, 0, isr=(1, 2, 3)),
        PartitionChanged(ID, 1, isr=(2,)),
        TopicCreated("v", AGAIN),
        PartitionCreated(AGAIN, Partition(0, (1,), (1,), 1)),
    ]
    new, touched = after(changes)
    (request,) = pieces(leader_and_isr(SENDER, BrokerId(1), 70, IMAGE, new, touched))
    assert request == LeaderAndIsrRequest(
        controller_id=9,
        controller_epoch=4,
        broker_epoch=70,
        type=1,
        topic_states=[
            LeaderAndIsrTopicState(
                "t",
                ID,
                [
                    LeaderAndIsrPartitionState(
                        partition_index=0,
                        controller_epoch=4,
                        leader=1,
                        leader_epoch=5,
                        isr=[1, 2, 3],
                        partition_epoch=10,
                        replicas=[1, 2, 3],
                        adding_replicas=[3],
                        removing_replicas=[2],
                        leader_recovery_state=1,
                    )
                ],
            ),
            LeaderAndIsrTopicState(
                "v",
                AGAIN,
                [
                    LeaderAndIsrPartitionState(
                        partition_index=0,
                        controller_epoch=4,
                        leader=1,
                        isr=[1],
                        replicas=[1],
                        is_new=True,
                    )
                ],
            ),
        ],
    )
    assert not pieces(leader_and_isr(SENDER, BrokerId(5), 70, IMAGE, new, touched))


def test_all_roles_are_told_to_a_broker_that_nothing_is_known_of():
    (request,) = pieces(leader_and_isr(SENDER, BrokerId(2), 70, None, IMAGE, Touched()))
    assert request.type == 2
    (topic,) = request.topic_states
    assert [state.partition_index for state in topic.partition_states] == [0, 1]
    assert not any(state.is_new for state in topic.partition_states)


def test_replicas_that_moved_away_or_were_deleted_are_stopped():
    changes = [
        PartitionChanged(ID, 0, replicas=(2, 3), isr=(2,), leader=BrokerId(2)),
        TopicRemoved(OTHER),
    ]
    new, touched = after(changes)
    (request,) = pieces(stop_replica(SENDER, BrokerId(1), 70, IMAGE, new, touched))
    assert request == StopReplicaRequest(
        controller_id=9,
        controller_epoch=4,
        broker_epoch=70,
        topic_states=[
            StopReplicaTopicState("u", [StopReplicaPartitionState(0, -2, delete_partition=True)]),
            StopReplicaTopicState("t", [StopReplicaPartitionState(0, 6, delete_partition=True)]),
        ],
    )
    assert not pieces(stop_replica(SENDER, BrokerId(3), 70, IMAGE, new, touched))
    assert not pieces(stop_replica(SENDER, BrokerId(1), 70, None, new, touched))


def test_a_replica_of_a_topic_made_again_is_not_stopped():
    changes = [
        TopicRemoved(ID),
        TopicCreated("t", AGAIN),
        PartitionCreated(AGAIN, Partition(0, (2,), (2,), 2)),
    ]
    new, touched = after(changes)
    (request,) = pieces(stop_replica(SENDER, BrokerId(2), 70, IMAGE, new, touched))
    (topic,) = request.topic_states
    assert [(state.partition_index, state.leader_epoch) for state in topic.partition_states] == [
        (1, -2)
    ]


@pytest.mark.parametrize("command", [leader_and_isr, stop_replica])
def test_commands_for_many_replicas_come_in_pieces(command):
    full, _ = after(list(many(2, PIECE_WEIGHT)), MetadataImage())
    old, new = (MetadataImage(), full) if command is leader_and_isr else (full, MetadataImage())
    requests = pieces(command(SENDER, BrokerId(1), 70, old, new, Touched(all=True)))
    counts = [
        sum(len(topic.partition_states) for topic in request.topic_states) for request in requests
    ]
    assert counts == [PIECE_WEIGHT, PIECE_WEIGHT]
