"""Messages by which a client finds its way: versions, brokers, topics, coordinators, the quorum."""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    struct_field,
    uint16,
    uuid,
)


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest:
    """Ask which APIs and versions a broker speaks: the first request on a connection.

    Version 3 names the client software (KIP-511), 5 the broker it believes to talk to
    (KIP-1242).
    """

    client_software_name: str = string("3+")
    client_software_version: str = string("3+")
    cluster_id: str | None = string("5+", nullable="5+", default=None)
    node_id: int = int32("5+", default=-1)


@struct
class ApiVersion:
    """The versions of one API, both ends included."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct
class SupportedFeatureKey:
    """The levels of one feature the broker can run at."""

    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@struct
class FinalizedFeatureKey:
    """The level of one feature the cluster runs at."""

    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse:
    """The ranges of all APIs, and from version 3 the features (KIP-584).

    Sent with response header 0 in every version, so that a client that guessed too high can
    read it. Before version 4, clients refuse a supported feature whose minimum is 0: leave such
    ones out.
    """

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0)
    finalized_features_epoch: int = int64("3+", tag=1, default=-1)  # -1: not known
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2)
    zk_migration_ready: bool = boolean("3+", tag=3)


@struct
class MetadataRequestTopic:
    """One topic, by name or from version 12 by id."""

    topic_id: bytes = uuid("10+")
    name: str | None = string(nullable="10+")


@message(key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    """Ask for brokers, the controller and topics; null topics (1+) means all of them.

    In version 0 an empty list means all. Version 4 lets the client forbid creation by asking, 8
    asks for authorised operations (KIP-430), those on the cluster only until 10 (KIP-700). 10
    adds topic ids (KIP-516), but only 12 looks topics up by them.
    """

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@struct
class MetadataResponseBroker:
    """One live broker, at its address on the listener that was asked."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None)


@struct
class MetadataResponsePartition:
    """One partition; its error is about the leader, the rest may still be right."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()  # -1 while there is none
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "5+")


@struct
class MetadataResponseTopic:
    """One topic with its partitions."""

    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    # one bit for each operation; the default says that nobody asked
    topic_authorized_operations: int = int32("8+", default=-(2**31))


@message(key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    """The cluster as this broker knows it.

    Version 1 adds racks and the controller, 2 the cluster id (KIP-78), 5 offline replicas
    (KIP-112), 7 leader epochs (KIP-320), 10 topic ids, 13 an error for the whole answer
    (KIP-1102).
    """

    throttle_time_ms: int = int32("3+")
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    # one bit for each operation; the default says that nobody asked
    cluster_authorized_operations: int = int32("8-10", default=-(2**31))
    error_code: int = int16("13+")


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """Ask which broker coordinates a group (0), transactional id (1) or share partition (2).

    Version 4 asks for many keys at once (KIP-699), 6 allows share partitions (KIP-932).
    """

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")


@struct
class Coordinator:
    """The coordinator of one key."""

    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """The coordinators; before version 4 the only one, at the top."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """Ask for the members of the cluster (KIP-700).

    Version 1 can ask for controllers instead (KIP-919), 2 includes fenced brokers (KIP-1073).
    """

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)  # 1 brokers, 2 controllers
    include_fenced_brokers: bool = boolean("2+")


@struct
class DescribeClusterBroker:
    """One member of the cluster."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """The members of the cluster, brokers or controllers, as asked."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    # one bit for each operation; the default says that nobody asked
    cluster_authorized_operations: int = int32(default=-(2**31))


@struct
class DescribeTopicPartitionsTopic:
    """One topic asked for."""

    name: str = string()


@struct
class TopicPartitionsCursor:
    """The first partition of a page."""

    topic_name: str = string()
    partition_index: int = int32()


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """Ask for topics page by page, with eligible leader replicas (KIP-966)."""

    topics: list[DescribeTopicPartitionsTopic] = array(DescribeTopicPartitionsTopic)
    response_partition_limit: int = int32(default=2000)
    cursor: TopicPartitionsCursor | None = struct_field(
        TopicPartitionsCursor, nullable="0+", default=None
    )


@struct
class DescribeTopicPartitionsResponsePartition:
    """One partition."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    eligible_leader_replicas: list[int] | None = array(int32, nullable="0+", default=None)
    last_known_elr: list[int] | None = array(int32, nullable="0+", default=None)
    offline_replicas: list[int] = array(int32)


@struct
class DescribeTopicPartitionsResponseTopic:
    """One topic with those of its partitions that fit the page."""

    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    # one bit for each operation; the default says that nobody asked
    topic_authorized_operations: int = int32(default=-(2**31))


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """One page of topics in name order, and where the next one starts."""

    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: TopicPartitionsCursor | None = struct_field(
        TopicPartitionsCursor, nullable="0+", default=None
    )


@struct
class DescribeQuorumPartition:
    """The partition asked for."""

    partition_index: int = int32()


@struct
class DescribeQuorumTopic:
    """The topic asked for."""

    topic_name: str = string()
    partitions: list[DescribeQuorumPartition] = array(DescribeQuorumPartition)


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    """Ask for the state of the metadata quorum (KIP-595)."""

    topics: list[DescribeQuorumTopic] = array(DescribeQuorumTopic)


@struct
class QuorumReplicaState:
    """How far one replica has come, as its leader saw it last."""

    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


@struct
class DescribeQuorumPartitionResponse:
    """The leader and the replicas of the metadata partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+")
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[QuorumReplicaState] = array(QuorumReplicaState)
    observers: list[QuorumReplicaState] = array(QuorumReplicaState)


@struct
class DescribeQuorumTopicResponse:
    """The metadata topic."""

    topic_name: str = string()
    partitions: list[DescribeQuorumPartitionResponse] = array(DescribeQuorumPartitionResponse)


@struct
class QuorumListener:
    """One address of a voter."""

    name: str = string()
    host: str = string()
    port: int = uint16()


@struct
class QuorumNode:
    """The addresses of one voter."""

    node_id: int = int32()
    listeners: list[QuorumListener] = array(QuorumListener)


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    """How far each voter and observer of the metadata log has come.

    Version 1 adds fetch times (KIP-836), 2 directory ids, endpoints and messages (KIP-853).
    """

    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+")
    topics: list[DescribeQuorumTopicResponse] = array(DescribeQuorumTopicResponse)
    nodes: list[QuorumNode] = array(QuorumNode, "2+")
