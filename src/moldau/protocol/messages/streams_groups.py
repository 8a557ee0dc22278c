"""Messages of streams groups (KIP-1071): the broker assigns the tasks of a stream topology."""

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
)


@struct
class StreamsKeyValue:
    """One tag of a client, or one config of a topic."""

    key: str = string()
    value: str = string()


@struct
class StreamsTopicInfo:
    """One internal topic of a topology; the broker creates it."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[StreamsKeyValue] = array(StreamsKeyValue)


@struct
class StreamsCopartitionGroup:
    """Topics that need equal partition counts, as positions in the lists beside it."""

    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


@struct
class StreamsSubtopology:
    """One independent part of a topology, with its topics."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[StreamsTopicInfo] = array(StreamsTopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[StreamsTopicInfo] = array(StreamsTopicInfo)
    copartition_groups: list[StreamsCopartitionGroup] = array(StreamsCopartitionGroup)


@struct
class StreamsTopology:
    """A topology as the coordinator needs it: topics, not processors."""

    epoch: int = int32()
    subtopologies: list[StreamsSubtopology] = array(StreamsSubtopology)


@struct
class StreamsTaskIds:
    """Tasks of one subtopology, one a partition."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


@struct
class StreamsEndpoint:
    """Where a member answers interactive queries."""

    host: str = string()
    port: int = uint16()


@struct
class StreamsTaskOffset:
    """How far one task's changelog goes."""

    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


