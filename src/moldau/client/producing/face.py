"""What both faces of the producer share.

One signature, and what happens to a record before it is bytes in a batch: interceptors,
serializers, a partitioner of the user's own.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from moldau.base.clock import Clock, Random
from moldau.base.errors import ConfigError
from moldau.base.tuples import NamedTuple
from moldau.client.errors import ClientClosed, ClientError, InvalidArgument, SerializationFailed
from moldau.client.interceptors import InterceptorChain, ProducerInterceptor
from moldau.client.producer_settings import ProducerSettings
from moldau.client.producing.deliveries import Sent, error_of, watch_delivery
from moldau.client.producing.outbox import check_bytes, plain_fields
from moldau.client.producing.partitioners import (
    AnyPartitioner,
    ConsistentRandomPartitioner,
    FunctionPartitioner,
    KeyedRoundRobinPartitioner,
    MetadataAgePartitioner,
    PartitionedCluster,
    Partitioner,
    RoundRobinPartitioner,
)
from moldau.client.records import Header, K, ProducerRecord, V
from moldau.client.serdes import (
    Serializer,
    close,
    configure,
    serialize_with,
)
from moldau.client.settings import accepts_kafka_names, name_of
from moldau.client.statistics import Metrics, StatsCallback
from moldau.engine.one_client import OneClient
from moldau.engine.ports import ClientPorts, system_ports
from moldau.engine.settings import (
    DEFAULT_SERVERS,
    INT32_MAX,
    ConnectionSettings,
    Servers,
    pick,
)

if TYPE_CHECKING:
    from moldau.client.producing.core import ProducerCore

R = TypeVar("R")

Headers = Iterable[Header] | Mapping[str, bytes | None]

STOPPED_PATIENCE_S: Final = 1.0
"""How long a block that was cancelled, or left by Ctrl-C, waits for what was sent in it: enough for
a broker that is well, and no more than a person would wait who wants it to stop."""

PARTITIONERS: Final[Mapping[str, Callable[[Random, Clock], Partitioner] | None]] = {
    "default": None,
    "round_robin": lambda random, _: RoundRobinPartitioner(random),
    "keyed_round_robin": lambda random, _: KeyedRoundRobinPartitioner(random),
    "consistent_random": lambda random, _: ConsistentRandomPartitioner(random),
    "metadata_age": MetadataAgePartitioner,
}
"""The built-in ones by name; the default needs none."""

_OTHER_NAMES: Final = {
    "crc32": "consistent_random",
    "murmur2_random": "default",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "default",
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "default",
}

_METHODS: Final = ("configure", "partition", "close")
"""What a partitioner of the user's own has."""


class Prepared(NamedTuple):
    """A record in bytes, as far as is known before it is put."""

    topic: str
    key: Any
    value: Any
    partition: int | None
    timestamp_ms: int | None
    headers: Any


