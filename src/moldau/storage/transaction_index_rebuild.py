"""Rebuilding a `.txnindex` from the batches of its segment, and of earlier segments if needed.

An entry has the first offset of an aborted transaction, which may be segments before the marker. So
the rebuild starts where the open transactions are known: at the newest good producer snapshot at or
below the segment's start, usually right there, or else at the first segment. From there it replays
every batch header through `ProducerStates`, as recovery does. Only control batches are read whole.
A transaction that started before the log start gets the first offset that is still in the log,
which is enough for readers.

An unreadable batch is CorruptRecords: it may be a marker, and without its entry consumers would get
aborted records. CRCs are checked for control batches only; checking all would read everything. The
scrub finds damage in other headers. If compaction has removed all records of an aborted
transaction, it gets no entry, and needs none.

The steps take and return plain values, for `Executor.compute`, and change no file.
"""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import File, Files
from moldau.records.batch import crc_ok
from moldau.storage.indexes import AbortedIndex, AbortedTransaction
from moldau.storage.producer_history import snapshot_offsets
from moldau.storage.producer_snapshot import (
    format_snapshot,
    parse_snapshot,
    read_snapshot,
    snapshot_name,
)
from moldau.storage.producers import ProducerStates
from moldau.storage.scan import StoredBatch, walk


class RebuildStep(NamedTuple):
    """The state of a rebuild between two steps."""

    known_offset: int
    """The snapshot covers the batches that end below; they are skipped."""
    open_transactions: bytes
    """Producers with an open transaction, as a snapshot."""
    position: int = 0
    """Where the next step starts in its segment."""
    entries: bytes = b""
    """The entries of that segment so far."""

    def at_next_segment(self) -> RebuildStep:
        """Return the step for the start of the next segment."""
        return RebuildStep(self.known_offset, self.open_transactions)


def begin_rebuild(files: Files, folder: str, base_offset: int) -> RebuildStep:
    """Start at the newest good snapshot at or below this base offset, or at the log start.

    The caller continues with the segment that contains `known_offset`, and ends with the segment
    of this base offset.
    """
    offsets = [one for one in snapshot_offsets(files.names(folder)) if one <= base_offset]
    for offset in reversed(offsets):
        try:
            producers = read_snapshot(files, f"{folder}/{snapshot_name(offset)}")
        except CorruptRecords:
            continue  # an older snapshot, or the whole log, gives the same result
        return RebuildStep(offset, _open_transactions(ProducerStates(producers)))
    return RebuildStep(0, _open_transactions(ProducerStates()))


def rebuild_step(
    files: Files, path: str, begin: RebuildStep, end_position: int, budget_bytes: int
) -> RebuildStep:
    """Read the batches of a `.log` from the end of the last step, until the budget is used.

    CorruptRecords if a rebuild is not possible; OSError if the file is unreadable or deleted.
    """
    producers = ProducerStates(parse_snapshot(begin.open_transactions))
    found = AbortedIndex()
    position, pause_at = begin.position, begin.position + budget_bytes
    with closing(files.open(path)) as file:
        for batch in walk(file, position, end_position):
            position = batch.end_position
            if batch.last_offset >= begin.known_offset:
                aborted = _take(producers, file, batch)
                if aborted is not None:
                    found.append(aborted)
            if position >= pause_at:
                break
    if position < min(pause_at, end_position):
        raise CorruptRecords(f"{path}: no whole batch at position {position}")
    return RebuildStep(
        begin.known_offset, _open_transactions(producers), position, begin.entries + found.encode()
    )


def _open_transactions(producers: ProducerStates) -> bytes:
    return format_snapshot(one for one in producers if one.transaction_first_offset >= 0)


def _take(producers: ProducerStates, file: File, batch: StoredBatch) -> AbortedTransaction | None:
    """Replay one batch; return the transaction if the batch aborted one."""
    header = batch.header
    if header is None:
        return None
    content = b""
    if header.control:
        content = file.read(batch.position, batch.size)
        if not crc_ok(content, 0, batch.size):
            raise CorruptRecords(
                f"{file.path}: the control batch at {batch.position} does not match its CRC"
            )
    completed = producers.replay(header, content)
    if completed is None or not completed.aborted:
        return None
    return AbortedTransaction(*completed[:4])
