"""The records of a KRaft metadata log, `__cluster_metadata-0`, and of its snapshots.

Each record states one change of the cluster's metadata; replaying them in order yields the
metadata. A stored value is framed as uvarint 1 (the frame's own version), uvarint record key,
uvarint record version, then the message; `METADATA_RECORDS` finds the class for a record key.
Replay and framing live elsewhere: this module knows only what the records look like.

All records are flexible from version 0. A reader must skip tags it does not know, but must stop
at a record key or version it does not know: ignoring a change would fork the metadata.
"""

from __future__ import annotations

from typing import Any, Final

from moldau.protocol.fields import (
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uint16,
    uuid,
)

NO_LEADER_CHANGE: Final = -2
"""The leader of a `PartitionChangeRecord` that leaves the leader as it is; -1 means none."""


@struct
class BrokerEndpoint:
    """One listener of a registered broker."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@struct
class BrokerFeature:
    """The levels of one feature that a broker can run at."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(key=0, versions="0-4", flexible="0+")
class RegisterBrokerRecord:
    """A broker has registered; its epoch is the offset of this record.

    Version 1 adds controlled shutdown (KIP-841), 2 the move from ZooKeeper (KIP-866), 3 log
    directories (KIP-858), 4 directories closed to new replicas (KIP-1066).
    """

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean("2+")
    incarnation_id: bytes = uuid()
    broker_epoch: int = int64()
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint)
    features: list[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(nullable="0+")
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean("1+")
    log_dirs: list[bytes] = array(uuid, "3+", tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "4+", nullable="4+", tag=1, default=None)


@message(key=1, versions="0", flexible="0+")
class UnregisterBrokerRecord:
    """A broker has been taken out of the cluster for good, not merely stopped."""

    broker_id: int = int32()
    broker_epoch: int = int64()


@message(key=2, versions="0", flexible="0+")
class TopicRecord:
    """A topic exists; its partitions follow as records of their own."""

    name: str = string()
    topic_id: bytes = uuid()


@message(key=3, versions="0-2", flexible="0+")
class PartitionRecord:
    """The whole state of one partition, as created or as found in a snapshot.

    Version 1 adds each replica's log directory (KIP-858), 2 the eligible leader replicas
    (KIP-966).
    """

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    replicas: list[int] = array(int32)
    isr: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[bytes] = array(uuid, "1+")  # one for each of `replicas`, in that order
    eligible_leader_replicas: list[int] | None = array(
        int32, "2+", nullable="2+", tag=1, default=None
    )
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", tag=2, default=None)


@message(key=4, versions="0", flexible="0+")
class ConfigRecord:
    """One config of one resource was set, or with a null value removed."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+")


@message(key=5, versions="0-2", flexible="0+")
class PartitionChangeRecord:
    """What changed in one partition; a field left at its default stays as it was.

    Replaying one raises the partition epoch by one, and the leader epoch wherever `leader` is
    given. Version 1 adds log directories (KIP-858), 2 eligible leader replicas (KIP-966).
    """

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    isr: list[int] | None = array(int32, nullable="0+", tag=0, default=None)
    leader: int = int32(tag=1, default=NO_LEADER_CHANGE)
    replicas: list[int] | None = array(int32, nullable="0+", tag=2, default=None)
    removing_replicas: list[int] | None = array(int32, nullable="0+", tag=3, default=None)
    adding_replicas: list[int] | None = array(int32, nullable="0+", tag=4, default=None)
    leader_recovery_state: int = int8(tag=5, default=-1)
    directories: list[bytes] | None = array(uuid, "1+", nullable="1+", tag=8, default=None)
    eligible_leader_replicas: list[int] | None = array(
        int32, "2+", nullable="2+", tag=6, default=None
    )
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", tag=7, default=None)


@message(key=7, versions="0", flexible="0+")
class FenceBrokerRecord:
    """A broker may lead nothing any more. Superseded by `BrokerRegistrationChangeRecord`."""

    id: int = int32()
    epoch: int = int64()


@message(key=8, versions="0", flexible="0+")
class UnfenceBrokerRecord:
    """A broker may lead again. Superseded by `BrokerRegistrationChangeRecord`."""

    id: int = int32()
    epoch: int = int64()


@message(key=9, versions="0", flexible="0+")
class RemoveTopicRecord:
    """A topic is gone, with all its partitions and configs."""

    topic_id: bytes = uuid()


@message(key=10, versions="0", flexible="0+")
class DelegationTokenRecord:
    """A delegation token was issued or renewed (KIP-48). Its secret is never stored."""

    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(string)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


@message(key=11, versions="0", flexible="0+")
class UserScramCredentialRecord:
    """What proves a user's password under one SCRAM mechanism (KIP-900)."""

    name: str = string()
    mechanism: int = int8()
    salt: bytes = bytes_()
    stored_key: bytes = bytes_()
    server_key: bytes = bytes_()
    iterations: int = int32()


@message(key=12, versions="0", flexible="0+")
class FeatureLevelRecord:
    """A feature was finalised at a level; level 0 turns it off (KIP-584)."""

    name: str = string()
    feature_level: int = int16()


@struct
class QuotaEntity:
    """One part of what a quota is for: a user, client id or address; no name means the default."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@message(key=14, versions="0", flexible="0+")
class ClientQuotaRecord:
    """One quota of one entity was set or removed (KIP-546)."""

    entity: list[QuotaEntity] = array(QuotaEntity)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@message(key=15, versions="0", flexible="0+")
class ProducerIdsRecord:
    """A broker was given a block of producer ids; the next block starts at `next_producer_id`."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


@message(key=17, versions="0-3", flexible="0+")
class BrokerRegistrationChangeRecord:
    """What changed in a broker's registration; a field left at its default stays as it was.

    `fenced` is -1 for unfencing and 1 for fencing; a shutdown can only begin (1). Version 1
    adds controlled shutdown (KIP-841), 2 log directories (KIP-858), 3 cordoned ones (KIP-1066).
    """

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0)
    in_controlled_shutdown: int = int8("1+", tag=1)
    log_dirs: list[bytes] = array(uuid, "2+", tag=2)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "3+", nullable="3+", tag=3, default=None)


