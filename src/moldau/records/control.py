"""Control records: what brokers write between the records of applications.

They stand alone in a batch with the control bit, use up an offset, and are hidden from consumers.
The key says what they are: an int16 version and an int16 type. Markers end a transaction; the
other types belong to the metadata log. A reader passes over types it does not know.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import Buffer
from moldau.base.ids import NO_LEADER_EPOCH, NO_PRODUCER_ID
from moldau.records.builder import BatchBuilder
from moldau.records.record import read_records

_KEY: Final = Struct(">hh")
_KEY_VERSION: Final = 0
_MARKER: Final = Struct(">hi")
_MARKER_VERSION: Final = 0


class ControlType(IntEnum):
    """What a control record says."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    """The end of a producer's transaction in this partition."""

    aborted: bool
    coordinator_epoch: int
    """Of the transaction coordinator that decided; an older one is fenced by it."""


def control_batch(
    kind: ControlType,
    value: bytes,
    timestamp: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    transactional: bool = False,
) -> bytes:
    """Make the batch of one control record."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )
    builder.append(timestamp, _KEY.pack(_KEY_VERSION, kind), value)
    return builder.build()


def end_transaction_batch(
    marker: EndTransactionMarker,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Make the 78 bytes that commit or abort what a producer wrote."""
    return control_batch(
        ControlType.ABORT if marker.aborted else ControlType.COMMIT,
        _MARKER.pack(_MARKER_VERSION, marker.coordinator_epoch),
        timestamp,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )


def control_type(key: bytes | None) -> ControlType | None:
    """Read the key of a control record; None for a type of the future."""
    if key is None or len(key) < _KEY.size:
        raise CorruptRecords(f"a control record's key has 4 bytes, not {key!r}")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecords(f"a control record's key of version {version}")
    try:
        return ControlType(number)
    except ValueError:
        return None


def end_transaction_marker(batch: Buffer) -> EndTransactionMarker | None:
    """Read the marker in a control batch; None if it says something else, or nothing any more."""
    for record in read_records(batch):
        kind = control_type(record.key)
        if kind is not ControlType.ABORT and kind is not ControlType.COMMIT:
            return None
        if record.value is None or len(record.value) < _MARKER.size:
            raise CorruptRecords(f"a transaction marker has 6 bytes, not {record.value!r}")
        _, coordinator_epoch = _MARKER.unpack_from(record.value)
        return EndTransactionMarker(kind is ControlType.ABORT, coordinator_epoch)
    return None
