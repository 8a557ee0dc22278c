"""A batch that is made again and again, and differs from the one before in a few bytes only.

A coordinator writes the same record for every commit of a member, but for some numbers of fixed
size. Building its batch from fields costs three times as much as casting it. A mould keeps a batch
that the builder has made, cut where the next one may differ: in the timestamps, and in one stretch
of the records. What comes out is what the builder would have made; a test says so.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from moldau.records.batch import HEADER_SIZE, MAGIC, BatchHeader, parse_header
from moldau.records.checksum import crc32c

_BEFORE_CHECKED: Final = Struct(">qiibI").pack
"""Base offset, length, leader epoch, magic, checksum."""
_TIMES: Final = Struct(">qq").pack
_CHECKED_POSITION: Final = 21
_TIMES_POSITION: Final = 27
_TIMES_END: Final = 43
_NO_PRODUCER: Final = (-1, -1, -1)
_NEW: Final = tuple.__new__
"""Makes a named tuple without a call of its own constructor."""


class BatchMould:
    """A batch without its timestamps and a stretch of its records.

    It has no codec, belongs to no producer, and all of its records have one timestamp.
    """

    __slots__ = ("_after", "_base_offset", "_before", "_between", "_count", "_delta", "_epoch",
                 "_length")  # fmt: skip

    def __init__(self, batch: bytes, position: int, size: int) -> None:
        """Keep a batch; `size` bytes of it, from `position` on, will be given with each cast."""
        header = parse_header(batch)
        plain = not header.attributes and header.producer_id < 0
        if not plain or header.base_timestamp != header.max_timestamp:
            raise ValueError("only a plain batch with one timestamp can be cast")
        if not HEADER_SIZE <= position <= position + size <= len(batch):
            raise ValueError(f"{size} bytes at {position} are not in the records of this batch")
        self._before = batch[_CHECKED_POSITION:_TIMES_POSITION]
        self._between = batch[_TIMES_END:position]
        self._after = batch[position + size :]
        self._base_offset = header.base_offset
        self._length = header.length
        self._epoch = header.leader_epoch
        self._delta = header.last_offset_delta
        self._count = header.count

    def cast(self, timestamp: int, stretch: bytes) -> tuple[BatchHeader, bytes]:
        """Make the batch with this time and these bytes, which are as many as there were."""
        base_offset, length, epoch = self._base_offset, self._length, self._epoch
        checked = b"".join(
            (self._before, _TIMES(timestamp, timestamp), self._between, stretch, self._after)
        )
        crc = crc32c(checked)
        fields = (
            base_offset, length, epoch, MAGIC, crc, 0, self._delta, timestamp, timestamp,
            *_NO_PRODUCER, self._count,
        )  # fmt: skip
        head = _BEFORE_CHECKED(base_offset, length, epoch, MAGIC, crc)
        return _NEW(BatchHeader, fields), head + checked