@message(key=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatRequest:
    """Join, stay in and leave a streams group; null means unchanged since the last heartbeat.

    Version 1 only asks for the answer's version 1.
    """

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: StreamsTopology | None = struct_field(StreamsTopology, nullable="0+", default=None)
    active_tasks: list[StreamsTaskIds] | None = array(StreamsTaskIds, nullable="0+", default=None)
    standby_tasks: list[StreamsTaskIds] | None = array(StreamsTaskIds, nullable="0+", default=None)
    warmup_tasks: list[StreamsTaskIds] | None = array(StreamsTaskIds, nullable="0+", default=None)
    process_id: str | None = string(nullable="0+", default=None)
    user_endpoint: StreamsEndpoint | None = struct_field(
        StreamsEndpoint, nullable="0+", default=None
    )
    client_tags: list[StreamsKeyValue] | None = array(StreamsKeyValue, nullable="0+", default=None)
    task_offsets: list[StreamsTaskOffset] | None = array(
        StreamsTaskOffset, nullable="0+", default=None
    )
    task_end_offsets: list[StreamsTaskOffset] | None = array(
        StreamsTaskOffset, nullable="0+", default=None
    )
    shutdown_application: bool = boolean()


@struct
class StreamsGroupStatus:
    """One thing the group wants its members to know."""

    status_code: int = int8()
    status_detail: str = string()


@struct
class StreamsTopicPartitions:
    """Partitions of one topic, by name."""

    topic: str = string()
    partitions: list[int] = array(int32)


@struct
class StreamsEndpointPartitions:
    """Which partitions can be queried at which member."""

    user_endpoint: StreamsEndpoint = struct_field(StreamsEndpoint)
    active_partitions: list[StreamsTopicPartitions] = array(StreamsTopicPartitions)
    standby_partitions: list[StreamsTopicPartitions] = array(StreamsTopicPartitions)


@message(key=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatResponse:
    """The member's epoch and, when they changed, the tasks it should run.

    Version 1 widens the acceptable lag, and may ask for the topology's description (KIP-1331).
    """

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag_legacy: int = int32("0")
    task_offset_interval_ms: int = int32()
    acceptable_recovery_lag: int = int64("1+", default=-1)
    status: list[StreamsGroupStatus] | None = array(StreamsGroupStatus, nullable="0+")
    active_tasks: list[StreamsTaskIds] | None = array(StreamsTaskIds, nullable="0+", default=None)
    standby_tasks: list[StreamsTaskIds] | None = array(StreamsTaskIds, nullable="0+", default=None)
    warmup_tasks: list[StreamsTaskIds] | None = array(StreamsTaskIds, nullable="0+", default=None)
    topology_description_required: bool = boolean("1+")
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[StreamsEndpointPartitions] | None = array(
        StreamsEndpointPartitions, nullable="0+", default=None
    )


@message(key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeRequest:
    """Ask for the state, members and topology of streams groups."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()
    include_topology_description: bool = boolean("1+")


@struct
class DescribedStreamsSubtopology:
    """One independent part of a topology."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    repartition_sink_topics: list[str] = array(string)
    state_changelog_topics: list[StreamsTopicInfo] = array(StreamsTopicInfo)
    repartition_source_topics: list[StreamsTopicInfo] = array(StreamsTopicInfo)


@struct
class DescribedStreamsTopology:
    """A group's topology."""

    epoch: int = int32()
    subtopologies: list[DescribedStreamsSubtopology] | None = array(
        DescribedStreamsSubtopology, nullable="0+", default=None
    )


@struct
class DescribedStreamsAssignment:
    """The tasks of a member."""

    active_tasks: list[StreamsTaskIds] = array(StreamsTaskIds)
    standby_tasks: list[StreamsTaskIds] = array(StreamsTaskIds)
    warmup_tasks: list[StreamsTaskIds] = array(StreamsTaskIds)


@struct
class DescribedStreamsMember:
    """One member: what it runs, and what it is meant to run."""

    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: StreamsEndpoint | None = struct_field(
        StreamsEndpoint, nullable="0+", default=None
    )
    client_tags: list[StreamsKeyValue] = array(StreamsKeyValue)
    task_offsets: list[StreamsTaskOffset] = array(StreamsTaskOffset)
    task_end_offsets: list[StreamsTaskOffset] = array(StreamsTaskOffset)
    assignment: DescribedStreamsAssignment = struct_field(DescribedStreamsAssignment)
    target_assignment: DescribedStreamsAssignment = struct_field(DescribedStreamsAssignment)
    is_classic: bool = boolean()


@struct
class TopologyDescriptionNode:
    """One node of the processing graph: 1 source, 2 processor, 3 sink."""

    name: str = string()
    node_type: int = int8()
    source_topics: list[str] = array(string)
    sink_topic: str | None = string(nullable="0+", default=None)
    stores: list[str] = array(string)
    successors: list[str] = array(string)


@struct
class TopologyDescriptionSubtopology:
    """The nodes of one subtopology."""

    subtopology_id: str = string()
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode)


@struct
class TopologyDescriptionGlobalStore:
    """One global store, with the nodes that fill it."""

    source: TopologyDescriptionNode = struct_field(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = struct_field(TopologyDescriptionNode)


@struct
class TopologyDescription:
    """A whole topology, as a person would draw it."""

    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology)
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore)


@struct
class DescribedStreamsGroup:
    """One group."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: DescribedStreamsTopology | None = struct_field(
        DescribedStreamsTopology, nullable="0+", default=None
    )
    members: list[DescribedStreamsMember] = array(DescribedStreamsMember)
    # one bit for each operation; the default says that nobody asked
    authorized_operations: int = int32(default=-(2**31))
    topology_description: TopologyDescription | None = struct_field(
        TopologyDescription, "1+", nullable="1+", default=None
    )
    topology_description_status: int = int8("1+")
    assignor_name: str | None = string("1+", nullable="1+", default=None)


@message(key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeResponse:
    """State, topology and members of each group.

    Version 1 adds the described topology (KIP-1331) and the assignor's name (KIP-1357).
    """

    throttle_time_ms: int = int32()
    groups: list[DescribedStreamsGroup] = array(DescribedStreamsGroup)


@message(key=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateRequest:
    """Hand in a topology for people to read, when a heartbeat's answer asked for it (KIP-1331)."""

    group_id: str = string()
    member_id: str = string()
    topology_epoch: int = int32()
    topology_description: TopologyDescription = struct_field(TopologyDescription)


@message(key=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateResponse:
    """What became of it."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
