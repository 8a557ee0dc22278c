"""The fast path through a batch of plain records.

Plain records have offsets without gaps, the producer's own times, no headers, and lengths and
deltas of one or two bytes. Nearly all records are plain, and a consumer spends most of its time
here, so this loop makes the user's records in place, with every varint written out. It knows only
what it can prove: at the first record that is anything else, or wrong, it stops, and the decoder of
`records.record` goes on from there. So it never complains, and both paths give the same records; a
test says so.

Measured: 0.9 us a record of 100 bytes, where the slow path and a conversion take 1.4 us.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain, islice
from typing import Any, Final

from moldau.client.records import Record, TimestampType
from moldau.records.batch import BatchHeader
from moldau.records.record import TIMESTAMP_MAX, iter_records
from moldau.records.record import Record as StoredRecord

_TWO_BYTES_END: Final = 1 << 13
"""Numbers below it, of either sign, are written in one or two bytes."""
_MIN_RECORD_SIZE: Final = 7
"""One byte each: length, attributes, two deltas, two lengths, header count."""
_OFFSET_MAX: Final = 2**63 - 1 - 2**31
"""Leaves room for any offset delta."""


@cache
def _zigzag() -> tuple[int, ...]:
    """Return what a varint of one or two bytes stands for: 0, -1, 1, -2, ...

    Made when it is first needed, for it takes longer than the rest of this module to load.
    """
    pairs = zip(range(_TWO_BYTES_END), range(-1, -_TWO_BYTES_END - 1, -1), strict=True)
    return tuple(chain.from_iterable(pairs))


class PlainRecords:
    """The records of one batch, from its first to the first that is not plain."""

    __slots__ = ("_base_offset", "_base_timestamp", "_end", "_header", "_payload", "_position",
                 "_taken")  # fmt: skip

    def __init__(self, header: BatchHeader, payload: bytes) -> None:
        self._header = header
        self._payload = payload
        self._position = 0
        self._taken = 0
        self._base_offset = header.base_offset
        self._base_timestamp = header.base_timestamp
        is_plain = (
            not header.append_time
            and header.count == header.last_offset_delta + 1
            and 0 < header.count * _MIN_RECORD_SIZE <= len(payload)
            and 0 <= header.base_offset <= _OFFSET_MAX
            and -TIMESTAMP_MAX <= header.base_timestamp <= TIMESTAMP_MAX
        )
        self._end = header.count if is_plain else 0

    @property
    def finished(self) -> bool:
        """Whether all records of the batch were read, and nothing follows them."""
        return self._taken == self._header.count and self._position == len(self._payload)

    def the_rest(self) -> Iterator[StoredRecord]:
        """Read what follows the records taken the general way; CorruptRecords on the way."""
        return islice(iter_records(self._header, self._payload), self._taken, None)

    def take(  # noqa: C901, PLR0912, PLR0915 - calls would double the cost
        self, count: int, topic: str, partition: int, leader_epoch: int | None
    ) -> list[Record[Any, Any]]:
        """Read up to this many; fewer where the records end, or where one is not plain."""
        payload, position, zigzag = self._payload, self._position, _zigzag()
        base_offset, base_timestamp = self._base_offset, self._base_timestamp
        make, kind, created = tuple.__new__, Record, TimestampType.CREATE_TIME
        key: bytes | None
        records: list[Record[Any, Any]] = []
        append = records.append
        first = self._taken
        try:
            for delta in range(first, min(first + count, self._end)):
                byte = payload[position]
                if not byte & 0x81:
                    place = position + 2
                    end = place + (byte >> 1) - 1
                elif not byte & 1 and (second := payload[position + 1]) < 0x80:
                    place = position + 3
                    end = place + (second << 6 | (byte & 0x7F) >> 1) - 1
                else:
                    break
                byte = payload[place]
                if byte < 0x80:
                    timestamp = base_timestamp + zigzag[byte]
                    place += 1
                elif (second := payload[place + 1]) < 0x80:
                    timestamp = base_timestamp + zigzag[second << 7 | byte & 0x7F]
                    place += 2
                else:
                    break
                byte = payload[place]
                if byte < 0x80:
                    place += 1
                else:
                    byte = payload[place + 1] << 7 | byte & 0x7F
                    place += 2
                if byte != delta + delta:
                    break
                byte = payload[place]
                if byte == 1:
                    key = None
                    place += 1
                elif not byte & 0x81:
                    start = place + 1
                    place = start + (byte >> 1)
                    key = payload[start:place]
                else:
                    break
                byte = payload[place]
                if not byte & 0x81:
                    start = place + 1
                elif not byte & 1 and (second := payload[place + 1]) < 0x80:
                    start = place + 2
                    byte = second << 7 | byte & 0x7F
                else:
                    break
                place = start + (byte >> 1)
                if payload[place] or place + 1 != end:
                    break
                append(make(kind, (topic, partition, base_offset + delta, timestamp, created, key,
                                   payload[start:place], (), leader_epoch)))  # fmt: skip
                position = end
        except IndexError:
            pass  # the records end inside one: the general way says so
        self._position = position
        self._taken = first + len(records)
        return records
