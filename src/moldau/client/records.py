"""What users of the client hold in their hands: records, where they are, and committed offsets.

Named tuples, because a consumer makes a million of them a second: they are built in C from columns,
cannot change, compare by value and unpack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

if TYPE_CHECKING:
    # PEP 696 is Python 3.13's; type checkers know this module where it is not installed too.
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

T = TypeVar("T")

Header = tuple[str, bytes | None]
"""The name and the value of one header; names may repeat, their order counts."""


class TimestampType(IntEnum):
    """Who put the time on a record."""

    NO_TIMESTAMP = -1
    """Nobody: the record is of the first format, which had no times."""
    CREATE_TIME = 0
    """The producer."""
    LOG_APPEND_TIME = 1
    """The broker, when it appended the batch."""


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


class Record(NamedTuple, Generic[K, V]):
    """One record as it was consumed."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since 1970; -1 where there is no timestamp."""
    timestamp_type: TimestampType
    key: K
    value: V
    headers: Sequence[Header] = ()
    leader_epoch: int | None = None
    """The term of the leader that took the record, where the batch tells."""


class ProducerRecord(NamedTuple, Generic[K, V]):
    """One record to be sent, as interceptors see it."""

    topic: str
    value: V | None = None
    key: K | None = None
    partition: int | None = None
    """None leaves the choice to the key or the partitioner."""
    timestamp_ms: int | None = None
    """None takes the time of sending."""
    headers: Sequence[Header] = ()


class RecordMetadata(NamedTuple):
    """Where a record that was sent has been put."""

    topic: str
    partition: int
    offset: int
    """-1 where the broker was not asked to acknowledge (acks=0)."""
    timestamp_ms: int
    """The record's own time, or the broker's where the topic uses log append time."""


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
