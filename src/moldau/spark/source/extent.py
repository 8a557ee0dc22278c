"""What of which topics is read, as options say it: partitions, and where reading begins and ends.

Names and forms are those of Spark's own Kafka connector. Values only: what an offset such as
"latest" is, is looked up elsewhere.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from moldau.base.errors import ConfigError
from moldau.client.records import TopicPartition
from moldau.spark.settings import Options

LATEST: Final = -1
EARLIEST: Final = -2
"""Offsets that are looked up, as the JSON of Spark's own connector writes them."""

SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
"""The options that say which partitions are read."""
_ENDINGS: Final = ("Timestamp", "OffsetsByTimestamp", "Offsets")
BOUNDS: Final = {
    side: tuple(side + ending for ending in _ENDINGS) for side in ("starting", "ending")
}
"""The options that say where reading begins and ends, the strongest first."""


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


def read_subscription(options: Options) -> Subscription:
    """Read which partitions are wanted; ConfigError unless exactly one option says it."""
    given = [name for name in SUBSCRIPTIONS if name in options]
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


def read_bound(options: Options, side: str, default: int) -> Bound:
    """Read where reading begins or ends: a time for all, times for each, or offsets."""
    timestamp, by_timestamp, offsets = BOUNDS[side]
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


def refuse_offset(bound: Bound, offset: int, reason: str) -> None:
    """Refuse a bound that is at an offset, EARLIEST or LATEST, for any partition."""
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
