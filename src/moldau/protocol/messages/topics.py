"""Messages that create, enlarge and delete topics."""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    string,
    struct,
    uuid,
)


@struct
class CreatableReplicaAssignment:
    """The brokers of one partition; the first one leads."""

    partition_index: int = int32()
    broker_ids: list[int] = array(int32)


@struct
class CreatableTopicConfig:
    """One config to set."""

    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class CreatableTopic:
    """One topic to create."""

    name: str = string()
    num_partitions: int = int32()  # -1 with assignments, or from 4 on for the broker's default
    replication_factor: int = int16()  # -1 likewise
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@message(key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest:
    """Create topics.

    Version 1 can merely validate, 4 lets the broker choose partitions and replicas, given as -1
    (KIP-464).
    """

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean("1+")


@struct
class CreatedTopicConfig:
    """One config of a created topic, defaults included."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


@struct
class CreatableTopicResult:
    """What became of one topic."""

    name: str = string()
    topic_id: bytes = uuid("7+")
    error_code: int = int16()
    error_message: str | None = string("1+", nullable="1+")
    topic_config_error_code: int = int16("5+", tag=0)  # not 0 where configs may not be told
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatedTopicConfig] | None = array(CreatedTopicConfig, "5+", nullable="5+")


@message(key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse:
    """What became of each topic; from version 5 with its configs (KIP-525), 7 its id (KIP-516)."""

    throttle_time_ms: int = int32("2+")
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)


@struct
class DeleteTopicState:
    """One topic, by name or id."""

    name: str | None = string(nullable="0+", default=None)
    topic_id: bytes = uuid()


@message(key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    """Delete topics by name, from version 6 also by id (KIP-516)."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5")
    timeout_ms: int = int32()


@struct
class DeletableTopicResult:
    """What became of one topic."""

    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None)


@message(key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    """What became of each deletion; a name asked for by id stays null if it must not be told."""

    throttle_time_ms: int = int32("1+")
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)


@struct
class CreatePartitionsAssignment:
    """The brokers of one new partition."""

    broker_ids: list[int] = array(int32)


@struct
class CreatePartitionsTopic:
    """One topic, and how many partitions it shall have in all."""

    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+"
    )


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Raise the partition counts of topics (KIP-195)."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@struct
class CreatePartitionsTopicResult:
    """What became of one topic."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """What became of each topic."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
