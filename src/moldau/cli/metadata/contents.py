"""The metadata as folders and values: which names lie where. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from moldau.base.ids import uuid_text
from moldau.cli.frame.profiles import shown
from moldau.cli.metadata.folder import LazyFolder, Node, entry_name
from moldau.cli.metadata.record_fields import framed_fields
from moldau.cli.metadata.state import MetadataState
from moldau.cluster.changes import OpaqueRecorded
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    Broker,
    Endpoint,
    FeatureRange,
    Partition,
    RegisteredController,
    ResourceType,
    Topic,
)
from moldau.security.session import SecurityProtocol

_RESOURCES: Final[dict[int, str]] = {
    ResourceType.TOPIC: "topics",
    ResourceType.BROKER: "brokers",
    ResourceType.BROKER_LOGGER: "broker-loggers",
    ResourceType.CLIENT_METRICS: "client-metrics",
    ResourceType.GROUP: "groups",
}
_PROTOCOLS: Final[dict[int, str]] = {one.value: one.name for one in SecurityProtocol}
_DIRECTORIES: Final = {
    MIGRATING_DIRECTORY: "MIGRATING",
    UNASSIGNED_DIRECTORY: "UNASSIGNED",
    LOST_DIRECTORY: "LOST",
}
"""Ids that are no directory's, as Kafka calls them (KIP-858)."""


def metadata_tree(state: MetadataState) -> Node:
    """Return the root of the tree."""
    image = state.image
    return {
        "brokers": LazyFolder(
            {str(number): broker for number, broker in sorted(image.brokers.items())}, _broker
        ),
        "configs": _configs(image),
        "controllers": LazyFolder(
            {str(number): node for number, node in sorted(image.controllers.items())}, _controller
        ),
        "features": {entry_name(name): level for name, level in sorted(image.features.items())},
        "log": {
            "start-offset": state.start_offset,
            "end-offset": state.end_offset,
            "epoch": state.epoch,
            "snapshot": state.snapshot,
        },
        "producer-ids": {"next": image.next_producer_id},
        "quorum": state.quorum.folder(),
        "topics": LazyFolder(
            {entry_name(name): topic for name, topic in sorted(image.topics.items())},
            partial(_topic, image),
        ),
        "topics-by-id": dict(
            sorted((uuid_text(number), name) for number, name in image.topic_names.items())
        ),
        "unknown": LazyFolder(
            {str(number): record for number, record in enumerate(image.opaque)}, _unread
        ),
    }


def _broker(broker: Broker) -> Node:
    cordoned = broker.cordoned_log_directories
    return {
        "epoch": broker.epoch,
        "incarnation": uuid_text(broker.incarnation_id),
        "fenced": broker.fenced,
        "in-controlled-shutdown": broker.in_controlled_shutdown,
        "rack": broker.rack,
        "endpoints": _endpoints(broker.endpoints),
        "features": _supported(broker.features),
        "directories": _directories(broker.log_directories),
        "cordoned-directories": None if cordoned is None else _directories(cordoned),
    }


def _controller(controller: RegisteredController) -> Node:
    return {
        "incarnation": uuid_text(controller.incarnation_id),
        "endpoints": _endpoints(controller.endpoints),
        "features": _supported(controller.features),
        "zk-migration-ready": controller.zk_migration_ready,
    }


def _supported(features: Iterable[FeatureRange]) -> Node:
    return {entry_name(one.name): [one.minimum, one.maximum] for one in features}


def _endpoints(points: Iterable[Endpoint]) -> Node:
    return {entry_name(point.listener): _endpoint(point) for point in points}


def _endpoint(point: Endpoint) -> Node:
    code = point.security_protocol
    return {
        "host": point.host,
        "port": point.port,
        "security-protocol": _PROTOCOLS.get(code, code),
    }


def _topic(image: MetadataImage, topic: Topic) -> Node:
    return {
        "id": uuid_text(topic.id),
        "configs": _settings(image.topic_config(topic.name)),
        "partitions": LazyFolder({str(one.index): one for one in topic.partitions}, _partition),
    }


def _partition(partition: Partition) -> Node:
    return {
        "leader": None if partition.leader == NO_LEADER else partition.leader,
        "leader-epoch": partition.leader_epoch,
        "epoch": partition.partition_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "adding": list(partition.adding_replicas),
        "removing": list(partition.removing_replicas),
        "eligible": list(partition.eligible_leaders),
        "last-known-leaders": list(partition.last_known_leaders),
        "recovering": partition.recovering,
        "directories": _directories(partition.directories),
    }


def _directories(ids: tuple[bytes, ...]) -> list[str]:
    return [_DIRECTORIES.get(one) or uuid_text(one) for one in ids]


def _configs(image: MetadataImage) -> Node:
    kinds: dict[str, dict[str, Mapping[str, str]]] = {name: {} for name in _RESOURCES.values()}
    for resource, settings in sorted(image.configs.items()):
        kind = _RESOURCES.get(resource.type, f"type-{resource.type}")
        kinds.setdefault(kind, {})[entry_name(resource.name)] = settings
    return {kind: LazyFolder(resources, _settings) for kind, resources in kinds.items()}


def _settings(settings: Mapping[str, str]) -> Node:
    return {entry_name(key): value for key, value in sorted(shown(settings).items())}


def _unread(record: OpaqueRecorded) -> Node:
    read = framed_fields(record.key, record.version, record.body)
    return {"type": read.type, "key": record.key, "version": record.version, "fields": read.fields}
