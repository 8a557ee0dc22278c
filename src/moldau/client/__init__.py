"""The client library: producer, consumer and admin, for asyncio and for threads, on one engine.

Names are loaded when they are first used, so that importing the package costs nothing and a
producer does not bring the consumer along.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.client.admin import Admin, AsyncAdmin
    from moldau.client.consumer import AsyncConsumer, Consumer
    from moldau.client.errors import BrokerError, ClientError
    from moldau.client.producer import AsyncProducer, Producer
    from moldau.client.records import (
        OffsetAndMetadata,
        Record,
        RecordMetadata,
        TimestampType,
        TopicPartition,
    )

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "BrokerError",
    "ClientError",
    "Consumer",
    "OffsetAndMetadata",
    "Producer",
    "Record",
    "RecordMetadata",
    "TimestampType",
    "TopicPartition",
]

_HOMES = {
    "Admin": "admin",
    "AsyncAdmin": "admin",
    "AsyncConsumer": "consumer",
    "AsyncProducer": "producer",
    "BrokerError": "errors",
    "ClientError": "errors",
    "Consumer": "consumer",
    "OffsetAndMetadata": "records",
    "Producer": "producer",
    "Record": "records",
    "RecordMetadata": "records",
    "TimestampType": "records",
    "TopicPartition": "records",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
