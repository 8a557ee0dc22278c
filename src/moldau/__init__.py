"""Moldau: a replicated commit log that speaks Kafka's protocol and keeps Kafka's files.

    from moldau import AsyncProducer, Consumer, TopicPartition

Names of the client are imported on first use; see `moldau.client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.client import (
        Admin,
        Assignment,
        AsyncAdmin,
        AsyncConsumer,
        AsyncDelivery,
        AsyncProducer,
        BrokerError,
        ClientError,
        CommitFailed,
        ConfigError,
        ConfigResource,
        Consumer,
        Delivery,
        GroupMetadata,
        NewTopic,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        OffsetSpec,
        PartitionAssignor,
        Producer,
        ProducerRecord,
        RebalanceListener,
        Record,
        RecordMetadata,
        Results,
        TimestampType,
        TopicPartition,
    )

__version__ = "0.2.0"

__all__ = [
    "Admin",
    "Assignment",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncDelivery",
    "AsyncProducer",
    "BrokerError",
    "ClientError",
    "CommitFailed",
    "ConfigError",
    "ConfigResource",
    "Consumer",
    "Delivery",
    "GroupMetadata",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "PartitionAssignor",
    "Producer",
    "ProducerRecord",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "Results",
    "TimestampType",
    "TopicPartition",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from moldau import client  # noqa: PLC0415 - only who uses the client pays for it

    return getattr(client, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
