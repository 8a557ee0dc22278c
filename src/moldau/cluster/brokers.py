"""Decisions about brokers: one registers, is fenced or unfenced, shuts down, leaves. Pure.

They follow Kafka's controller, with the same records in the same order. A broker that registers is
fenced until a heartbeat unfences it (`heartbeats`). Fencing takes it out of every ISR and moves
what it led; unfencing elects leaders where there was no candidate before. Leaders are elected for
the cluster as it will be after the decision.

One rule differs. A broker that comes back uncleanly may have lost records that it acknowledged. It
leaves the ISR and the eligible leader replicas of a partition wherever another replica is on
record, also one that is down: that one has everything, and is waited for. Kafka takes it out
everywhere, and then may have nobody left. Here the last one on record stays, and so does the only
replica of a partition. The same holds for replicas in a log directory that has failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from moldau.base.ids import BrokerId, TopicId, uuid_text
from moldau.base.texts import shorten
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ProducerIdsAllocated,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.leader_choice import ElectionRules, is_directory_online
from moldau.cluster.model import NO_LEADER, Broker, Endpoint, FeatureRange, Partition
from moldau.cluster.partition_update import PartitionTarget, change_partition
from moldau.cluster.record_codec import METADATA_VERSION
from moldau.cluster.steps import Step, Stepwise, change_partitions
from moldau.protocol.errors import ApiError, ErrorCode

PRODUCER_ID_BLOCK: Final = 1000
"""The number of producer ids that a broker gets at once; Kafka's number, for equal logs."""

SUPPORTED_FEATURES: Final = (
    FeatureRange("eligible.leader.replicas.version", 0, 1),
    FeatureRange("group.version", 0, 1),
    FeatureRange("kraft.version", 0, 1),
    FeatureRange("metadata.version", 7, 30),
    FeatureRange("share.version", 0, 1),
    FeatureRange("streams.version", 0, 1),
    FeatureRange("transaction.version", 0, 2),
)
"""The feature levels of Kafka 4.3, whose records we keep intact. A controller refuses a broker that
does not support the levels in force. So all of them are here, also those that we do not use."""

BROKERS_MAX: Final = 1_000
"""How many brokers may be registered. Kafka sets no limit; every registration is compared with all
others, and stays until it is taken out by hand."""

_RESERVED_DIRECTORIES: Final = 100
"""Directory ids below this number have a meaning of their own (KIP-858)."""


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """What a broker says about itself when it starts."""

    broker_id: BrokerId
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    log_directories: tuple[bytes, ...]
    rack: str | None = None
    previous_broker_epoch: int = -1
    """The epoch it had before a stop that lost nothing; -1 if it may have lost records."""
    cluster_id: str | None = None
    """The cluster it belongs to; None if it is in one process with the controller."""
    features: tuple[FeatureRange, ...] = SUPPORTED_FEATURES


# Registration


def register_broker(
    image: MetadataImage,
    registration: BrokerRegistration,
    *,
    has_session: bool = False,
    unclean_by_default: bool = False,
) -> Stepwise[int]:
    """Decide on a broker that starts; return its epoch, which is the version decided on.

    `has_session` tells whether the broker registered under this id is still heard of. The same
    incarnation may register again: what it says about itself is amended, and its epoch stays.
    """
    existing = image.brokers.get(registration.broker_id)
    _check_registration(image, registration, existing, has_session=has_session)
    broker = Broker(
        registration.broker_id,
        image.version,
        registration.incarnation_id,
        registration.endpoints,
        registration.rack,
        registration.features,
        log_directories=registration.log_directories,
    )
    if existing is not None and existing.incarnation_id == registration.incarnation_id:
        broker = replace(
            broker,
            epoch=existing.epoch,
            fenced=existing.fenced,
            in_controlled_shutdown=existing.in_controlled_shutdown,
        )
    else:
        is_clean = existing is not None and existing.epoch == registration.previous_broker_epoch
        rules = ElectionRules(image, unclean_by_default=unclean_by_default).with_broker(broker)
        yield from change_partitions(
            image,
            rules,
            lambda partition: departure(
                rules,
                partition,
                broker.id,
                # A replica in a directory that is gone is made anew, and has nothing.
                may_lack_records=not is_clean or not is_directory_online(broker, partition),
            ),
        )
    yield BrokerRegistered(broker)
    return broker.epoch


