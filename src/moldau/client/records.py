"""What users of the client hold in their hands: records, where they are, and committed offsets.

Named tuples, because a consumer makes a million of them a second: they are built in C from columns,
cannot change, compare by value and unpack.
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
"""The name and the value of one header; names may repeat, their order counts."""


class Record(NamedTuple, Generic[K_co, V_co]):
    """One record as it was consumed."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since 1970; -1 where there is no timestamp."""
    timestamp_type: TimestampType
    key: K_co
    value: V_co
    headers: Sequence[Header] = ()
    leader_epoch: int | None = None
    """The term of the leader that took the record, where the batch tells."""


class ProducerRecord(NamedTuple, Generic[K_co, V_co]):
    """One record to be sent, as interceptors see it."""

    topic: str
    value: V_co | None = None
    key: K_co | None = None
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
