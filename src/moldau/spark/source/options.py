"""The options of the source, understood: which topics, from where to where, in what portions.

Names, defaults and refusals are those of Spark's own Kafka connector; what is new here stands at
the end of `SourceOptions`. Values only: what an offset such as "latest" is, is looked up elsewhere.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from moldau.base.errors import ConfigError
from moldau.client.consuming.settings import ConsumerSettings, IsolationLevel
from moldau.client.producing.settings import ProducerSettings
from moldau.client.records import TopicPartition
from moldau.client.settings import ConnectionSettings
from moldau.spark.settings import (
    CLIENT_PREFIX,
    ConnectionOptions,
    Options,
    checked,
    tell_once,
    warn_once,
)
from moldau.spark.sink.options import SinkOptions
from moldau.spark.source.value_options import DEAD_LETTER_TOPIC, ValueOptions
from moldau.spark.source.value_options import NAMES as VALUE_NAMES

LATEST: Final = -1
EARLIEST: Final = -2
"""Offsets that are looked up, as the JSON of Spark's own connector writes them."""

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


class Subscription(NamedTuple):
    """Which partitions are read: exactly one of the three is given."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression that is found somewhere in the name of a topic."""
    partitions: tuple[TopicPartition, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The topics that are named; none with a pattern."""
        return frozenset(self.topics) | {one.topic for one in self.partitions}

    def matches(self, topic: str) -> bool:
        """Tell whether a topic is wanted, by its name."""
        if self.pattern is not None:
            return re.search(self.pattern, topic) is not None
        return topic in self.names

    def wants(self, partition: TopicPartition) -> bool:
        """Tell whether a partition of such a topic is wanted."""
        return not self.partitions or partition in self.partitions


class Bound(NamedTuple):
    """Where reading begins or ends: an offset or a time for all partitions, or for each its own."""

    everywhere: int | None = None
    """An offset: EARLIEST or LATEST. With `by_time`, a time."""
    each: Mapping[TopicPartition, int] | None = None
    by_time: bool = False
    """Whether numbers are milliseconds since 1970: the first record at or after them is meant."""
    option: str = ""
    """The option it comes from, for errors."""

    @property
    def has_offsets(self) -> bool:
        """Whether offsets were named, which need not be there."""
        return self.each is not None and not self.by_time

    def is_at(self, offset: int, partition: TopicPartition) -> bool:
        """Tell whether a partition begins or ends at EARLIEST or LATEST."""
        named = self.everywhere if self.each is None else self.each.get(partition)
        return not self.by_time and named == offset


class NoMatch(Enum):
    """What to do where no record is as late as the time where reading is to begin."""

    ERROR = "error"
    LATEST = "latest"


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
        starting = _bound(options, "starting", EARLIEST)
        ending = _bound(options, "ending", LATEST)
        _refuse_offset(starting, LATEST, "a batch cannot begin at the latest offset")
        _refuse_offset(ending, EARLIEST, "a batch cannot end at the earliest offset")
        return cls._read(given, options, starting, ending)

    @classmethod
    def for_stream(cls, given: Mapping[str, str]) -> SourceOptions:
        """Read the options of a query that goes on; ConfigError if they cannot be."""
        options = _checked(given)
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if name in options:
                raise ConfigError(f"{name} is for batch queries: a stream has no end")
        return cls._read(
            given, options, _bound(options, "starting", LATEST), Bound(LATEST, option="")
        )

    @classmethod
    def _read(
        cls, given: Mapping[str, str], options: Options, starting: Bound, ending: Bound
    ) -> SourceOptions:
        connection = ConnectionOptions.from_options(given)
        subscription = _subscription(options)
        values = _values(options, subscription)
        _check_client(connection, values)
        level = options.choice("kafka.isolation.level", tuple(_LEVELS), default="read_uncommitted")
        poll_timeout_ms = options.number("kafkaConsumer.pollTimeoutMs") or _DEFAULT_POLL_TIMEOUT_MS
        look_up_timeout_ms = options.number("kafka.default.api.timeout.ms")
        most, least = _limits(options)
        retry_count = options.number("fetchOffset.numRetries")
        retry_interval_ms = options.number("fetchOffset.retryIntervalMs")
        return cls(
            connection=connection,
            subscription=subscription,
            starting=starting,
            ending=ending,
            no_match=NoMatch(
                options.choice(
                    "startingOffsetsByTimestampStrategy", ("error", "latest"), default="error"
                )
            ),
            fail_on_data_loss=options.flag("failOnDataLoss", default=True),
            include_headers=options.flag("includeHeaders", default=False),
            min_partitions=options.number("minPartitions", least=1),
            max_records_per_partition=options.number("maxRecordsPerPartition", least=1),
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay_ms=_duration_ms(options, "maxTriggerDelay"),
            poll_timeout_ms=poll_timeout_ms,
            look_up_timeout_ms=(
                poll_timeout_ms if look_up_timeout_ms is None else look_up_timeout_ms
            ),
            retry_count=3 if retry_count is None else retry_count,
            retry_interval_ms=1_000 if retry_interval_ms is None else retry_interval_ms,
            isolation=_LEVELS[level],
            fetch_size=options.number("kafka.max.partition.fetch.bytes", least=1)
            or _DEFAULT_FETCH_SIZE,
            check_crcs=options.flag("kafka.check.crcs", default=True),
            rack=options.text("kafka.client.rack") or "",
            commit_to_group=_group(options),
            idle_wait_ms=_idle_wait_ms(options),
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
_BOUNDS: Final = ("Timestamp", "OffsetsByTimestamp", "Offsets")
"""The endings of the options that say where reading begins and ends, the strongest first."""

NAMES: Final = (
    "subscribe", "subscribePattern", "assign",
    *(side + ending for side in ("starting", "ending") for ending in _BOUNDS),
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


def _subscription(options: Options) -> Subscription:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(given) != 1:
        raise ConfigError(
            f"exactly one of subscribe, subscribePattern and assign says what is read, not"
            f" {', '.join(given) if given else 'none'}"
        )
    text = options.text(given[0]) or ""
    if given[0] == "subscribe":
        topics = tuple(name for one in text.split(",") if (name := one.strip()))
        if not topics:
            raise ConfigError(f"subscribe={text!r} names no topic")
        return Subscription(topics=topics)
    if given[0] == "assign":
        return Subscription(partitions=_assigned(text))
    try:
        with warnings.catch_warnings():
            # Such as Java's [a-z&&[^b]], which Python takes for something else.
            warnings.simplefilter("error", FutureWarning)
            re.compile(text)
    except (re.error, FutureWarning) as error:
        raise ConfigError(
            f"subscribePattern={text!r} is no regular expression in Python's syntax: {error}"
        ) from None
    if not text.strip():
        raise ConfigError("subscribePattern is empty")
    return Subscription(pattern=text)


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    topics = _parsed("assign", text, '{"topic": [0, 1]}')
    found = []
    for topic, numbers in topics.items():
        if not isinstance(numbers, list) or not all(map(_is_count, numbers)):
            raise ConfigError(f"assign: the partitions of {topic} are no list of numbers")
        found += [TopicPartition(topic, number) for number in numbers]
    if not found:
        raise ConfigError(f"assign={text!r} names no partition")
    return tuple(sorted(set(found)))


def _bound(options: Options, side: str, default: int) -> Bound:
    """Read where reading begins or ends: a time for all, times for each, or offsets."""
    timestamp, by_timestamp, offsets = (side + ending for ending in _BOUNDS)
    time_ms = options.number(timestamp)
    if time_ms is not None:
        return Bound(time_ms, by_time=True, option=timestamp)
    text = options.text(by_timestamp)
    if text is not None:
        each = read_partitions(by_timestamp, text, least=0, meant="milliseconds since 1970")
        return Bound(each=each, by_time=True, option=by_timestamp)
    text = options.text(offsets)
    if text is None:
        return Bound(default, option=offsets)
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Bound(EARLIEST if word == "earliest" else LATEST, option=offsets)
    if not word.startswith("{"):
        raise ConfigError(
            f'{offsets}={text!r} is not earliest, latest or JSON such as {{"topic": {{"0": 23}}}}'
        )
    each = read_partitions(offsets, text, least=EARLIEST, meant="offsets, -2 and -1 included")
    return Bound(each=each, option=offsets)


def _refuse_offset(bound: Bound, offset: int, reason: str) -> None:
    if bound.by_time:
        return
    named = [str(each) for each, where in (bound.each or {}).items() if where == offset]
    if bound.everywhere == offset or named:
        raise ConfigError(f"{bound.option}: {reason}{' of ' if named else ''}{', '.join(named)}")


def read_partitions(name: str, text: str, *, least: int, meant: str) -> dict[TopicPartition, int]:
    """Read a number for each partition: `{"topic": {"0": 23, "1": -1}}`."""
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _parsed(name, text, '{"topic": {"0": 23}}').items():
        if not isinstance(numbers, dict):
            raise ConfigError(f"{name}: what stands at {topic} is no JSON object")
        for partition, number in numbers.items():
            if not partition.isdecimal():
                raise ConfigError(f"{name}: {partition!r} of {topic} is no partition")
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise ConfigError(f"{name}: {number!r} of {topic}-{partition} is none of {meant}")
            found[TopicPartition(topic, int(partition))] = number
    return found


def _parsed(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"{name}={text!r} is no JSON such as {example}")
    return found


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


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


def _idle_wait_ms(options: Options) -> int:
    given = options.number("idleWaitMs")
    return _DEFAULT_IDLE_WAIT_MS if given is None else given


def _duration_ms(options: Options, name: str) -> int:
    """Read a time such as `15m`, as Spark writes them; a bare number is milliseconds."""
    text = options.text(name)
    if text is None:
        return _DEFAULT_TRIGGER_DELAY_MS
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if found is None or (unit := found[2] or "ms") not in _UNITS_MS:
        raise ConfigError(f"{name}={text!r} is no time such as 30s or 15m")
    return int(found[1]) * _UNITS_MS[unit]