def _check_registration(
    image: MetadataImage,
    registration: BrokerRegistration,
    existing: Broker | None,
    *,
    has_session: bool,
) -> None:
    """Refuse a registration for Kafka's reasons, in Kafka's order."""
    if registration.cluster_id not in (None, image.cluster_id):
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID"
            f" {shorten(registration.cluster_id or '')}",
        )
    if (
        has_session
        and existing is not None
        and existing.incarnation_id != registration.incarnation_id
    ):
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently"
            " restarted this should self-resolve once the heartbeat manager expires the broker's"
            " session.",
        )
    if existing is None and len(image.brokers) >= BROKERS_MAX:
        raise ApiError(
            ErrorCode.INVALID_REGISTRATION, f"{len(image.brokers)} brokers are registered already"
        )
    problem = _directory_problem(image, registration)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, problem)
    _check_features(image, registration.features)


def _directory_problem(image: MetadataImage, registration: BrokerRegistration) -> str | None:
    directories = registration.log_directories
    if not directories:
        return "No directories specified in request"
    if any(int.from_bytes(one, "big") < _RESERVED_DIRECTORIES for one in directories):
        return "Reserved directory ID in request"
    if len(set(directories)) < len(directories):
        return "Duplicate directory ID in request"
    own = frozenset(directories)
    for broker in image.brokers.values():
        shared = own.intersection(broker.log_directories)
        if shared and broker.id != registration.broker_id:
            directory = uuid_text(min(shared))
            return f"Broker {broker.id} is already registered with directory {directory}"
    return None


def _check_features(image: MetadataImage, features: tuple[FeatureRange, ...]) -> None:
    for feature in features:
        _check_feature(image, feature)
    named = {feature.name for feature in features}
    if METADATA_VERSION not in named:
        raise ApiError(
            ErrorCode.INVALID_REGISTRATION,
            f"Request features do not contain '{METADATA_VERSION}'",
        )
    for name in image.features.keys() - named:
        _check_feature(image, FeatureRange(name, 0, 0))


def _check_feature(image: MetadataImage, feature: FeatureRange) -> None:
    # A log without any level of the metadata has not been formatted: nothing is in force there.
    unset = feature.minimum if feature.name == METADATA_VERSION else 0
    level = image.features.get(feature.name, unset)
    if not feature.minimum <= level <= feature.maximum:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Unable to register because the broker does not support finalized version {level} of"
            f" {shorten(feature.name)}. The broker wants a version between {feature.minimum} and"
            f" {feature.maximum}, inclusive.",
        )


def registered_broker(image: MetadataImage, broker_id: BrokerId, broker_epoch: int) -> Broker:
    """Return a broker that asks for something; ApiError STALE_BROKER_EPOCH unless it is current."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        problem = f"No broker registration found for broker id {broker_id}"
    elif broker.epoch != broker_epoch:
        problem = f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
    else:
        return broker
    raise ApiError(ErrorCode.STALE_BROKER_EPOCH, problem)


# In service and out of it


def fence_broker(
    image: MetadataImage,
    broker_id: BrokerId,
    *,
    may_lack_records: bool = False,
    unclean_by_default: bool = False,
) -> Iterator[Step]:
    """Take a broker out of service: out of every ISR, then fenced."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return
    rules = ElectionRules(image, unclean_by_default=unclean_by_default)
    rules = rules.with_broker(replace(broker, fenced=True))
    yield from _leave_partitions(image, rules, broker_id, may_lack_records=may_lack_records)
    yield BrokerChanged(broker_id, broker.epoch, fenced=True)


def unfence_broker(
    image: MetadataImage, broker: Broker, *, unclean_by_default: bool = False
) -> Iterator[Step]:
    """Put a broker into service, then elect leaders where there was no candidate."""
    rules = ElectionRules(image, unclean_by_default=unclean_by_default)
    yield BrokerChanged(broker.id, broker.epoch, fenced=False)
    yield from change_partitions(
        image,
        rules.with_broker(replace(broker, fenced=False)),
        lambda partition: (
            PartitionTarget()
            if partition.leader == NO_LEADER and broker.id in partition.replicas
            else None
        ),
    )


def begin_controlled_shutdown(
    image: MetadataImage, broker: Broker, *, unclean_by_default: bool = False
) -> Iterator[Step]:
    """Let a broker leave its partitions before it stops; it goes on serving as a follower."""
    rules = ElectionRules(image, unclean_by_default=unclean_by_default)
    yield BrokerChanged(broker.id, broker.epoch, in_controlled_shutdown=True)
    rules = rules.with_broker(replace(broker, in_controlled_shutdown=True))
    yield from _leave_partitions(image, rules, broker.id)


