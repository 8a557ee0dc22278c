"""Partitions and places in them, as callers of the engine name them.

Named tuples, because a client makes many of them: they cannot change, compare by value and unpack.
Where a user may give a plain pair, `as_partition` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
V = TypeVar("V")


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Partition = tuple[str, int]
"""A TopicPartition, or a plain pair of topic and number."""

ByPartition = Mapping[TopicPartition, V] | Mapping[Partition, V]
"""Something for each partition. Both are named, because a mapping is exact in what its keys are."""


class TimestampType(IntEnum):
    """Who put the time on a record."""

    NO_TIMESTAMP = -1
    """Nobody: the record is of the first format, which had no times."""
    CREATE_TIME = 0
    """The producer."""
    LOG_APPEND_TIME = 1
    """The broker, when it appended the batch."""


class OffsetAndMetadata(NamedTuple):
    """A position to commit, or one that was committed: the offset of the next record to read."""

    offset: int
    metadata: str = ""
    """Free text kept beside the offset."""
    leader_epoch: int | None = None
    """The term of the last record consumed, so that a truncated log is noticed (KIP-320)."""


def several(given: Iterable[T], name: str) -> list[T]:
    """List what a user gave where several are meant; TypeError for one, above all one text.

    A text can be walked as well, and nobody who deletes the topics "abc" means a, b and c.
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is a list: [{given!r}]")
    return list(given)


def as_partitions(partitions: Iterable[Partition]) -> list[TopicPartition]:
    """Read partitions, given as pairs; TypeError where one is none."""
    return [as_partition(one) for one in several(partitions, "partitions")]


def as_partition(partition: Any) -> TopicPartition:
    """Read a partition, given as a pair; TypeError if it is none."""
    match partition:
        case (str(topic), int(number)):
            return TopicPartition(topic, number)
    raise TypeError(
        "a partition is a pair such as ('payments', 0), and several of them are a list of pairs:"
        f" {partition!r} is no partition"
    )
