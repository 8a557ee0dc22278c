"""The client library: producer, consumer and admin, for asyncio and for threads, on one engine.

Names are imported on first use: importing the package is cheap, and a producer does not load the
consumer.

The modules in this folder and the package `processing` are public; the other packages are not. Code
that producers and consumers share is in `moldau.engine`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.base.errors import ConfigError
    from moldau.client.admin import (
        Admin,
        AsyncAdmin,
        ConfigResource,
        NewTopic,
        OffsetSpec,
        Results,
    )
    from moldau.client.assignors.interface import Assignment, PartitionAssignor
    from moldau.client.consumer import AsyncConsumer, Consumer
    from moldau.client.consuming.coordination import GroupMetadata
    from moldau.client.consuming.listeners import RebalanceListener
    from moldau.client.errors import BrokerError, ClientError, CommitFailed
    from moldau.client.producer import AsyncDelivery, AsyncProducer, Delivery, Producer
    from moldau.client.records import (
        OffsetAndMetadata,
        ProducerRecord,
        Record,
        RecordMetadata,
        TimestampType,
        TopicPartition,
    )
    from moldau.engine.offset_lookup import OffsetAndTimestamp

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
]

_HOMES = {
    "Admin": "admin",
    "Assignment": "assignors.interface",
    "AsyncAdmin": "admin",
    "AsyncConsumer": "consuming.asynchronous",
    "AsyncDelivery": "producing.deliveries",
    "AsyncProducer": "producing.asynchronous",
    "BrokerError": "errors",
    "ClientError": "errors",
    "CommitFailed": "errors",
    "ConfigError": ".base.errors",
    "ConfigResource": "administration.configs",
    "Consumer": "consuming.threaded",
    "Delivery": "producing.deliveries",
    "GroupMetadata": "consuming.coordination",
    "NewTopic": "administration.topics",
    "OffsetAndMetadata": "records",
    "OffsetAndTimestamp": ".engine.offset_lookup",
    "OffsetSpec": "administration.partitions",
    "PartitionAssignor": "assignors.interface",
    "Producer": "producing.threaded",
    "ProducerRecord": "records",
    "RebalanceListener": "consuming.listeners",
    "Record": "records",
    "RecordMetadata": "records",
    "Results": ".engine.results",
    "TimestampType": "records",
    "TopicPartition": "records",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