def unregister_broker(
    image: MetadataImage, broker_id: BrokerId, *, unclean_by_default: bool = False
) -> Iterator[Step]:
    """Take a broker out of the cluster for good: out of every ISR, eligible nowhere."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
        )
    rules = ElectionRules(image, unclean_by_default=unclean_by_default).without_broker(broker_id)
    own = frozenset({broker_id})
    yield from change_partitions(
        image,
        rules,
        lambda partition: (
            PartitionTarget(isr=_without(partition.isr, broker_id), not_eligible=own)
            if broker_id in partition.isr or broker_id in partition.eligible_leaders
            else None
        ),
    )
    yield BrokerUnregistered(broker_id, broker.epoch)


def lose_directories(
    image: MetadataImage,
    broker: Broker,
    offline: Iterable[bytes],
    *,
    unclean_by_default: bool = False,
) -> Iterator[Step]:
    """Take a broker's replicas in failed log directories out of every ISR.

    A broker that has lost all of them must not be in service; no record can say that it has none.
    """
    rest = directories_left(broker, offline)
    if rest == broker.log_directories:
        return
    left = replace(broker, log_directories=rest)
    rules = ElectionRules(image, unclean_by_default=unclean_by_default).with_broker(left)

    def target(partition: Partition) -> PartitionTarget | None:
        if rest and is_directory_online(left, partition):
            return None
        return departure(rules, partition, broker.id, may_lack_records=True)

    yield from change_partitions(image, rules, target)
    if rest:
        yield BrokerChanged(broker.id, broker.epoch, log_directories=rest)


def lose_replicas(
    image: MetadataImage,
    broker_id: BrokerId,
    replicas: Collection[tuple[TopicId, int]],
    *,
    unclean_by_default: bool = False,
) -> Iterator[Step]:
    """Take these replicas of a broker out of their ISRs: they cannot be read any more."""
    rules = ElectionRules(image, unclean_by_default=unclean_by_default).without_broker(broker_id)
    for topic_id, index in replicas:
        topic = image.topic_by_id(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            continue
        partition = topic.partitions[index]
        target = departure(rules, partition, broker_id, may_lack_records=True)
        yield None if target is None else change_partition(rules, topic, partition, target)


def directories_left(broker: Broker, offline: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return a broker's log directories without those that are offline."""
    failed = frozenset(offline)
    return tuple(one for one in broker.log_directories if one not in failed)


def _leave_partitions(
    image: MetadataImage,
    rules: ElectionRules,
    broker_id: BrokerId,
    *,
    may_lack_records: bool = False,
) -> Iterator[Step]:
    return change_partitions(
        image,
        rules,
        lambda partition: departure(rules, partition, broker_id, may_lack_records=may_lack_records),
    )


def departure(
    rules: ElectionRules, partition: Partition, broker_id: BrokerId, *, may_lack_records: bool
) -> PartitionTarget | None:
    """Return what becomes of a partition that a broker leaves; None if it has nothing to leave."""
    own = frozenset({broker_id})
    return departures(rules, partition, own, own if may_lack_records else frozenset())


def departures(
    rules: ElectionRules,
    partition: Partition,
    leaving: frozenset[BrokerId],
    lacking: frozenset[BrokerId],
) -> PartitionTarget | None:
    """Return what becomes of a partition that several brokers leave at once; None if nothing does.

    `lacking` are those of them that may lack committed records. By the rules, some may be back.
    """
    on_record = (*partition.isr, *partition.eligible_leaders)
    if leaving.isdisjoint(on_record):
        return None
    last = _last_on_record(rules, partition, on_record, lacking)
    not_eligible = lacking.intersection(on_record) - {last}
    isr = tuple(one for one in partition.isr if one not in leaving)
    if isr == partition.isr and not not_eligible:
        return None
    if not isr and not rules.keeps_eligible_leaders:
        isr = (last,)
    return PartitionTarget(
        isr=isr, not_eligible=not_eligible, renews_leader=partition.leader in leaving
    )


def _last_on_record(
    rules: ElectionRules,
    partition: Partition,
    on_record: tuple[BrokerId, ...],
    lacking: frozenset[BrokerId],
) -> BrokerId:
    """Return the one that stays on record if all leave: surely complete, then able to lead."""
    complete = [one for one in on_record if one not in lacking] or on_record
    able = [one for one in complete if rules.may_lead(partition, one)] or complete
    return partition.leader if partition.leader in able else able[0]


def _without(brokers: tuple[BrokerId, ...], broker_id: BrokerId) -> tuple[BrokerId, ...]:
    return tuple(one for one in brokers if one != broker_id)


# Producer ids


def allocate_producer_ids(image: MetadataImage, broker: Broker) -> ProducerIdsAllocated:
    """Decide on the next block: from `image.next_producer_id` to that of the change, exclusive."""
    following = image.next_producer_id + PRODUCER_ID_BLOCK
    return ProducerIdsAllocated(broker.id, broker.epoch, following)
