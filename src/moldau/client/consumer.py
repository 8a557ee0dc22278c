"""The consumer, for asyncio and for threads: the same names, settings and behaviour.

    async with AsyncConsumer("localhost:9092", group_id="g", topics=["t"]) as consumer:
        async for record in consumer:                       # or
            print(record.offset, record.value)
        async for batch in consumer.batches(): ...          # lists of records of one partition
        records = await consumer.poll(timeout_ms=1000)      # the records available now

    with Consumer("localhost:9092", group_id="g", topics=["t"]) as consumer:
        for record in consumer: ...

A background task fetches records ahead and sends heartbeats. Each record is returned once.
Automatic commits include a record, batch or poll only after you have asked for the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from moldau.client.consuming import asynchronous, threaded
from moldau.client.consuming.coordination import GroupMetadata, Subscription
from moldau.client.consuming.listeners import RebalanceListener
from moldau.client.serdes import Reader, TextName
from moldau.client.statistics import StatsCallback
from moldau.engine.offset_lookup import OffsetAndTimestamp
from moldau.engine.settings import Servers

__all__ = [
    "AsyncConsumer",
    "Consumer",
    "ConsumerKeywords",
    "GroupMetadata",
    "OffsetAndTimestamp",
    "RebalanceListener",
    "Subscription",
]


class ConsumerKeywords(TypedDict, total=False):
    """The settings of a consumer without deserializers, to type-check a dict of settings.

    The signature of `Consumer` has the defaults.
    """

    group_id: str | None
    topics: Sequence[str]
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: str
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    prefetch_max_bytes: int
    check_crcs: bool
    client_rack: str
    group_instance_id: str | None
    group_protocol: str
    partition_assignment_strategy: Sequence[Any] | str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    default_api_timeout_ms: int
    exclude_internal_topics: bool
    allow_auto_create_topics: bool
    interceptor_classes: Iterable[Any]
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
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    connections_max_idle_ms: int
    receive_buffer_bytes: int
    send_buffer_bytes: int
    client_dns_lookup: str
    security_protocol: str
    version_ceilings: Mapping[int, int] | None


if TYPE_CHECKING:
    # Type checkers see these subclasses; at run time there are none. Only an overload can give the
    # text "str" a type, and mypy takes it only if `self` names the very class. A key that is not
    # given is spelt out as None: pyright would leave its type open beside a `self` of its own.
    # One overload for each pair of types would be 64; all names but "str" are Any instead.
    from typing_extensions import TypeVar

    Raw = bytes | None
    K_co = TypeVar("K_co", default=Raw, covariant=True)
    V_co = TypeVar("V_co", default=Raw, covariant=True)

    class AsyncConsumer(asynchronous.AsyncConsumer[K_co, V_co]):
        """The consumer, typed by its deserializers."""

        @overload
        def __init__(
            self,
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: Reader[K_co] | None = ...,
            value_deserializer: Reader[V_co] | None = ...,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncConsumer[Raw, str],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: None = ...,
            value_deserializer: TextName,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncConsumer[Raw, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: None = ...,
            value_deserializer: str,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncConsumer[K_co, str],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: Reader[K_co],
            value_deserializer: TextName,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncConsumer[K_co, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: Reader[K_co],
            value_deserializer: str,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncConsumer[str, Raw],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: TextName,
            value_deserializer: None = ...,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncConsumer[str, V_co],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: TextName,
            value_deserializer: Reader[V_co],
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncConsumer[str, str],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: TextName,
            value_deserializer: TextName,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncConsumer[str, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: TextName,
            value_deserializer: str,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: AsyncConsumer[Any, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: str,
            value_deserializer: Reader[Any] | str | None = ...,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        def __init__(self, bootstrap_servers: Servers = ..., **settings: Any) -> None: ...

    class Consumer(threaded.Consumer[K_co, V_co]):
        """The consumer, typed by its deserializers."""

        @overload
        def __init__(
            self,
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: Reader[K_co] | None = ...,
            value_deserializer: Reader[V_co] | None = ...,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Consumer[Raw, str],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: None = ...,
            value_deserializer: TextName,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Consumer[Raw, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: None = ...,
            value_deserializer: str,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Consumer[K_co, str],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: Reader[K_co],
            value_deserializer: TextName,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Consumer[K_co, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: Reader[K_co],
            value_deserializer: str,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Consumer[str, Raw],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: TextName,
            value_deserializer: None = ...,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Consumer[str, V_co],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: TextName,
            value_deserializer: Reader[V_co],
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Consumer[str, str],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: TextName,
            value_deserializer: TextName,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Consumer[str, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: TextName,
            value_deserializer: str,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        @overload
        def __init__(
            self: Consumer[Any, Any],
            bootstrap_servers: Servers = ...,
            *,
            key_deserializer: str,
            value_deserializer: Reader[Any] | str | None = ...,
            **settings: Unpack[ConsumerKeywords],
        ) -> None: ...

        def __init__(self, bootstrap_servers: Servers = ..., **settings: Any) -> None: ...

else:
    AsyncConsumer = asynchronous.AsyncConsumer
    Consumer = threaded.Consumer
