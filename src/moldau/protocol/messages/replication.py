"""Messages between brokers and the controller about partitions: who leads, who is in sync.

The first four are those of a controller that pushes changes to brokers, as Kafka's did up to 3.9;
Kafka 4 dropped them together with ZooKeeper.

UpdateMetadata has tagged fields of our own: what Kafka's brokers read from ZooKeeper themselves, or
do not have. Kafka skips tags that it does not know, and a request without them has Kafka's bytes.
"""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    boolean,
    bytes_,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


@struct
class LeaderAndIsrPartitionState:
    """What the controller decided about one partition."""

    topic_name: str = string("0-1")
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    partition_epoch: int = int32()  # called zkVersion at first
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32, "3+")
    removing_replicas: list[int] = array(int32, "3+")
    is_new: bool = boolean("1+")
    leader_recovery_state: int = int8("6+")


@struct
class LeaderAndIsrTopicState:
    """The partitions of one topic."""

    topic_name: str = string()
    topic_id: bytes = uuid("5+")
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState)


@struct
class LeaderAndIsrLiveLeader:
    """Where to find one of the leaders."""

    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


@message(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrRequest:
    """From the controller to a broker: lead these partitions, follow those.

    Version 2 groups by topic and adds the broker epoch (KIP-380), 3 reassignments (KIP-455), 5
    topic ids (KIP-516), 6 the recovery state (KIP-704), 7 marks a KRaft controller (KIP-866).
    """

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("7+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("2+", default=-1)
    type: int = int8("5+")  # 0 unknown, 1 incremental, 2 full
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, "0-1"
    )
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


@struct
class LeaderAndIsrPartitionError:
    """What became of one partition."""

    topic_name: str = string("0-4")
    partition_index: int = int32()
    error_code: int = int16()


@struct
class LeaderAndIsrTopicError:
    """What became of one topic."""

    topic_id: bytes = uuid()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError)


