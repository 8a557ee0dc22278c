"""The topics that the sink needs for itself: made when they are first wanted."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from moldau.base.errors import UserError
from moldau.client.admin import Admin, ConfigResource
from moldau.client.errors import (
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from moldau.spark.sink.options import SinkOptions

MARKER_PARTITIONS: Final = 16
"""Queries share the marker topic; one that starts may have to wait for another that is in the
middle of its commit if they share a partition, too."""
MARKER_CONFIGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}
"""A marker is read by going through its partition, so that is kept short. A megabyte is the
smallest segment Kafka 4 takes (KIP-1030)."""

STAGING_PARTITIONS: Final = 4
"""Tasks and the driver's reading are spread over so many brokers."""
_STAGED_SIZE_MAX: Final = 100 * 1024 * 1024
"""Whatever a topic takes as one batch is staged as one record; brokers take no larger request."""
_STAGING_SEGMENT_SIZE: Final = 64 * 1024 * 1024
"""Disks are given back by whole segments."""


def ensure_marker_topic(admin: Admin, name: str) -> None:
    """Have a topic for markers; one that is there is left as it is, unless it forgets markers.

    UserError if it does: a query that rests for longer would write its last batch twice.
    """
    _ensure(admin, name, MARKER_PARTITIONS, MARKER_CONFIGS)
    try:
        policy = admin.describe_config(ConfigResource.topic(name))["cleanup.policy"].value
    except TopicAuthorizationFailed:
        return  # who may not look has it set up by somebody else
    if policy != "compact":
        raise UserError(
            f"the topic {name} has cleanup.policy={policy}, so that markers in it would be lost"
            " some day: set it to compact, or name another one by exactly.once.marker.topic"
        )


def ensure_staging_topic(options: SinkOptions, name: str) -> None:
    """Have a topic for staging; one that is there is left as it is."""
    with Admin(**options.connection.admin()) as admin:
        _ensure(admin, name, STAGING_PARTITIONS, _staging_configs(options.staging_retention_ms))


def _ensure(admin: Admin, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    try:
        admin.describe_topic(name)
    except UnknownTopicOrPartition:
        with suppress(TopicAlreadyExists):
            admin.create_topic(name, partitions, configs=configs)


def delete_staging_topic(options: SinkOptions, name: str) -> None:
    """Delete a topic for staging; that it is not there is fine."""
    with Admin(**options.connection.admin()) as admin, suppress(UnknownTopicOrPartition):
        admin.delete_topic(name)


def _staging_configs(retention_ms: int) -> dict[str, str]:
    """Return how a topic for staging is set up."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "segment.bytes": str(_STAGING_SEGMENT_SIZE),
        "max.message.bytes": str(_STAGED_SIZE_MAX),
        "message.timestamp.type": "LogAppendTime",
    }
