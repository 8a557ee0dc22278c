"""Encodes changes as KRaft's metadata records, and decodes them.

A record's value is uvarint 1 (the frame's version), uvarint record key, uvarint record version,
then the message, which is flexible in every version. As in Kafka's controller, the level of
`metadata.version` in force decides which version is written. So a data directory formatted for an
older Kafka stays readable for it.

Some records are no change of ours. No-ops are dropped. The marks of metadata transactions (KIP-868)
decide whether the records between them count; `replay` applies them. All other records are kept
unchanged. A record that we must understand, in a version that we do not know, is refused: to skip a
change would fork the metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any, Final

from moldau.base.errors import CorruptRecords, ProtocolError
from moldau.base.ids import BrokerId, LeaderEpoch, TopicId
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ConfigChanged,
    ControllerRegistered,
    ControllerUnregistered,
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
    MIGRATING_DIRECTORY,
    Broker,
    ConfigResource,
    Endpoint,
    FeatureRange,
    Partition,
    RegisteredController,
)
from moldau.protocol.compiler import decode, encode
from moldau.protocol.messages import metadata_records as kraft
from moldau.protocol.wire import read_uvarint, uvarint

METADATA_VERSION: Final = "metadata.version"

TRANSACTIONS_LEVEL: Final = 13  # 3.6-IV1
_ZK_MIGRATION_LEVEL: Final = 8  # 3.4-IV0
CONTROLLERS_LEVEL: Final = 15  # 3.7-IV0
"""From this level on controllers register (KIP-919)."""
DIRECTORIES_LEVEL: Final = 17  # 3.7-IV2
"""From this level on partitions tell in which log directories their replicas lie (KIP-858)."""
ELIGIBLE_LEADERS_LEVEL: Final = 23  # 4.0-IV1
"""From this level on partitions tell which replicas outside of the ISR may lead (KIP-966)."""
CORDONED_LEVEL: Final = 30  # 4.3-IV0
"""From this level on brokers tell which log directories take no new replicas (KIP-1066)."""
UNREGISTRATION_LEVEL: Final = 33  # 4.4-IV2
"""From this level on a log may say that a controller was removed (KIP-1312); Kafka 4.3 does not
start on a log with that record."""

CONFIG_RECORD: Final = 4
"""The key of the record that sets one config."""

_FRAME_VERSION: Final = 1
_UNFENCE: Final = -1
_FENCE: Final = 1


class TransactionMark(Enum):
    """The begin, end or abort of a metadata transaction."""

    BEGIN = auto()
    END = auto()
    ABORT = auto()


def metadata_level(image: MetadataImage) -> int:
    """Return the level of `metadata.version` in force; 0 before there is one."""
    return image.features.get(METADATA_VERSION, 0)


def encode_change(change: Change, level: int) -> bytes:
    """Encode a change as a record value, in the version for this level of `metadata.version`."""
    if isinstance(change, OpaqueRecorded):
        return _framed(change.key, change.version, change.body)
    record, version = _ENCODERS[type(change)](change, level)
    return _framed(record.KEY, version, encode(record, version))


def encode_mark(mark: TransactionMark, name: str | None = None) -> bytes:
    """Encode the begin, the end or the abort of a transaction; only a begin has a name."""
    record = _MARK_RECORDS[mark](*(() if name is None else (name,)))
    return _framed(record.KEY, 0, encode(record, 0))


def record_key(value: bytes) -> int:
    """Return the record key of a value that `decode_record` has accepted before."""
    _, position = read_uvarint(value, 0)
    return read_uvarint(value, position)[0]


def decode_record(value: bytes) -> Change | TransactionMark | None:
    """Decode a record value; None for a no-op."""
    try:
        frame_version, position = read_uvarint(value, 0)
        key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError as error:
        raise CorruptRecords("a metadata record ends within its frame") from error
    if frame_version != _FRAME_VERSION:
        raise CorruptRecords(f"a metadata record has frame version {frame_version}, not 1")
    body = value[position:]
    decoder = _DECODERS.get(key)
    if decoder is None:
        return OpaqueRecorded(key, version, body)
    declared = kraft.METADATA_RECORDS[key]
    if version not in declared.VERSIONS:
        raise CorruptRecords(
            f"{declared.__name__} has version {version}; known are up to {declared.VERSIONS.last}"
        )
    try:
        return decoder(decode(declared, version, body))
    except ProtocolError as error:
        raise CorruptRecords(f"{declared.__name__} is damaged: {error}") from error


def _framed(key: int, version: int, body: bytes) -> bytes:
    return uvarint(_FRAME_VERSION) + uvarint(key) + uvarint(version) + body


def _register_version(level: int) -> int:
    if level >= CORDONED_LEVEL:
        return 4
    if level >= DIRECTORIES_LEVEL:
        return 3
    return 2 if level >= _ZK_MIGRATION_LEVEL else 1


def _partition_version(level: int) -> int:
    if level >= ELIGIBLE_LEADERS_LEVEL:
        return 2
    return 1 if level >= DIRECTORIES_LEVEL else 0


def _broker_record(change: BrokerRegistered, level: int) -> tuple[Any, int]:
    broker = change.broker
    cordoned = broker.cordoned_log_directories
    record = kraft.RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[kraft.BrokerEndpoint(*endpoint) for endpoint in broker.endpoints],
        features=[kraft.BrokerFeature(*feature) for feature in broker.features],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_directories),
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )
    return record, _register_version(level)


def _broker(record: kraft.RegisterBrokerRecord) -> BrokerRegistered:
    cordoned = record.cordoned_log_dirs
    return BrokerRegistered(
        Broker(
            BrokerId(record.broker_id),
            record.broker_epoch,
            record.incarnation_id,
            _endpoints(record.end_points),
            record.rack,
            _features(record.features),
            record.fenced,
            record.in_controlled_shutdown,
            tuple(record.log_dirs),
            None if cordoned is None else tuple(cordoned),
        )
    )


def _controller_record(change: ControllerRegistered, _level: int) -> tuple[Any, int]:
    controller = change.controller
    record = kraft.RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[kraft.ControllerEndpoint(*endpoint) for endpoint in controller.endpoints],
        features=[kraft.ControllerFeature(*feature) for feature in controller.features],
    )
    return record, 0


def _controller(record: kraft.RegisterControllerRecord) -> ControllerRegistered:
    return ControllerRegistered(
        RegisteredController(
            BrokerId(record.controller_id),
            record.incarnation_id,
            _endpoints(record.end_points),
            _features(record.features),
            record.zk_migration_ready,
        )
    )


def _broker_change_record(change: BrokerChanged, _level: int) -> tuple[Any, int]:
    """Choose the lowest version that has the fields, as Kafka does."""
    cordoned = change.cordoned_log_directories
    record = kraft.BrokerRegistrationChangeRecord(
        broker_id=change.broker_id,
        broker_epoch=change.broker_epoch,
        fenced=0 if change.fenced is None else _FENCE if change.fenced else _UNFENCE,
        in_controlled_shutdown=1 if change.in_controlled_shutdown else 0,
        log_dirs=list(change.log_directories or ()),
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )
    if cordoned is not None:
        return record, 3
    if change.log_directories is not None:
        return record, 2
    return record, 1 if change.in_controlled_shutdown else 0


def _broker_change(record: kraft.BrokerRegistrationChangeRecord) -> BrokerChanged:
    cordoned = record.cordoned_log_dirs
    return BrokerChanged(
        BrokerId(record.broker_id),
        record.broker_epoch,
        None if record.fenced == 0 else record.fenced == _FENCE,
        True if record.in_controlled_shutdown else None,
        tuple(record.log_dirs) or None,
        None if cordoned is None else tuple(cordoned),
    )


def _partition_record(change: PartitionCreated, level: int) -> tuple[Any, int]:
    partition = change.partition
    record = kraft.PartitionRecord(
        partition_id=partition.index,
        topic_id=change.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=int(partition.recovering),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories) or [MIGRATING_DIRECTORY] * len(partition.replicas),
        eligible_leader_replicas=list(partition.eligible_leaders) or None,
        last_known_elr=list(partition.last_known_leaders) or None,
    )
    return record, _partition_version(level)


def _partition(record: kraft.PartitionRecord) -> PartitionCreated:
    partition = Partition(
        record.partition_id,
        _brokers(record.replicas),
        _brokers(record.isr),
        BrokerId(record.leader),
        LeaderEpoch(record.leader_epoch),
        record.partition_epoch,
        _brokers(record.adding_replicas),
        _brokers(record.removing_replicas),
        _brokers(record.eligible_leader_replicas or ()),
        _brokers(record.last_known_elr or ()),
        record.leader_recovery_state == 1,
        tuple(record.directories),
    )
    return PartitionCreated(TopicId(record.topic_id), partition)


def _partition_change_record(change: PartitionChanged, level: int) -> tuple[Any, int]:
    record = kraft.PartitionChangeRecord(
        partition_id=change.index,
        topic_id=change.topic_id,
        isr=_list(change.isr),
        leader=kraft.NO_LEADER_CHANGE if change.leader is None else change.leader,
        replicas=_list(change.replicas),
        removing_replicas=_list(change.removing_replicas),
        adding_replicas=_list(change.adding_replicas),
        leader_recovery_state=-1 if change.recovering is None else int(change.recovering),
        directories=None if change.directories is None else list(change.directories),
        eligible_leader_replicas=_list(change.eligible_leaders),
        last_known_elr=_list(change.last_known_leaders),
    )
    return record, _partition_version(level)


def _partition_change(record: kraft.PartitionChangeRecord) -> PartitionChanged:
    return PartitionChanged(
        TopicId(record.topic_id),
        record.partition_id,
        _brokers_or_none(record.isr),
        None if record.leader == kraft.NO_LEADER_CHANGE else BrokerId(record.leader),
        _brokers_or_none(record.replicas),
        _brokers_or_none(record.adding_replicas),
        _brokers_or_none(record.removing_replicas),
        _brokers_or_none(record.eligible_leader_replicas),
        _brokers_or_none(record.last_known_elr),
        None if record.leader_recovery_state < 0 else record.leader_recovery_state == 1,
        None if record.directories is None else tuple(record.directories),
    )


def _endpoints(points: Iterable[Any]) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(point.name, point.host, point.port, point.security_protocol) for point in points
    )


def _features(features: Iterable[Any]) -> tuple[FeatureRange, ...]:
    return tuple(
        FeatureRange(feature.name, feature.min_supported_version, feature.max_supported_version)
        for feature in features
    )


def _brokers(ids: Any) -> tuple[BrokerId, ...]:
    return tuple(ids)


def _brokers_or_none(ids: list[int] | None) -> tuple[BrokerId, ...] | None:
    return None if ids is None else _brokers(ids)


def _list(ids: tuple[BrokerId, ...] | None) -> list[int] | None:
    return None if ids is None else list(ids)


_ENCODERS: Final[dict[type[Any], Callable[[Any, int], tuple[Any, int]]]] = {
    TopicCreated: lambda change, _: (kraft.TopicRecord(change.name, change.topic_id), 0),
    TopicRemoved: lambda change, _: (kraft.RemoveTopicRecord(change.topic_id), 0),
    PartitionCreated: _partition_record,
    PartitionChanged: _partition_change_record,
    EligibleLeadersCleared: lambda change, _: (kraft.ClearElrRecord(change.topic), 0),
    ConfigChanged: lambda change, _: (
        kraft.ConfigRecord(change.resource.type, change.resource.name, change.key, change.value),
        0,
    ),
    BrokerRegistered: _broker_record,
    BrokerChanged: _broker_change_record,
    BrokerUnregistered: lambda change, _: (
        kraft.UnregisterBrokerRecord(change.broker_id, change.broker_epoch),
        0,
    ),
    ControllerRegistered: _controller_record,
    ControllerUnregistered: lambda change, _: (
        kraft.UnregisterControllerRecord(change.controller_id),
        0,
    ),
    ProducerIdsAllocated: lambda change, _: (
        kraft.ProducerIdsRecord(change.broker_id, change.broker_epoch, change.next_producer_id),
        0,
    ),
    FeatureLevelSet: lambda change, _: (kraft.FeatureLevelRecord(change.name, change.level), 0),
}

_DECODERS: Final[dict[int, Callable[[Any], Change | TransactionMark | None]]] = {
    0: _broker,
    1: lambda record: BrokerUnregistered(BrokerId(record.broker_id), record.broker_epoch),
    2: lambda record: TopicCreated(record.name, TopicId(record.topic_id)),
    3: _partition,
    CONFIG_RECORD: lambda record: ConfigChanged(
        ConfigResource(record.resource_type, record.resource_name), record.name, record.value
    ),
    5: _partition_change,
    7: lambda record: BrokerChanged(BrokerId(record.id), record.epoch, fenced=True),
    8: lambda record: BrokerChanged(BrokerId(record.id), record.epoch, fenced=False),
    9: lambda record: TopicRemoved(TopicId(record.topic_id)),
    12: lambda record: FeatureLevelSet(record.name, record.feature_level),
    15: lambda record: ProducerIdsAllocated(
        BrokerId(record.broker_id), record.broker_epoch, record.next_producer_id
    ),
    17: _broker_change,
    20: lambda _: None,
    23: lambda _: TransactionMark.BEGIN,
    24: lambda _: TransactionMark.END,
    25: lambda _: TransactionMark.ABORT,
    27: _controller,
    28: lambda record: EligibleLeadersCleared(record.topic_name),
    29: lambda record: ControllerUnregistered(BrokerId(record.controller_id)),
}

_MARK_RECORDS: Final[dict[TransactionMark, Callable[..., Any]]] = {
    TransactionMark.BEGIN: kraft.BeginTransactionRecord,
    TransactionMark.END: kraft.EndTransactionRecord,
    TransactionMark.ABORT: kraft.AbortTransactionRecord,
}