@message(key=18, versions="0", flexible="0+")
class AccessControlEntryRecord:
    """An access rule was added (KIP-801); its id names it for removal."""

    id: bytes = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message(key=19, versions="0", flexible="0+")
class RemoveAccessControlEntryRecord:
    """An access rule was removed."""

    id: bytes = uuid()


@message(key=20, versions="0", flexible="0+")
class NoOpRecord:
    """No change: it only moves the log's end, so that a silent quorum is noticed (KIP-835)."""


@message(key=21, versions="0", flexible="0+")
class ZkMigrationStateRecord:
    """How far the move from ZooKeeper has come (KIP-866); Kafka 4 only reads it."""

    zk_migration_state: int = int8()


@message(key=22, versions="0", flexible="0+")
class RemoveUserScramCredentialRecord:
    """A user may no longer log in with this SCRAM mechanism."""

    name: str = string()
    mechanism: int = int8()


@message(key=23, versions="0", flexible="0+")
class BeginTransactionRecord:
    """What follows counts only once its end is seen (KIP-868): changes larger than one batch."""

    name: str | None = string(nullable="0+", tag=0, default=None)


@message(key=24, versions="0", flexible="0+")
class EndTransactionRecord:
    """The changes since `BeginTransactionRecord` count now."""


@message(key=25, versions="0", flexible="0+")
class AbortTransactionRecord:
    """The changes since `BeginTransactionRecord` never happened."""

    reason: str | None = string(nullable="0+", tag=0, default=None)


@message(key=26, versions="0", flexible="0+")
class RemoveDelegationTokenRecord:
    """A delegation token has expired or was withdrawn."""

    token_id: str = string()


@struct
class ControllerEndpoint:
    """One listener of a registered controller."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@struct
class ControllerFeature:
    """The levels of one feature that a controller can run at."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(key=27, versions="0", flexible="0+")
class RegisterControllerRecord:
    """A controller has told the quorum where it listens and what it supports (KIP-919)."""

    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    end_points: list[ControllerEndpoint] = array(ControllerEndpoint)
    features: list[ControllerFeature] = array(ControllerFeature)


@message(key=28, versions="0", flexible="0+")
class ClearElrRecord:
    """Forget the eligible leader replicas of a topic, or with an empty name of all (KIP-966)."""

    topic_name: str = string()


@message(key=29, versions="0", flexible="0+")
class UnregisterControllerRecord:
    """A controller has been taken out of the cluster for good."""

    controller_id: int = int32()


METADATA_RECORDS: Final[dict[int, type[Any]]] = {
    0: RegisterBrokerRecord,
    1: UnregisterBrokerRecord,
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    7: FenceBrokerRecord,
    8: UnfenceBrokerRecord,
    9: RemoveTopicRecord,
    10: DelegationTokenRecord,
    11: UserScramCredentialRecord,
    12: FeatureLevelRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    17: BrokerRegistrationChangeRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    20: NoOpRecord,
    21: ZkMigrationStateRecord,
    22: RemoveUserScramCredentialRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
    26: RemoveDelegationTokenRecord,
    27: RegisterControllerRecord,
    28: ClearElrRecord,
    29: UnregisterControllerRecord,
}
"""Record key -> class. Keys 6, 13 and 16 are not in use."""
