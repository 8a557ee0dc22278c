"""The options of the source, understood: what is read (`extent`), in what portions, and how.

Names, defaults and refusals are those of Spark's own Kafka connector; what is new here stands at
the end of `SourceOptions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.base.errors import ConfigError
from moldau.client.consumer_settings import ConsumerSettings
from moldau.client.producer_settings import ProducerSettings
from moldau.engine.settings import ConnectionSettings, IsolationLevel
from moldau.spark.settings import (
    CLIENT_PREFIX,
    ConnectionOptions,
    Options,
    checked,
    tell_once,
    warn_once,
)
from moldau.spark.sink.options import SinkOptions
from moldau.spark.source.extent import (
    BOUNDS,
    EARLIEST,
    LATEST,
    SUBSCRIPTIONS,
    Bound,
    NoMatch,
    Subscription,
    read_bound,
    read_subscription,
    refuse_offset,
)
from moldau.spark.source.value_options import DEAD_LETTER_TOPIC, ValueOptions
from moldau.spark.source.value_options import NAMES as VALUE_NAMES

MAX_RECORD_BYTES: Final = "maxRecordBytes"

_DEFAULT_POLL_TIMEOUT_MS: Final = 120_000
"""As long as Spark itself waits for what comes over a network (spark.network.timeout)."""
_DEFAULT_TRIGGER_DELAY_MS: Final = 15 * 60_000
_DEFAULT_IDLE_WAIT_MS: Final = 100
"""Short: a query with several sources asks one after the other, so an idle one holds up the rest.
Long enough that an idle query asks ten times a second and not a hundred times."""
_DEFAULT_FETCH_SIZE: Final = 4 * 1024 * 1024
"""Of one partition: a task reads only one, and what an answer costs by itself should not be seen.
Kafka's own default, a quarter of it, is made for consumers that read many."""

