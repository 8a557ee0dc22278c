"""A batch that is made again and again, and differs from the one before in a few numbers only.

A coordinator writes the same record for every commit of a member, but for some numbers of fixed
size. Building its batch from fields costs many times as much as rendering it from a template. The
template keeps a batch of the builder's, with holes for the timestamps and for the numbers, which
stand together somewhere in the records. The result is what the builder would have made; a test
says so.

Only what the checksum covers is rendered. What stands before it says where the batch is in its log,
and is the log's to write (`batch.seal`).
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from moldau.records.batch import CHECKED_POSITION, HEADER_SIZE, parse_header

_TIMES_POSITION: Final = 27
_TIMES_END: Final = 43
_TIMES: Final = Struct(">qq").pack


class BatchTemplate:
    """A batch without its timestamps and some numbers of its records.

    It has no codec, belongs to no producer, and all of its records have one timestamp.
    """

    __slots__ = ("_after", "_before", "_between")

    def __init__(self, batch: bytes, position: int, size: int) -> None:
        """Keep a batch; `size` bytes from `position` on will be given for each batch."""
        header = parse_header(batch)
        plain = not header.attributes and header.producer_id < 0
        if not plain or header.base_timestamp != header.max_timestamp:
            raise ValueError("only a plain batch with one timestamp can be a template")
        end = position + size
        if not HEADER_SIZE <= position <= end <= len(batch):
            raise ValueError(f"{size} bytes at {position} are not in the records of this batch")
        self._before = batch[CHECKED_POSITION:_TIMES_POSITION]
        self._between = batch[_TIMES_END:position]
        self._after = batch[end:]

    def render(self, timestamp: int, numbers: bytes) -> bytes:
        """Make what the checksum of the batch covers, with this time and these numbers."""
        times = _TIMES(timestamp, timestamp)
        return b"".join((self._before, times, self._between, numbers, self._after))
