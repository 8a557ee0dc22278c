"""The producer, for asyncio and for threads: the same names, settings and behaviour.

    async with AsyncProducer("localhost:9092") as producer:
        delivery = producer.send("topic", b"value", key=b"key")   # like StreamWriter.write
        await producer.drain()                                    # waits while the buffer is full
        metadata = await delivery

    with Producer("localhost:9092") as producer:
        delivery = producer.send("topic", b"value")               # waits while the buffer is full
        metadata = delivery.result()

A background task batches and sends the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from moldau.client.interceptors import ProducerInterceptor
from moldau.client.producing import asynchronous, threaded
from moldau.client.producing.delivery_types import AsyncDelivery, Delivery
from moldau.client.producing.partitioners import (
    AnyPartitioner,
    ConsistentRandomPartitioner,
    KeyedRoundRobinPartitioner,
    MetadataAgePartitioner,
    PartitionedCluster,
    Partitioner,
    PartitionFunction,
    RoundRobinPartitioner,
)
from moldau.client.producing.scopes import AsyncTransaction, Transaction
from moldau.client.records import ProducerRecord
from moldau.client.serdes import TextName, Writer
from moldau.client.statistics import StatsCallback
from moldau.engine.metadata import BrokerImage
from moldau.engine.settings import Servers

__all__ = [
    "AsyncDelivery",
    "AsyncProducer",
    "AsyncTransaction",
    "BrokerImage",
    "ConsistentRandomPartitioner",
    "Delivery",
    "KeyedRoundRobinPartitioner",
    "MetadataAgePartitioner",
    "PartitionFunction",
    "PartitionedCluster",
    "Partitioner",
    "Producer",
    "ProducerInterceptor",
    "ProducerKeywords",
    "ProducerRecord",
    "RoundRobinPartitioner",
    "Transaction",
]


class ProducerKeywords(TypedDict, total=False):
    """The settings of a producer without serializers, to type-check a dict of settings.

    The signature of `Producer` has the defaults.
    """

    acks: str | int
    enable_idempotence: bool | None
    transactional_id: str | None
    transaction_timeout_ms: int
    batch_size: int
    linger_ms: float
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    max_in_flight_requests_per_connection: int
    retries: int
    delivery_timeout_ms: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    partitioner_class: AnyPartitioner | None
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    interceptor_classes: Iterable[ProducerInterceptor | type[ProducerInterceptor]]
    stats_callback: StatsCallback | None
    statistics_interval_ms: float
    client_id: str
    bootstrap_timeout_ms: int
    request_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    metadata_max_idle_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    connections_max_idle_ms: int
    receive_buffer_bytes: int
    send_buffer_bytes: int
    client_dns_lookup: str
    security_protocol: str
    version_ceilings: Mapping[int, int] | None


if TYPE_CHECKING:
    # Type checkers see subclasses, as of consumers: see there. The last overload is for
    # `Producer[str, int](...)`, where a name stands for what the brackets say.
    from typing_extensions import TypeVar

    Raw = bytes | bytearray | memoryview | None
    K = TypeVar("K", default=Raw)
    V = TypeVar("V", default=Raw)

    class AsyncProducer(asynchronous.AsyncProducer[K, V]):
        """The producer, typed by its serializers."""

        @overload
        def __init__(
            self,
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: Writer[K] | None = ...,
            value_serializer: Writer[V] | None = ...,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncProducer[Raw, str],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: None = ...,
            value_serializer: TextName,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncProducer[Raw, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: None = ...,
            value_serializer: str,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncProducer[K, str],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: Writer[K],
            value_serializer: TextName,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncProducer[K, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: Writer[K],
            value_serializer: str,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncProducer[str, Raw],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: TextName,
            value_serializer: None = ...,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncProducer[str, V],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: TextName,
            value_serializer: Writer[V],
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncProducer[str, str],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: TextName,
            value_serializer: TextName,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncProducer[str, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: TextName,
            value_serializer: str,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncProducer[Any, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: str,
            value_serializer: Writer[Any] | str | None = ...,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self,
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: Writer[K] | str | None = ...,
            value_serializer: Writer[V] | str | None = ...,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        def __init__(self, bootstrap_servers: Servers = ..., **settings: Any) -> None: ...

    class Producer(threaded.Producer[K, V]):
        """The producer, typed by its serializers."""

        @overload
        def __init__(
            self,
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: Writer[K] | None = ...,
            value_serializer: Writer[V] | None = ...,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Producer[Raw, str],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: None = ...,
            value_serializer: TextName,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Producer[Raw, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: None = ...,
            value_serializer: str,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Producer[K, str],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: Writer[K],
            value_serializer: TextName,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Producer[K, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: Writer[K],
            value_serializer: str,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Producer[str, Raw],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: TextName,
            value_serializer: None = ...,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Producer[str, V],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: TextName,
            value_serializer: Writer[V],
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Producer[str, str],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: TextName,
            value_serializer: TextName,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Producer[str, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: TextName,
            value_serializer: str,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Producer[Any, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: str,
            value_serializer: Writer[Any] | str | None = ...,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self,
            bootstrap_servers: Servers = ...,
            *,
            key_serializer: Writer[K] | str | None = ...,
            value_serializer: Writer[V] | str | None = ...,
            **settings: Unpack[ProducerKeywords],
        ) -> None: ...

        def __init__(self, bootstrap_servers: Servers = ..., **settings: Any) -> None: ...

else:
    AsyncProducer = asynchronous.AsyncProducer
    Producer = threaded.Producer
