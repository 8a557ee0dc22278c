"""Filters of a batch query that save reading: by topic, partition, offset and time.

Spark hands over conditions on single columns that all have to hold. Those understood here narrow
the ranges that are read; none is taken off Spark's hands, which applies each to what is left. So a
condition may be used as far as it helps and no further: times are those of producers and in no
order, and all that a lower limit tells is where the first record lies that is late enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from moldau.client.records import TopicPartition
from moldau.spark.source.ranges import OffsetRange

_LEAST: Final = -(2**63)
_MOST: Final = 2**63


class Limits(NamedTuple):
    """What a number in a column may be: from `least` on, below `end`, and one of these."""

    least: int = _LEAST
    end: int = _MOST
    among: frozenset[Any] | None = None

    def admits(self, value: Any) -> bool:
        """Tell whether a value may occur; texts have no limits but those they are among."""
        if self.among is not None and value not in self.among:
            return False
        return not isinstance(value, int) or self.least <= value < self.end

    def narrowed(self, condition: Filter) -> Limits:
        """Return the limits under one more condition."""
        least, end, among = self
        match condition:
            case EqualTo(_, value):
                among = _but_null([value])
            case In(_, values):
                among = _but_null(values)
            case GreaterThanOrEqual(_, int(value)):
                least = value
            case GreaterThan(_, int(value)):
                least = value + 1
            case LessThan(_, int(value)):
                end = value
            case LessThanOrEqual(_, int(value)):
                end = value + 1
        if among is not None and self.among is not None:
            among &= self.among
        return Limits(max(self.least, least), min(self.end, end), among)


class Narrowing(NamedTuple):
    """What all conditions together leave to be read."""

    topic: Limits = Limits()
    partition: Limits = Limits()
    offset: Limits = Limits()
    since_ms: int | None = None
    """Records before it are not wanted."""

    @classmethod
    def of(cls, conditions: Iterable[Filter]) -> Narrowing:
        """Read conditions; those that do not help are passed over."""
        found = cls()
        for condition in conditions:
            match getattr(condition, "attribute", None):
                case ("topic",):
                    found = found._replace(topic=found.topic.narrowed(condition))
                case ("partition",):
                    found = found._replace(partition=found.partition.narrowed(condition))
                case ("offset",):
                    found = found._replace(offset=found.offset.narrowed(condition))
                case ("timestamp",):
                    found = found._replace(since_ms=_later(found.since_ms, _since(condition)))
        return found

    def admits(self, partition: TopicPartition) -> bool:
        """Tell whether anything of a partition is wanted."""
        return self.topic.admits(partition.topic) and self.partition.admits(partition.partition)

    def of_range(self, whole: OffsetRange) -> OffsetRange:
        """Return the part of a range that is wanted."""
        among = self.offset.among
        least, end = self.offset.least, self.offset.end
        if among is not None:
            inside = [offset for offset in among if whole.start <= offset < whole.end]
            least = max(least, min(inside, default=whole.end))
            end = min(end, max(inside, default=whole.start) + 1)
        start = min(max(whole.start, least), whole.end)
        return whole._replace(start=start, end=max(start, min(whole.end, end)))


def _but_null(values: Iterable[Any]) -> frozenset[Any]:
    """Return what a column may equal; in SQL nothing equals null."""
    return frozenset(values) - {None}


def _later(one_ms: int | None, other_ms: int | None) -> int | None:
    times = [time for time in (one_ms, other_ms) if time is not None]
    return max(times, default=None)


def _since(condition: Filter) -> int | None:
    """Return the time that a condition makes the first, if it is a lower limit.

    Brokers are not asked for times before 1970, which records may have: -1 ms is no time at all.
    """
    match condition:
        case (
            EqualTo(_, datetime() as value)
            | GreaterThan(_, datetime() as value)
            | GreaterThanOrEqual(_, datetime() as value)
        ):
            # Spark's times without a zone are in that of this process, like all of Python's.
            since_ms = int(value.astimezone(UTC).timestamp() * 1000)
            return since_ms if since_ms >= 0 else None
    return None
