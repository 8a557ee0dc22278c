"""Decisions about the configs in the metadata. Pure.

The server's tables know which keys exist and which values are legal. This module only knows which
resources can have configs, and what else a change of a config changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.base.texts import shorten
from moldau.cluster.changes import Change, ConfigChanged, EligibleLeadersCleared
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import ConfigResource, ResourceType
from moldau.protocol.errors import ApiError, ErrorCode

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"

UNCLEAN_ELECTIONS: Final = "unclean.leader.election.enable"

EVERY_BROKER: Final = ConfigResource(ResourceType.BROKER, "")
"""Configs of all brokers."""

ELIGIBLE_LEADERS_FEATURE: Final = "eligible.leader.replicas.version"
"""At level 1 the controller keeps eligible leader replicas (KIP-966)."""


def alter_configs(
    image: MetadataImage, resource: ConfigResource, settings: Mapping[str, str | None]
) -> list[Change]:
    """Decide on setting some configs of a resource; None resets one to its default."""
    if resource.type == ResourceType.TOPIC and image.topic(resource.name) is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"The topic '{shorten(resource.name)}' does not exist.",
        )
    if resource.type == ResourceType.BROKER and eligible_leaders_kept(image):
        _check_minimum(resource, settings)
    current = image.config(resource)
    changes: list[Change] = [
        ConfigChanged(resource, key, value)
        for key, value in settings.items()
        if current.get(key) != value
    ]
    clears = eligible_leaders_kept(image) and any(
        isinstance(change, ConfigChanged) and change.key == MIN_INSYNC_REPLICAS
        for change in changes
    )
    if clears and resource.type == ResourceType.TOPIC:
        changes.append(EligibleLeadersCleared(resource.name))
    elif clears and resource == EVERY_BROKER:
        # A replica that was eligible with the old minimum may lack records that are committed with
        # the new one.
        changes.append(EligibleLeadersCleared())
    return changes


def _check_minimum(resource: ConfigResource, settings: Mapping[str, str | None]) -> None:
    """Refuse to set the minimum for one broker, or to remove that of the cluster.

    The choice of eligible leaders depends on it, so it must be the same on all brokers.
    """
    if MIN_INSYNC_REPLICAS not in settings:
        return
    if resource != EVERY_BROKER:
        problem = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
    elif settings[MIN_INSYNC_REPLICAS] is None:
        problem = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
    else:
        return
    raise ApiError(ErrorCode.INVALID_CONFIG, problem)


def replace_configs(
    image: MetadataImage, resource: ConfigResource, settings: Mapping[str, str]
) -> list[Change]:
    """Decide on replacing all configs of a resource, as the older AlterConfigs does."""
    removed = dict.fromkeys(image.config(resource).keys() - settings.keys())
    return alter_configs(image, resource, {**dict(sorted(removed.items())), **settings})


def min_insync_replicas(image: MetadataImage, topic: str) -> int:
    """Return the minimum of a topic in the metadata; Kafka's default 1 if there is none."""
    for resource in (
        ConfigResource(ResourceType.TOPIC, topic),
        EVERY_BROKER,
    ):
        if (value := image.config(resource).get(MIN_INSYNC_REPLICAS)) is not None:
            return int(value)
    return 1


def unclean_elections_allowed(image: MetadataImage, topic: str, *, default: bool) -> bool:
    """Tell whether a topic would rather lose records than wait; `default` is the controller's."""
    for resource in (ConfigResource(ResourceType.TOPIC, topic), EVERY_BROKER):
        if (value := image.config(resource).get(UNCLEAN_ELECTIONS)) is not None:
            return value.lower() == "true"
    return default


def eligible_leaders_kept(image: MetadataImage) -> bool:
    """Tell whether this cluster keeps track of eligible leader replicas."""
    return image.features.get(ELIGIBLE_LEADERS_FEATURE, 0) >= 1