@message(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrResponse:
    """What became of each partition; from version 5 by topic id."""

    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")


@struct
class StopReplicaPartitionV0:
    """One partition to stop, in version 0."""

    topic_name: str = string()
    partition_index: int = int32()


@struct
class StopReplicaTopicV1:
    """The partitions of one topic to stop, in versions 1 and 2."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


@struct
class StopReplicaPartitionState:
    """One partition to stop; leader epoch -2 says that its topic is deleted."""

    partition_index: int = int32()
    leader_epoch: int = int32(default=-1)
    delete_partition: bool = boolean()


@struct
class StopReplicaTopicState:
    """The partitions of one topic to stop."""

    topic_name: str = string()
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState)


@message(key=5, versions="0-4", flexible="2+")
class StopReplicaRequest:
    """From the controller to a broker: stop replicas, and delete them if told so.

    Version 3 says so for each partition, with the leader epoch (KIP-570).
    """

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("4+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("1+", default=-1)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


@struct
class StopReplicaPartitionError:
    """What became of one replica."""

    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


@message(key=5, versions="0-4", flexible="2+")
class StopReplicaResponse:
    """What became of each replica."""

    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)


# Our own tags begin at 100. Kafka numbers its tags from 0 on and has one here, so the two never
# meet.


@struct
class UpdateMetadataPartitionState:
    """One partition; leader -2 says that its topic is deleted."""

    topic_name: str = string("0-4")
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    zk_version: int = int32()
    replicas: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "4+")
    adding_replicas: list[int] = array(int32, "8+", tag=100)
    removing_replicas: list[int] = array(int32, "8+", tag=101)
    eligible_leaders: list[int] = array(int32, "8+", tag=102)
    last_known_leaders: list[int] = array(int32, "8+", tag=103)
    recovering: bool = boolean("8+", tag=104)


@struct
class UpdateMetadataTopicState:
    """The partitions of one topic."""

    topic_name: str = string()
    topic_id: bytes = uuid("7+")
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState)


@struct
class UpdateMetadataEndpoint:
    """One listener of a broker."""

    port: int = int32()
    host: str = string()
    listener: str = string("3+")
    security_protocol: int = int16()


@struct
class UpdateMetadataBrokerFeature:
    """The levels of one feature that a broker supports."""

    name: str = string()
    minimum: int = int16()
    maximum: int = int16()


@struct
class UpdateMetadataBroker:
    """One live broker."""

    id: int = int32()
    v0_host: str = string("0")
    v0_port: int = int32("0")
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+")
    rack: str | None = string("2+", nullable="2+")
    epoch: int = int64("8+", tag=100, default=-1)
    in_controlled_shutdown: bool = boolean("8+", tag=101)
    features: list[UpdateMetadataBrokerFeature] = array(UpdateMetadataBrokerFeature, "8+", tag=102)


@struct
class UpdateMetadataConfigEntry:
    """One config; null resets it to its default.

    The value is UTF-8. As a string it could not be longer than 32767 bytes, but tools have written
    longer ones to ZooKeeper.
    """

    key: str = string()
    value: bytes | None = bytes_(nullable="0+")


@struct
class UpdateMetadataConfigResource:
    """Configs of a topic, a broker or another resource."""

    resource_type: int = int8()
    resource_name: str = string()
    entries: list[UpdateMetadataConfigEntry] = array(UpdateMetadataConfigEntry)


@struct
class UpdateMetadataFeature:
    """The level of one feature in the cluster; 0 turns it off."""

    name: str = string()
    level: int = int16()


@message(key=6, versions="0-8", flexible="6+")
class UpdateMetadataRequest:
    """From the controller to a broker: the partitions and brokers clients are told about.

    Version 5 groups by topic and adds the broker epoch (KIP-380), 7 topic ids (KIP-516), 8
    marks a KRaft controller (KIP-866).

    One update leads from `base_version` of the metadata to `version`. A large one comes in several
    requests, which `piece` numbers. Where a value did not change, nothing is said about it.
    """

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("8+")
    type: int = int8("8+", tag=0)  # 0 unknown, 1 incremental, 2 full
    controller_epoch: int = int32()
    broker_epoch: int = int64("5+", default=-1)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4"
    )
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)
    base_version: int = int64("8+", tag=100, default=-1)  # -1: the whole metadata is stated
    version: int = int64("8+", tag=101, default=-1)
    piece: int = int32("8+", tag=102)
    is_last: bool = boolean("8+", tag=103)
    removed_topics: list[bytes] = array(uuid, "8+", tag=104)
    removed_brokers: list[int] = array(int32, "8+", tag=105)
    configs: list[UpdateMetadataConfigResource] = array(UpdateMetadataConfigResource, "8+", tag=106)
    features: list[UpdateMetadataFeature] = array(UpdateMetadataFeature, "8+", tag=107)
    next_producer_id: int = int64("8+", tag=108)  # 0: unchanged


@message(key=6, versions="0-8", flexible="6+")
class UpdateMetadataResponse:
    """Whether the broker took it."""

    error_code: int = int16()


@message(key=7, versions="0-3", flexible="3+")
class ControlledShutdownRequest:
    """From a broker to the controller: move my leaderships away, I am going down."""

    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1)


@struct
class RemainingPartition:
    """One partition still led."""

    topic_name: str = string()
    partition_index: int = int32()


@message(key=7, versions="0-3", flexible="3+")
class ControlledShutdownResponse:
    """Partitions that this broker still leads."""

    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)


@struct
class AlterPartitionIsrMember:
    """One in-sync replica, and its broker epoch as the leader saw it fetch."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@struct
class AlterPartitionState:
    """The in-sync replicas a leader wants for one partition."""

    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, "0-2")
    new_isr_with_epochs: list[AlterPartitionIsrMember] = array(AlterPartitionIsrMember, "3+")
    leader_recovery_state: int = int8()  # 1 while an unclean leader recovers
    partition_epoch: int = int32()


@struct
class AlterPartitionTopic:
    """The changes of one topic."""

    topic_id: bytes = uuid()
    partitions: list[AlterPartitionState] = array(AlterPartitionState)


@message(key=56, versions="2-3", flexible="0+")
class AlterPartitionRequest:
    """From a leader to the controller: change the in-sync replicas (KIP-497).

    Version 3 names the members with their epochs, so that a restarted one is not taken for its
    former self (KIP-903).
    """

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionTopic] = array(AlterPartitionTopic)


@struct
class AlterPartitionStateResponse:
    """The state of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()


@struct
class AlterPartitionTopicResponse:
    """The states of one topic."""

    topic_id: bytes = uuid()
    partitions: list[AlterPartitionStateResponse] = array(AlterPartitionStateResponse)


@message(key=56, versions="2-3", flexible="0+")
class AlterPartitionResponse:
    """The partition state that now holds, or why the change was refused."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[AlterPartitionTopicResponse] = array(AlterPartitionTopicResponse)