class ProducerFace(OneClient, Generic[K, V]):
    """Settings and preparation; the faces add how they wait."""

    @accepts_kafka_names
    def __init__(
        self,
        bootstrap_servers: Servers = DEFAULT_SERVERS,
        *,
        key_serializer: Serializer[K] | Callable[[K], bytes] | str | None = None,
        value_serializer: Serializer[V] | Callable[[V], bytes] | str | None = None,
        acks: str | int = "all",
        enable_idempotence: bool | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        batch_size: int = 16_384,
        linger_ms: float = 5,
        buffer_memory: int = 33_554_432,
        max_block_ms: int = 60_000,
        max_request_size: int = 1_048_576,
        max_in_flight_requests_per_connection: int = 5,
        retries: int = INT32_MAX,
        delivery_timeout_ms: int = 120_000,
        compression_type: str = "none",
        compression_gzip_level: int = -1,
        compression_lz4_level: int = 9,
        compression_zstd_level: int = 3,
        partitioner_class: AnyPartitioner | None = None,
        partitioner_ignore_keys: bool = False,
        partitioner_adaptive_partitioning_enable: bool = True,
        partitioner_availability_timeout_ms: int = 0,
        interceptor_classes: Iterable[ProducerInterceptor | type[ProducerInterceptor]] = (),
        stats_callback: StatsCallback | None = None,
        statistics_interval_ms: float = 0,
        client_id: str = "",
        bootstrap_timeout_ms: int = 10_000,
        request_timeout_ms: int = 30_000,
        socket_connection_setup_timeout_ms: int = 10_000,
        socket_connection_setup_timeout_max_ms: int = 30_000,
        reconnect_backoff_ms: int = 50,
        reconnect_backoff_max_ms: int = 1_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        metadata_max_age_ms: int = 300_000,
        metadata_max_idle_ms: int = 300_000,
        metadata_recovery_strategy: str = "rebootstrap",
        metadata_recovery_rebootstrap_trigger_ms: int = 300_000,
        connections_max_idle_ms: int = 540_000,
        receive_buffer_bytes: int = 32_768,
        send_buffer_bytes: int = 131_072,
        client_dns_lookup: str = "use_all_dns_ips",
        security_protocol: str = "PLAINTEXT",
        version_ceilings: Mapping[int, int] | None = None,
        _ports: ClientPorts | None = None,
    ) -> None:
        """Check the settings; raises ConfigError. It does not connect yet."""
        values = {name: value for name, value in locals().items() if name != "self"}
        values |= {"version_ceilings": version_ceilings or {}, "client_id": name_of(client_id)}
        self._connection_settings = pick(ConnectionSettings, values)
        self._settings = pick(ProducerSettings, values)
        self._ports = _ports or system_ports(self._connection_settings)
        self._serializers = (key_serializer, value_serializer)
        self._serialize_key = serialize_with(key_serializer)
        self._serialize_value = serialize_with(value_serializer)
        for given, is_key in ((key_serializer, True), (value_serializer, False)):
            configure(given, values, is_key=is_key)
        self._partitioner = _partitioner(partitioner_class, self._ports)
        if self._partitioner is not None:
            self._partitioner.configure(values)
        self._interceptors = InterceptorChain(interceptor_classes, values)
        serializes = self._serialize_key or self._serialize_value
        self._prepares = bool(serializes or self._partitioner or self._interceptors)
        self._crowd = self._settings.buffer_memory // 2
        """Bytes in the buffer above which those who can wait, wait."""
        self._set_up()

    _is_closed = False
    """Closed, if only before it was started."""

    def _set_up(self) -> None:
        """Make what a face needs of its own."""

    _core: ProducerCore[Any] | None = None

    def metrics(self) -> Metrics:
        """Return metrics under Kafka's names; empty before `start`."""
        return {} if self._core is None else self._core.metrics()

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise ClientClosed("the producer has been closed")

    def _intercepted(self, record: ProducerRecord[K, V]) -> ProducerRecord[K, V]:
        changed = self._interceptors.changed("on_send", record, ProducerRecord)
        if changed is not record:
            changed = changed._replace(headers=header_pairs(changed.headers))
        return changed

    def _prepared(
        self, record: ProducerRecord[K, V], cluster: PartitionedCluster | None
    ) -> Prepared:
        """Make bytes of a record, and choose its partition where a partitioner is to.

        `cluster` is None while the topic is not known; the partition is then left open.
        """
        topic, value, key, partition, timestamp_ms, headers = record
        key_bytes: Any = key
        value_bytes: Any = value
        if self._serialize_key is not None:
            key_bytes = self._serialize_key(topic, key)
        if self._serialize_value is not None:
            value_bytes = self._serialize_value(topic, value)
        if partition is None and self._partitioner is not None and cluster is not None:
            partition = self._chosen(record, key_bytes, value_bytes, cluster)
        return Prepared(topic, key_bytes, value_bytes, partition, timestamp_ms, headers)

    def _chosen(
        self,
        record: ProducerRecord[K, V],
        key_bytes: bytes | None,
        value_bytes: bytes | None,
        cluster: PartitionedCluster,
    ) -> int:
        assert self._partitioner is not None
        topic, value, key = record[:3]
        if (key_bytes is not None and type(key_bytes) is not bytes) or (
            value_bytes is not None and type(value_bytes) is not bytes
        ):
            check_bytes(key_bytes, value_bytes, ())
            key_bytes, value_bytes, _ = plain_fields(key_bytes, value_bytes, ())
        try:
            partition = self._partitioner.partition(
                topic, key, key_bytes, value, value_bytes, cluster
            )
        except ClientError:
            raise
        except Exception as error:
            raise SerializationFailed(
                f"the partitioner failed: {error!r:.300}", advice="Its traceback is in __cause__."
            ) from error
        if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
            raise SerializationFailed(
                f"the partitioner chose {partition!r:.100}",
                advice="A partition is an int from 0 on.",
            )
        return partition

    def _choice(
        self, record: ProducerRecord[K, V], prepared: Prepared, cluster: PartitionedCluster
    ) -> Callable[[], int] | None:
        """Return how to choose the partition once the topic is known."""
        if self._partitioner is None or prepared.partition is not None:
            return None
        return partial(self._chosen, record, prepared.key, prepared.value, cluster)

    def _report(self, delivery: Sent) -> None:
        """Have interceptors told what becomes of a record."""
        watch_delivery(delivery, self._acknowledged)

    def _acknowledged(self, delivery: Sent) -> None:
        error = error_of(delivery)
        metadata = None if error is not None else delivery.metadata()
        self._interceptors.tell("on_acknowledgement", metadata, error)

    def _not_sent(self, error: ClientError) -> None:
        self._interceptors.tell("on_acknowledgement", None, error)

    def _close_parts(self) -> None:
        """Close what the user gave us to use."""
        self._interceptors.close()
        for given in self._serializers:
            close(given)
        if self._partitioner is not None:
            self._partitioner.close()


