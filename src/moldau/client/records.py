"""Records, their metadata, and committed offsets.

They are named tuples because a consumer creates very many of them. Named tuples are built in C from
columns, are immutable, compare by value and unpack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from moldau.engine.partitions import OffsetAndMetadata, TimestampType, TopicPartition

if TYPE_CHECKING:
    # PEP 696 is Python 3.13's; type checkers know this module where it is not installed too.
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    K_co = TypeVar("K_co", default=Any, covariant=True)
    V_co = TypeVar("V_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    K_co = TypeVar("K_co", covariant=True)
    V_co = TypeVar("V_co", covariant=True)

__all__ = [
    "Header",
    "K",
    "K_co",
    "OffsetAndMetadata",
    "ProducerRecord",
    "Record",
    "RecordMetadata",
    "TimestampType",
    "TopicPartition",
    "V",
    "V_co",
]

Header = tuple[str, bytes | None]
"""The name and the value of one header; names may repeat, and order is kept."""


class Record(NamedTuple, Generic[K_co, V_co]):
    """A consumed record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since 1970; -1 if there is no timestamp."""
    timestamp_type: TimestampType
    key: K_co
    value: V_co
    headers: Sequence[Header] = ()
    leader_epoch: int | None = None
    """The epoch of the leader that appended the record, if the batch has it."""


class ProducerRecord(NamedTuple, Generic[K_co, V_co]):
    """A record to send, as interceptors see it."""

    topic: str
    value: V_co | None = None
    key: K_co | None = None
    partition: int | None = None
    """None: the key or the partitioner decides."""
    timestamp_ms: int | None = None
    """None: the time of sending."""
    headers: Sequence[Header] = ()


class RecordMetadata(NamedTuple):
    """The topic, partition and offset of a record that was sent."""

    topic: str
    partition: int
    offset: int
    """-1 without acknowledgements (acks=0)."""
    timestamp_ms: int
    """The record's timestamp, or the broker's if the topic uses log append time."""
