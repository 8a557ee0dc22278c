"""Making version 2 batches: for producers, coordinators, conversion, control records, tests.

A builder takes records one at a time and keeps them as parts; `build` joins, compresses and seals
them once. `append` is the price a producer pays per record, so lengths and deltas come from the
table of written varints, and keys and values are copied once, by `build`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from moldau.base.ids import NO_LEADER_EPOCH, NO_PRODUCER_ID
from moldau.records.batch import (
    APPEND_TIME_BIT,
    CONTROL_BIT,
    HEADER_SIZE,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    pack_fields,
    seal_batch,
)
from moldau.records.compression import Codec, compress
from moldau.records.varint import SMALL_END, VARINT, WRITTEN

NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1

_RECORD_OVERHEAD_MAX: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""Length, attributes, timestamp delta, offset delta, key length, value length, header count."""
_HEADER_OVERHEAD_MAX: Final = 5 + 5
"""Two lengths."""

RecordHeader = tuple[str, bytes | None]


def record_size_bound(
    key: bytes | None, value: bytes | None, headers: Sequence[RecordHeader] = ()
) -> int:
    """Bytes a record can take at most, whatever its place in a batch (before compression)."""
    size = _RECORD_OVERHEAD_MAX + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += _HEADER_OVERHEAD_MAX + len(name.encode()) + len(content or b"")
    return size


class BatchBuilder:
    """One batch in the making."""

    __slots__ = (
        "_attributes",
        "_base_offset",
        "_base_sequence",
        "_base_timestamp",
        "_codec",
        "_last_delta",
        "_leader_epoch",
        "_level",
        "_max_timestamp",
        "_parts",
        "_producer_epoch",
        "_producer_id",
        "count",
        "size",
    )

    def __init__(
        self,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        *,
        base_offset: int = 0,
        leader_epoch: int = NO_LEADER_EPOCH,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    ) -> None:
        self._codec = codec
        self._level = level
        self._base_offset = base_offset
        self._leader_epoch = leader_epoch
        self._attributes = (
            codec
            | (APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
            | (TRANSACTIONAL_BIT if transactional else 0)
            | (CONTROL_BIT if control else 0)
        )
        self._parts: list[bytes] = []
        self._last_delta = -1
        self._base_timestamp = self._max_timestamp = NO_TIMESTAMP
        self.count = 0
        self.size = HEADER_SIZE
        """Bytes of the batch so far, if it were not compressed."""
        self.set_producer(producer_id, producer_epoch, base_sequence)

    def set_producer(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Number the batch: a producer learns its sequence only when the batch is drained."""
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._base_sequence = base_sequence

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader] = (),
        offset_delta: int | None = None,
        limit: int = sys.maxsize,
    ) -> bool:
        """Add a record, right behind the last one unless an offset delta leaves a gap.

        False, and nothing is changed, if that took a batch that holds records past `limit` bytes.
        """
        delta = self._last_delta + 1 if offset_delta is None else offset_delta
        if delta <= self._last_delta:
            raise ValueError(f"offset delta {delta} after {self._last_delta}")
        if not self.count:
            self._base_timestamp = self._max_timestamp = timestamp
        small = WRITTEN
        since = timestamp - self._base_timestamp
        time = small[since] if 0 <= since < SMALL_END else VARINT[since]
        number = small[delta] if delta < SMALL_END else VARINT[delta]
        size = -1 if key is None else len(key)
        key_size = small[size] if size < SMALL_END else VARINT[size]
        size = -1 if value is None else len(value)
        value_size = small[size] if size < SMALL_END else VARINT[size]
        key, value = key or b"", value or b""
        end = _written_headers(headers) if headers else b"\x00"
        size = 1 + len(time) + len(number) + len(key_size) + len(key)
        size += len(value_size) + len(value) + len(end)
        length = small[size] if size < SMALL_END else VARINT[size]
        size += self.size + len(length)
        if size > limit and self.count:
            return False
        self._parts += (length, b"\x00", time, number, key_size, key, value_size, value, end)
        self.size = size
        self._last_delta = delta
        self.count += 1
        if timestamp > self._max_timestamp:  # noqa: PLR1730 - a call of max costs as much as the rest
            self._max_timestamp = timestamp
        return True

    def build(self) -> bytes:
        """Seal the batch; the builder can go on, and build a larger one later."""
        return pack_fields(
            self._base_offset,
            self._leader_epoch,
            (
                self._attributes,
                self._last_delta,
                self._base_timestamp,
                self._max_timestamp,
                self._producer_id,
                self._producer_epoch,
                self._base_sequence,
                self.count,
            ),
            self._payload(),
        )

    def _payload(self) -> bytes:
        records = b"".join(self._parts)
        return records if not self._codec else compress(self._codec, records, self._level)

    def seal(self) -> tuple[BatchHeader, bytes]:
        """Do the same as `build`; the header comes along, so that nobody need parse it again."""
        header = BatchHeader(
            self._base_offset,
            0,
            self._leader_epoch,
            MAGIC,
            0,
            self._attributes,
            self._last_delta,
            self._base_timestamp,
            self._max_timestamp,
            self._producer_id,
            self._producer_epoch,
            self._base_sequence,
            self.count,
        )
        return seal_batch(header, self._payload())


def _written_headers(headers: Iterable[RecordHeader]) -> bytes:
    written: list[bytes] = []
    count = 0
    for key, value in headers:
        if type(value) is not bytes and value is not None and not isinstance(value, bytes):
            raise TypeError(f"{value!r:.100} is no bytes")  # its len() may count wider items
        name = key.encode()
        written += (VARINT[len(name)], name, VARINT[-1 if value is None else len(value)])
        written.append(value or b"")
        count += 1
    return VARINT[count] + b"".join(written)
