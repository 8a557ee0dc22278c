"""What both faces of the consumer share: one signature, and how the parts are put together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic

from moldau.base.errors import ConfigError
from moldau.client.consumer_settings import ConsumerSettings, ResetPolicy
from moldau.client.consuming.coordination import Coordination, Offsets, Subscription
from moldau.client.consuming.core import ConsumerCore
from moldau.client.consuming.decoding import DecodingRules
from moldau.client.consuming.listeners import check_listener
from moldau.client.consuming.user_calls import UserCalls
from moldau.client.errors import ClientClosed, InvalidArgument, InvalidSetting, InvalidState
from moldau.client.interceptors import InterceptorChain
from moldau.client.records import K_co, Record, V_co
from moldau.client.serdes import Deserializer, close, configure, deserialize_with
from moldau.client.settings import accepts_kafka_names, name_of
from moldau.client.statistics import Metrics, StatsCallback
from moldau.engine.arguments import check_topic
from moldau.engine.cluster import Cluster
from moldau.engine.one_client import OneClient
from moldau.engine.ports import ClientPorts, system_ports
from moldau.engine.settings import (
    DEFAULT_SERVERS,
    ConnectionSettings,
    IsolationLevel,
    Servers,
    one_of,
    pick,
)

if TYPE_CHECKING:
    from moldau.client.assignors.interface import PartitionAssignor
    from moldau.engine.arrow_batches import ArrowForm


_LEVELS: Final = {level.name.lower(): level for level in IsolationLevel}
CLOSE_TIMEOUT_S: Final = 30.0
"""How long closing waits for the last commit and for leaving the group; Kafka's is the same."""

DEFAULT_STRATEGY: Final = ("range", "cooperative-sticky")


class ConsumerFace(OneClient, Generic[K_co, V_co]):
    """Settings and what needs no waiting; the faces add how they wait."""

    _core: ConsumerCore | None = None

    @accepts_kafka_names
    def __init__(
        self,
        bootstrap_servers: Servers = DEFAULT_SERVERS,
        *,
        group_id: str | None = None,
        topics: Sequence[str] = (),
        key_deserializer: Deserializer[K_co] | Callable[[bytes], K_co] | str | None = None,
        value_deserializer: Deserializer[V_co] | Callable[[bytes], V_co] | str | None = None,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        isolation_level: str = "read_uncommitted",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int = 1_048_576,
        max_poll_records: int = 500,
        prefetch_max_bytes: int = 33_554_432,
        check_crcs: bool = True,
        client_rack: str = "",
        group_instance_id: str | None = None,
        group_protocol: str = "classic",
        partition_assignment_strategy: Sequence[Any] | str = DEFAULT_STRATEGY,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        default_api_timeout_ms: int = 60_000,
        exclude_internal_topics: bool = True,
        allow_auto_create_topics: bool = True,
        interceptor_classes: Iterable[Any] = (),
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
        metadata_recovery_strategy: str = "rebootstrap",
        metadata_recovery_rebootstrap_trigger_ms: int = 300_000,
        connections_max_idle_ms: int = 540_000,
        # Kafka's 65536 wakes the loop for every 64 KB of an answer of a megabyte, and while one is
        # decoded no more than that of the next comes in.
        receive_buffer_bytes: int = -1,
        send_buffer_bytes: int = 131_072,
        client_dns_lookup: str = "use_all_dns_ips",
        security_protocol: str = "PLAINTEXT",
        version_ceilings: Mapping[int, int] | None = None,
        _ports: ClientPorts | None = None,
    ) -> None:
        """Check the settings; raises ConfigError. It does not connect yet.

        With `topics`, the consumer subscribes to them if it has a group. Without a group, all their
        partitions are assigned to it.
        """
        self._take_settings({name: value for name, value in locals().items() if name != "self"})

    def _take_settings(self, values: dict[str, Any]) -> None:
        level = values["isolation_level"].lower()
        one_of(tuple(_LEVELS), "isolation_level", level)
        values["isolation_level"] = _LEVELS[level]
        values["auto_offset_reset"] = ResetPolicy.parse(values["auto_offset_reset"])
        values["version_ceilings"] = values["version_ceilings"] or {}
        values["client_id"] = name_of(values["client_id"])
        values["partition_assignment_strategy"] = _strategies(
            values["partition_assignment_strategy"]
        )
        self._connection_settings = pick(ConnectionSettings, values)
        self._settings = pick(ConsumerSettings, values)
        self._assignors = self._make_assignors()
        self._ports = values["_ports"] or system_ports(self._connection_settings)
        self._topics = _checked_topics(values["topics"])
        self._subscription = Subscription()
        self._deserializers = (values["key_deserializer"], values["value_deserializer"])
        self._rules = DecodingRules(
            values["check_crcs"],
            self._settings.isolation_level is IsolationLevel.READ_COMMITTED,
            *(deserialize_with(given) for given in self._deserializers),
        )
        for given, is_key in zip(self._deserializers, (True, False), strict=True):
            configure(given, values, is_key=is_key)
        self._interceptors = InterceptorChain(values["interceptor_classes"], values)
        self._is_closing = False
        """No more records are handed out; a listener told of the end may still commit."""
        self._is_closed = False

    def metrics(self) -> Metrics:
        """Return metrics under Kafka's names; empty before `start`."""
        return {} if self._core is None else self._core.metrics()

    @property
    def commits_automatically(self) -> bool:
        """Whether offsets are committed automatically; never without a group."""
        return self._settings.group_id is not None and self._settings.enable_auto_commit

    # Putting the parts together

    def _make_core(self, calls: UserCalls) -> ConsumerCore:
        """Make what works; on the event loop that will own it."""
        return ConsumerCore(
            Cluster(self._connection_settings, self._ports),
            self._settings,
            self._rules,
            calls,
            self._make_group if self._settings.group_id is not None else None,
            self._intercepted if self._interceptors else None,
        )

    def _make_assignors(self) -> Sequence[PartitionAssignor]:
        """Make what divides partitions, at once: a name that is none is an error of the settings.

        A consumer without a group does not pay for importing any.
        """
        if self._settings.group_id is None:
            return ()
        from moldau.client.assignors.choice import assignors_of  # noqa: PLC0415

        return assignors_of(self._settings.partition_assignment_strategy)

    def _make_group(self, core: ConsumerCore) -> Coordination:
        from moldau.client.consuming.group import ConsumerGroup  # noqa: PLC0415 - see above

        assert self._settings.group_id is not None
        return ConsumerGroup(
            self._settings.group_id,
            self._settings,
            self._assignors,
            core.cluster,
            core,
            self._told_of_commit if self._interceptors else None,
        )

    def _told_of_commit(self, offsets: Offsets) -> None:
        self._interceptors.tell("on_commit", offsets)

    def _intercepted(self, records: list[Record[Any, Any]]) -> list[Record[Any, Any]]:
        return self._interceptors.changed("on_consume", records)

    def _check_not_closed(self) -> None:
        if self._is_closing:
            raise ClientClosed("the consumer has been closed")

    @property
    def _running(self) -> ConsumerCore:
        if self._is_closed or (self._is_closing and self._core is None):
            raise ClientClosed("the consumer has been closed")
        if self._core is None:
            raise InvalidState(
                "the consumer has not been started", advice="Use it in a `with` block."
            )
        return self._core

    async def _begin(self, core: ConsumerCore) -> None:
        """Start the parts and take up the topics given to the constructor."""
        try:
            await core.start()
            if self._topics and core.coordination is not None:
                self._subscription = Subscription(self._topics)
                core.subscribe(self._subscription)
            elif self._topics:
                found = [await core.partitions_of(topic, None) for topic in self._topics]
                core.assign(partition for each in found for partition in sorted(each))
        except BaseException:
            await core.close(0)
            raise

    def _close_parts(self) -> None:
        """Close what the user gave us to use."""
        for given in self._deserializers:
            close(given)
        self._interceptors.close()


