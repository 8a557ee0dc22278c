"""Reads single statements of an UpdateMetadata request, and refuses those that cannot be true.

A statement is checked by itself here. Whether it fits the image is checked where it is applied
(`incoming`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.base.errors import MoldauError
from moldau.base.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId
from moldau.cluster.model import (
    NO_LEADER,
    Broker,
    ConfigResource,
    Endpoint,
    FeatureRange,
    Partition,
    ResourceType,
)
from moldau.cluster.topics import check_topic_name
from moldau.protocol.errors import ApiError
from moldau.protocol.messages.replication import (
    UpdateMetadataBroker,
    UpdateMetadataConfigResource,
    UpdateMetadataFeature,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)

_PORT_MAX: Final = 65535
_SECURITY_PROTOCOLS: Final = range(4)


class UpdateRefused(MoldauError):  # noqa: N818 - it names the event
    """An update that no controller of ours would send; nothing of it was applied."""


def stated_topic(topic: UpdateMetadataTopicState) -> tuple[str, TopicId]:
    """Return the name and the id of a topic."""
    _check_topic_name(topic.topic_name)
    if topic.topic_id == ZERO_TOPIC_ID:
        raise UpdateRefused(f"topic {topic.topic_name} has no id")
    return topic.topic_name, TopicId(topic.topic_id)


def stated_partition(topic: str, state: UpdateMetadataPartitionState) -> Partition:
    """Return one partition of a topic."""
    where = f"partition {topic}-{state.partition_index}"
    if min(state.partition_index, state.leader_epoch, state.zk_version) < 0:
        raise UpdateRefused(f"{where} has a number or an epoch below 0")
    replicas = _brokers(where, state.replicas)
    if not replicas:
        raise UpdateRefused(f"{where} has no replicas")
    if state.leader != NO_LEADER and state.leader not in replicas:
        raise UpdateRefused(f"{where} has leader {state.leader}, which is no replica")
    return Partition(
        state.partition_index,
        replicas,
        _some_replicas(where, state.isr, replicas),
        BrokerId(state.leader),
        LeaderEpoch(state.leader_epoch),
        state.zk_version,
        _some_replicas(where, state.adding_replicas, replicas),
        _some_replicas(where, state.removing_replicas, replicas),
        _brokers(where, state.eligible_leaders),
        _brokers(where, state.last_known_leaders),
        state.recovering,
    )


def stated_broker(broker: UpdateMetadataBroker) -> Broker:
    """Return one broker. It is alive, so it is not fenced; its incarnation is its epoch."""
    where = f"broker {broker.id}"
    if broker.id < 0 or broker.epoch < 0:
        raise UpdateRefused(f"{where} has epoch {broker.epoch}")
    endpoints = tuple(
        Endpoint(one.listener, one.host, one.port, one.security_protocol)
        for one in broker.endpoints
    )
    for endpoint in endpoints:
        is_known = endpoint.security_protocol in _SECURITY_PROTOCOLS
        if not (is_known and 0 <= endpoint.port <= _PORT_MAX):
            raise UpdateRefused(f"{where} has a listener without a port or a security protocol")
    if len({endpoint.listener for endpoint in endpoints}) != len(endpoints):
        raise UpdateRefused(f"{where} has a listener twice")
    features = tuple(FeatureRange(one.name, one.minimum, one.maximum) for one in broker.features)
    if any(not 0 <= feature.minimum <= feature.maximum for feature in features):
        raise UpdateRefused(f"{where} has a feature without levels")
    return Broker(
        BrokerId(broker.id),
        broker.epoch,
        broker.epoch.to_bytes(16),
        endpoints,
        broker.rack,
        features,
        fenced=False,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )


def stated_configs(
    stated: UpdateMetadataConfigResource,
) -> tuple[ConfigResource, list[tuple[str, str | None]]]:
    """Return a resource and its configs; a value of None resets a config."""
    resource = ConfigResource(stated.resource_type, stated.resource_name)
    if resource.type <= 0:
        raise UpdateRefused(f"configs are stated for a resource of type {resource.type}")
    if resource.type == ResourceType.TOPIC:
        _check_topic_name(resource.name)
    try:
        return resource, [
            (entry.key, None if entry.value is None else entry.value.decode())
            for entry in stated.entries
        ]
    except UnicodeDecodeError as error:
        raise UpdateRefused("a config has a value that is no text") from error


def stated_feature(feature: UpdateMetadataFeature) -> tuple[str, int]:
    """Return the name and the level of a feature."""
    if not feature.name or feature.level < 0:
        raise UpdateRefused(f"a feature without a name, or with level {feature.level}")
    return feature.name, feature.level


def _check_topic_name(name: str) -> None:
    try:
        check_topic_name(name)
    except ApiError as error:
        raise UpdateRefused("a topic is stated with a name that is none") from error


def _brokers(where: str, ids: Sequence[int]) -> tuple[BrokerId, ...]:
    if ids and (min(ids) < 0 or len(set(ids)) != len(ids)):
        raise UpdateRefused(f"{where} has a broker twice, or one that is no broker")
    return tuple(map(BrokerId, ids))


def _some_replicas(
    where: str, ids: Sequence[int], replicas: tuple[BrokerId, ...]
) -> tuple[BrokerId, ...]:
    some = _brokers(where, ids)
    if not {*some} <= {*replicas}:
        raise UpdateRefused(f"{where} names a broker that is no replica")
    return some
