"""Partitions and offsets in them.

Named tuples, because a client makes many of them: they are immutable, compare by value and unpack.
`as_partition` accepts a plain pair from a user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

from moldau.engine.arguments import check_int, check_mapping, check_text
from moldau.engine.errors import InvalidArgument

OFFSET_MAX: Final = (1 << 63) - 1

T = TypeVar("T")
V = TypeVar("V")


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Partition = tuple[str, int]
"""A TopicPartition, or a tuple of topic and number."""

ByPartition = Mapping[TopicPartition, V] | Mapping[Partition, V]
"""A value per partition. Both types are listed, because Mapping is invariant in its key."""


class TimestampType(IntEnum):
    """The origin of a record's timestamp."""

    NO_TIMESTAMP = -1
    """None: the first record format had no timestamps."""
    CREATE_TIME = 0
    """The producer."""
    LOG_APPEND_TIME = 1
    """The broker, when it appended the batch."""


class OffsetAndMetadata(NamedTuple):
    """A committed offset, or one to commit: the offset of the next record to read."""

    offset: int
    metadata: str = ""
    """Free text stored with the offset."""
    leader_epoch: int | None = None
    """The leader epoch of the last consumed record, to detect log truncation (KIP-320)."""


def several(given: Iterable[T], name: str) -> list[T]:
    """List what a user gave where several are meant; InvalidArgument for one, above all one text.

    A text can be walked as well, and nobody who deletes the topics "abc" means a, b and c.
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidArgument(f"{name} is a list: [{given!r}]")
    return list(given)


def as_partitions(partitions: Iterable[Partition]) -> list[TopicPartition]:
    """Read partitions, given as pairs; InvalidArgument where one is none."""
    return [as_partition(one) for one in several(partitions, "partitions")]


def as_partition(partition: Any) -> TopicPartition:
    """Read a partition, given as a pair; InvalidArgument if it is none."""
    match partition:
        case (str(topic), int(number)) if not isinstance(number, bool) and number >= 0:
            return TopicPartition(topic, number)
    raise InvalidArgument(
        "a partition is a pair such as ('payments', 0), and several of them are a list of pairs:"
        f" {partition!r} is no partition"
    )


def as_offsets(
    offsets: ByPartition[int | OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Read offsets to commit; InvalidArgument if they are none."""
    check_mapping("offsets", offsets)
    return {as_partition(each): _as_offset(given) for each, given in offsets.items()}


def _as_offset(given: Any) -> OffsetAndMetadata:
    check_offset(given)
    return OffsetAndMetadata(given) if isinstance(given, int) else given


def check_offset(given: Any) -> None:
    """Refuse what is no place in a log."""
    offset = given
    if isinstance(given, OffsetAndMetadata):
        check_text("metadata", given.metadata)
        if given.leader_epoch is not None:
            check_int("leader_epoch", given.leader_epoch)
        offset = given.offset
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise InvalidArgument(f"an offset is an int or an OffsetAndMetadata: {given!r}")
    if not 0 <= offset <= OFFSET_MAX:
        raise InvalidArgument(f"{offset} is not a valid offset")