def subscription_of(
    topics: Sequence[str], pattern: str | re.Pattern[str] | None, listener: Any
) -> Subscription:
    """Read what the user wants to subscribe to; InvalidSetting if it is nothing or both."""
    if bool(topics) == (pattern is not None):
        raise InvalidSetting("subscribe to topics by name, or to those that match a pattern")
    if isinstance(pattern, str):
        try:
            pattern = re.compile(pattern)
        except re.error as error:
            raise InvalidSetting(f"the pattern {pattern!r:.100} is none: {error}") from None
    if pattern is not None and not _matches_text(pattern):
        raise InvalidSetting(f"pattern={pattern!r:.100} is neither text nor compiled of text")
    check_listener(listener)
    return Subscription(_checked_topics(topics), pattern, listener)


def _matches_text(pattern: object) -> bool:
    return isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str)


def arrow_form(given: ArrowForm | None) -> ArrowForm:
    """Return the form of record batches, the usual one where none is given.

    InvalidSetting where Arrow is not installed.
    """
    try:
        from moldau.engine.arrow_batches import ArrowForm  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise InvalidSetting(
            f"record batches need pyarrow and numpy: pip install 'moldau[arrow]' ({error})"
        ) from error
    if given is not None and not isinstance(given, ArrowForm):
        raise InvalidArgument(f"form={given!r:.100} is not an ArrowForm")
    return given or ArrowForm()


def _strategies(given: Any) -> tuple[Any, ...]:
    strategies = given.split(",") if isinstance(given, str) else given
    if not isinstance(strategies, Iterable) or not (listed := tuple(strategies)):
        raise ConfigError(f"partition_assignment_strategy={given!r:.100} lists no assignors")
    return listed


def _checked_topics(topics: Sequence[str]) -> tuple[str, ...]:
    if isinstance(topics, str):
        raise InvalidSetting(f"topics is a list of names: [{topics!r}]")
    try:
        names = tuple(topics)
    except TypeError:
        raise InvalidSetting(f"topics={topics!r:.100} is not a list of names") from None
    for name in names:
        check_topic(name)
    return names