_UNITS_MS: Final = {
    "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip


class SourceOptions(NamedTuple):
    """Everything a query over topics was told."""

    connection: ConnectionOptions
    subscription: Subscription
    starting: Bound
    ending: Bound
    no_match: NoMatch
    fail_on_data_loss: bool
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    poll_timeout_ms: int
    """How long a task waits for records that should be there."""
    look_up_timeout_ms: int
    """How long the driver repeats a question: as long as a task waits, unless told otherwise.
    Brokers that were away for a minute are no reason to end a query."""
    retry_count: int
    retry_interval_ms: int
    """How often, and how far apart, offsets are looked up again that cannot be."""
    isolation: IsolationLevel
    fetch_size: int
    check_crcs: bool
    rack: str
    """Where this client stands: a leader may send it to a replica there. Empty if not told."""
    commit_to_group: str | None
    """A group under whose name processed offsets are committed, for lag tools to see."""
    idle_wait_ms: int
    """How long a stream waits for records before it says that there are none."""
    filter_pushdown: bool
    max_record_size: int | None
    """Bytes of a record above which only its beginning is handed on; None for any."""
    values: ValueOptions

    @classmethod
    def for_batch(cls, given: Mapping[str, str]) -> SourceOptions:
        """Read the options of a query over what there is; ConfigError if they cannot be."""
        options = _checked(given)
        starting = read_bound(options, "starting", EARLIEST)
        ending = read_bound(options, "ending", LATEST)
        refuse_offset(starting, LATEST, "a batch cannot begin at the latest offset")
        refuse_offset(ending, EARLIEST, "a batch cannot end at the earliest offset")
        return cls._read(given, options, starting, ending)

    @classmethod
    def for_stream(cls, given: Mapping[str, str]) -> SourceOptions:
        """Read the options of a query that goes on; ConfigError if they cannot be."""
        options = _checked(given)
        for name in BOUNDS["ending"]:
            if name in options:
                raise ConfigError(f"{name} is for batch queries: a stream has no end")
        return cls._read(
            given, options, read_bound(options, "starting", LATEST), Bound(LATEST, option="")
        )

    @classmethod
    def _read(
        cls, given: Mapping[str, str], options: Options, starting: Bound, ending: Bound
    ) -> SourceOptions:
        connection = ConnectionOptions.from_options(given)
        subscription = read_subscription(options)
        values = _values(options, subscription)
        _check_client(connection, values)
        level = options.choice("kafka.isolation.level", tuple(_LEVELS), default="read_uncommitted")
        poll_timeout_ms = options.number("kafkaConsumer.pollTimeoutMs") or _DEFAULT_POLL_TIMEOUT_MS
        most, least = _limits(options)
        return cls(
            connection=connection,
            subscription=subscription,
            starting=starting,
            ending=ending,
            no_match=_no_match(options),
            fail_on_data_loss=options.flag("failOnDataLoss", default=True),
            include_headers=options.flag("includeHeaders", default=False),
            min_partitions=options.number("minPartitions", least=1),
            max_records_per_partition=options.number("maxRecordsPerPartition", least=1),
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay_ms=_duration_ms(options, "maxTriggerDelay"),
            poll_timeout_ms=poll_timeout_ms,
            look_up_timeout_ms=options.number_or("kafka.default.api.timeout.ms", poll_timeout_ms),
            retry_count=options.number_or("fetchOffset.numRetries", 3),
            retry_interval_ms=options.number_or("fetchOffset.retryIntervalMs", 1_000),
            isolation=_LEVELS[level],
            fetch_size=options.number_or(
                "kafka.max.partition.fetch.bytes", _DEFAULT_FETCH_SIZE, least=1
            ),
            check_crcs=options.flag("kafka.check.crcs", default=True),
            rack=options.text("kafka.client.rack") or "",
            commit_to_group=_group(options),
            idle_wait_ms=options.number_or("idleWaitMs", _DEFAULT_IDLE_WAIT_MS),
            filter_pushdown=options.flag("filterPushdown", default=False),
            max_record_size=options.number(MAX_RECORD_BYTES),
            values=values,
        )

    @property
    def needs_headers(self) -> bool:
        """Whether headers are decoded: for the query, or for letters that have them too."""
        return self.include_headers or self.values.dead_letter_topic is not None


_LEVELS: Final = {
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
    "read_committed": IsolationLevel.READ_COMMITTED,
}
NAMES: Final = (
    *SUBSCRIPTIONS, *BOUNDS["starting"], *BOUNDS["ending"],
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "includeHeaders",
    "minPartitions", "maxRecordsPerPartition",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "groupIdPrefix", "partition.metadata.cache.ttl.ms",
    "commitToGroup", "idleWaitMs", "filterPushdown", MAX_RECORD_BYTES, *VALUE_NAMES,
)  # fmt: skip
"""Every option of the source. No group is joined here, so that `groupIdPrefix` names none; and what
is known of partitions is asked for at each trigger, in one request, whatever its time to live."""


def _checked(given: Mapping[str, str]) -> Options:
    options = Options(given)
    options.check_names(NAMES)
    return options


def _no_match(options: Options) -> NoMatch:
    words = [one.value for one in NoMatch]
    return NoMatch(
        options.choice("startingOffsetsByTimestampStrategy", words, default=NoMatch.ERROR.value)
    )


def _limits(options: Options) -> tuple[int | None, int | None]:
    most = options.number("maxOffsetsPerTrigger", least=1)
    least = options.number("minOffsetsPerTrigger", least=1)
    if most is not None and least is not None and least > most:
        raise ConfigError(f"minOffsetsPerTrigger={least} is above maxOffsetsPerTrigger={most}")
    return most, least


def _group(options: Options) -> str | None:
    group = options.text("commitToGroup")
    if group is not None and not group.strip():
        raise ConfigError("commitToGroup is empty: it names the group whose lag is to be seen")
    return group


_OF_CONNECTION: Final = frozenset(ConnectionSettings.__annotations__) - {"allow_auto_create_topics"}
_HAS_EFFECT: Final = _OF_CONNECTION | {
    "isolation_level", "max_partition_fetch_bytes", "check_crcs", "client_rack",
    "default_api_timeout_ms", "group_id",
}  # fmt: skip
"""Settings of the client that the source looks at. Of a group it warns that it joins none."""
_OF_JOINING: Final = frozenset(["group_protocol"])
"""What says how a group is joined, which our client may refuse and Spark's connector does not."""


def _check_client(connection: ConnectionOptions, values: ValueOptions) -> None:
    """Refuse settings that the client would, and tell of those that change nothing here."""
    checked(ConsumerSettings, connection.those_of(ConsumerSettings, but=_OF_JOINING))
    _warn_of_group(connection.settings.get("group.id"))
    effective = _HAS_EFFECT
    if values.dead_letter_topic is not None:
        letter_options(connection, values.dead_letter_topic)
        effective |= frozenset(ProducerSettings.__annotations__)
    for name in connection.settings:
        if name.replace(".", "_") not in effective:
            tell_once(CLIENT_PREFIX + name, "it changes nothing about how Spark reads topics")


def letter_options(connection: ConnectionOptions, topic: str) -> SinkOptions:
    """Return how dead letters are written; ConfigError if they cannot be."""
    given = {CLIENT_PREFIX + name: value for name, value in connection.settings.items()}
    return SinkOptions.from_options({**given, "topic": topic})


def _warn_of_group(group: str | None) -> None:
    """Say that a consumer group was named in vain."""
    if group is not None:
        warn_once(
            f"kafka.group.id={group} has no effect: no group is joined, and the position of a query"
            " is in its checkpoint. commitToGroup names a group that shows the lag of a stream"
        )


def _values(options: Options, subscription: Subscription) -> ValueOptions:
    found = ValueOptions.from_options(options)
    topic = found.dead_letter_topic
    if topic is not None and subscription.matches(topic):
        raise ConfigError(
            f"{DEAD_LETTER_TOPIC}={topic} is read by this query too, which would write what it"
            " cannot read for ever: take another topic"
        )
    return found


def _duration_ms(options: Options, name: str) -> int:
    """Read a time such as `15m`, as Spark writes them; a bare number is milliseconds."""
    text = options.text(name)
    if text is None:
        return _DEFAULT_TRIGGER_DELAY_MS
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if found is None or (unit := found[2] or "ms") not in _UNITS_MS:
        raise ConfigError(f"{name}={text!r} is no time such as 30s or 15m")
    return int(found[1]) * _UNITS_MS[unit]