def patience_after(error: type[BaseException] | None) -> float | None:
    """Return how long the end of a block may take: short, where somebody wants it to stop."""
    is_stopped = error is not None and issubclass(error, (KeyboardInterrupt, CancelledError))
    return STOPPED_PATIENCE_S if is_stopped else None


def header_pairs(headers: Any) -> Any:
    """Take headers also as a mapping, or as what can be walked once: they are walked again.

    What is none of these is left to be refused with the record.
    """
    if headers is None or isinstance(headers, (list, tuple)):
        return headers or ()
    if isinstance(headers, Mapping):
        return tuple(headers.items())
    return tuple(headers) if isinstance(headers, Iterable) else headers


def each_record(records: Iterable[R]) -> Iterator[R]:
    """Take records one by one; InvalidArgument for what is one, above all one text."""
    if isinstance(records, (str, bytes)) or not isinstance(records, Iterable):
        raise InvalidArgument(f"records are several: [{records!r:.100}]")
    return iter(records)


def record_fields(topic: str, record: Any) -> tuple[Any, Any, int | None, int | None, Headers]:
    """Return value, key, partition, timestamp and headers of a record, or of a mere value."""
    if isinstance(record, ProducerRecord):
        if record.topic != topic:
            raise InvalidArgument(
                f"a record for {record.topic} cannot be sent to {topic}: use send()"
            )
        return record[1:]
    return record, None, None, None, ()


def _partitioner(given: Any, ports: ClientPorts) -> Partitioner | None:
    """Find a partitioner by name, make one of a class, or take it as it is; else ConfigError."""
    if given is None:
        return None
    if isinstance(given, str):
        return _named_partitioner(given, ports)
    if callable(given) and not isinstance(given, type) and not hasattr(given, "partition"):
        return FunctionPartitioner(given)
    missing = [name for name in _METHODS if not callable(getattr(given, name, None))]
    if missing:
        raise ConfigError(
            f"partitioner_class={given!r} is no partitioner: it has no {', '.join(missing)}"
        )
    try:
        made: Partitioner = given() if isinstance(given, type) else given
    except TypeError as error:
        raise ConfigError(f"partitioner_class: cannot create {given!r}: {error}") from error
    return made


def _named_partitioner(given: str, ports: ClientPorts) -> Partitioner | None:
    name = _OTHER_NAMES.get(given, given)
    if name not in PARTITIONERS:
        raise ConfigError(
            f"partitioner_class={given!r} is neither a partitioner nor one of"
            f" {', '.join(PARTITIONERS)}"
        )
    make = PARTITIONERS[name]
    return make(ports.random, ports.clock) if make is not None else None
