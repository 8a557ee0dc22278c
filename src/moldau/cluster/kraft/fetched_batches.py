"""Batches that a leader has sent, as the core takes them: whole, intact, and few.

An answer may hold ten thousand small batches. The core asks of a batch only where it lies, which
epoch it has, and whether it names other voters. So batches that follow each other in one epoch are
one batch of the core, up to what is written in one turn of the loop. One that names voters stands
alone.

What stands before a broken batch counts (KAFKA-18723): the rest is fetched again.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import Buffer
from moldau.base.ids import NO_OFFSET, LeaderEpoch, Offset
from moldau.cluster.kraft.control_records import voters_in
from moldau.cluster.kraft.peers import PeerUnavailable
from moldau.cluster.raft.requests import Batch
from moldau.cluster.raft.voters import VoterSet
from moldau.records.batch import BatchHeader, BatchSpan, crc_ok, iter_batches, parse_header

_SLICE_BYTES: Final = 64 << 10
"""Checked, and later written, in one turn of the loop, unless one batch is larger."""

_BATCHES_PER_TURN: Final = 100
"""Control batches cost more than their size: to check so many takes some milliseconds."""


class FetchedBatches(NamedTuple):
    """Whole batches that follow each other."""

    data: Buffer
    headers: list[BatchHeader]


async def fetched_batches(data: Buffer) -> tuple[Batch, ...]:
    """Return the whole batches of an answer; PeerUnavailable if there is something else instead.

    Their content is `FetchedBatches`: views of `data`, which has to stay as it is. A cut last batch
    is left out.
    """
    joined = _Joined(memoryview(data))
    problem = "they end within the first batch"
    turn_start = turn_count = 0
    try:
        for span in iter_batches(data, allow_cut=True):
            joined.take(span)
            turn_count += 1
            end = span.position + span.size
            if end - turn_start >= _SLICE_BYTES or turn_count >= _BATCHES_PER_TURN:
                turn_start, turn_count = end, 0
                await asyncio.sleep(0)
    except CorruptRecords as error:
        problem = str(error)
    batches = joined.finish()
    if not batches and len(data):
        raise PeerUnavailable(f"answered with records that cannot be used: {problem}")
    return batches


class _Joined:
    """Joins batches while they are read, one after the other."""

    __slots__ = ("_done", "_end", "_headers", "_last", "_start", "_view")

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._done: list[Batch] = []
        self._headers: list[BatchHeader] = []
        """Of the batches that the next batch of the core is made of."""
        self._start = self._end = 0
        """Where those lie."""
        self._last: BatchHeader | None = None

    def take(self, span: BatchSpan) -> None:
        """Add the next batch; CorruptRecords if it is broken, or does not follow the last one."""
        header = parse_header(self._view, span.position)
        self._check(span, header)
        named = voters_in(self._view, span.position) if header.control else None
        is_new_epoch = self._last is not None and self._last.leader_epoch != header.leader_epoch
        if named is not None or is_new_epoch:
            self._close()
        self._headers.append(header)
        self._last = header
        self._end = span.position + span.size
        if named is not None:
            self._close(*named)
        elif self._end - self._start >= _SLICE_BYTES:
            self._close()

    def _check(self, span: BatchSpan, header: BatchHeader) -> None:
        last = self._last
        offset = header.base_offset if last is None else last.next_offset
        if header.last_offset_delta < 0 or header.base_offset != offset or offset < 0:
            raise CorruptRecords(f"offset {header.base_offset} where {offset} belongs")
        if header.leader_epoch < (0 if last is None else last.leader_epoch):
            raise CorruptRecords(f"epoch {header.leader_epoch} at offset {offset}")
        if not crc_ok(self._view, span.position, span.size):
            raise CorruptRecords(f"the checksum of the batch at offset {offset} differs")

    def finish(self) -> tuple[Batch, ...]:
        """Return what was taken."""
        self._close()
        return tuple(self._done)

    def _close(self, voters: VoterSet | None = None, voters_offset: Offset = NO_OFFSET) -> None:
        """Make a batch of the core of what is open, if anything is."""
        if self._headers:
            first, last = self._headers[0], self._headers[-1]
            content = FetchedBatches(self._view[self._start : self._end], self._headers)
            self._done.append(
                Batch(
                    Offset(first.base_offset),
                    Offset(last.next_offset),
                    LeaderEpoch(first.leader_epoch),
                    content,
                    voters,
                    voters_offset,
                )
            )
            self._headers = []
        self._start = self._end
