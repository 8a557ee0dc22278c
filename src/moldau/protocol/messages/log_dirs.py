"""Messages about a broker's log directories: what lies where, and moving it (KIP-113, KIP-858)."""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    boolean,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


@struct
class AlterReplicaLogDirTopic:
    """The partitions of one topic."""

    name: str = string()
    partitions: list[int] = array(int32)


@struct
class AlterReplicaLogDir:
    """One directory and the replicas that belong there."""

    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@message(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """Say in which log directory a broker's replicas belong (KIP-113)."""

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


@struct
class AlterReplicaLogDirPartitionResult:
    """What became of one partition."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class AlterReplicaLogDirTopicResult:
    """What became of one topic."""

    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


@message(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    """What became of each partition."""

    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)


@struct
class DescribableLogDirTopic:
    """The partitions of one topic asked for."""

    topic: str = string()
    partitions: list[int] = array(int32)


@message(key=35, versions="0-5", flexible="2+")
class DescribeLogDirsRequest:
    """Ask for a broker's log directories and the replicas in them; null topics means all."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


@struct
class DescribeLogDirsPartition:
    """One replica; a future one is being moved here and will replace the current."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@struct
class DescribeLogDirsTopic:
    """The replicas of one topic."""

    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@struct
class DescribeLogDirsResult:
    """One directory."""

    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1)  # -1: not known
    usable_bytes: int = int64("4+", default=-1)
    is_cordoned: bool = boolean("5+")


@message(key=35, versions="0-5", flexible="2+")
class DescribeLogDirsResponse:
    """Directories and replica sizes.

    Version 3 adds an error for the whole, 4 the size of the volume (KIP-827), 5 whether the
    directory is closed to new replicas (KIP-1066).
    """

    throttle_time_ms: int = int32()
    error_code: int = int16("3+")
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)


@struct
class AssignReplicasPartition:
    """One replica."""

    partition_index: int = int32()


@struct
class AssignReplicasTopic:
    """The replicas of one topic."""

    topic_id: bytes = uuid()
    partitions: list[AssignReplicasPartition] = array(AssignReplicasPartition)


@struct
class AssignReplicasDirectory:
    """One directory and the replicas in it."""

    id: bytes = uuid()
    topics: list[AssignReplicasTopic] = array(AssignReplicasTopic)


@message(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest:
    """From a broker to the controller: which directory holds which replica (KIP-858)."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: list[AssignReplicasDirectory] = array(AssignReplicasDirectory)


@struct
class AssignReplicasPartitionResult:
    """What became of one replica."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class AssignReplicasTopicResult:
    """What became of one topic."""

    topic_id: bytes = uuid()
    partitions: list[AssignReplicasPartitionResult] = array(AssignReplicasPartitionResult)


@struct
class AssignReplicasDirectoryResult:
    """What became of one directory."""

    id: bytes = uuid()
    topics: list[AssignReplicasTopicResult] = array(AssignReplicasTopicResult)


@message(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse:
    """What became of each replica."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    directories: list[AssignReplicasDirectoryResult] = array(AssignReplicasDirectoryResult)
