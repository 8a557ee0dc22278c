"""Making a `.txnindex` anew from the batches of its segment, and of those before it if need be.

An entry says where an aborted transaction began, which may be segments before its marker. So the
rebuild begins where the open transactions are known: at the newest good producer snapshot that is
not behind the segment's start, mostly right there, or at the log's first segment. From there on
`ProducerStates` is shown every header, as in recovery, and of control batches the record as well;
records of others are not read. What begins before the log does has its first offset where the log
still has records of it, which is as good for readers.

Nothing may be guessed: a batch that cannot be read, there or before, is CorruptRecords, because the
marker that nobody sees would let aborted records through. CRCs of control batches are compared.
Those of others are not, since that would mean to read everything: a producer id that rotted in a
header is for the scrub to find. Where compaction has removed the records of an aborted transaction
its entry is not made again; nobody needs it.

It goes in steps made for `Executor.compute`: plain values in and out. Nothing is changed.
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
    """How far a rebuild has got."""

    known_offset: int
    """Batches that end before it need not be read."""
    open_transactions: bytes
    """Producers with an open transaction, as a snapshot."""
    position: int = 0
    """Where the next step begins in its segment."""
    entries: bytes = b""
    """What the index of that segment holds so far."""

    def at_next_segment(self) -> RebuildStep:
        """Go on with the first batch of the next segment."""
        return RebuildStep(self.known_offset, self.open_transactions)


def begin_rebuild(files: Files, folder: str, base_offset: int) -> RebuildStep:
    """Begin at the newest good snapshot not behind this segment's start, or with the log's start.

    The caller goes on with the segment that holds `known_offset`, and ends with the one that has
    this base offset.
    """
    offsets = [one for one in snapshot_offsets(files.names(folder)) if one <= base_offset]
    for offset in reversed(offsets):
        try:
            producers = read_snapshot(files, f"{folder}/{snapshot_name(offset)}")
        except CorruptRecords:
            continue  # an older one, or the whole log, tells the same
        return RebuildStep(offset, _open_transactions(ProducerStates(producers)))
    return RebuildStep(0, _open_transactions(ProducerStates()))


def rebuild_step(
    files: Files, path: str, begin: RebuildStep, end_position: int, budget_bytes: int
) -> RebuildStep:
    """Read the batches of a `.log` from where a step ended, until the budget is used up.

    CorruptRecords if the index cannot be made anew, OSError if the file cannot be read or is gone.
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
    """Show producer state a batch; return the transaction if it aborted one."""
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
