"""Bringing producer state back: the newest good snapshot, then the batches behind it.

A snapshot lies at every segment's start and, after an orderly stop, at the log's end. It is
written without waiting for the disk, since all it can save is time: a damaged one is removed and
an older one used, at worst none and the whole log.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from moldau.base.checks import crash_point
from moldau.base.errors import CorruptRecords
from moldau.base.files import Files
from moldau.storage.indexes import AbortedTransaction
from moldau.storage.producer_snapshot import (
    SNAPSHOT_SUFFIX,
    format_snapshot,
    read_snapshot,
    snapshot_name,
)
from moldau.storage.producers import ProducerStates
from moldau.storage.scan import StoredBatch
from moldau.storage.segment import Segment

logger = logging.getLogger(__name__)

_TEMPORARY_SUFFIX = ".tmp"


def store_snapshot(files: Files, folder: str, offset: int, producers: ProducerStates) -> str:
    """Keep producers as they are when the log ends at this offset; return the file's path."""
    path = f"{folder}/{snapshot_name(offset)}"
    temporary = path + _TEMPORARY_SUFFIX
    files.remove(temporary)
    file = files.open(temporary, create=True)
    try:
        file.append([format_snapshot(producers)])
    except OSError:
        files.remove(temporary)
        raise
    finally:
        file.close()
    crash_point("log.snapshot.before_rename")
    files.rename(temporary, path)
    crash_point("log.snapshot.after_rename")
    return path


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Pick the snapshots out of a folder's names, oldest first."""
    stems = (name.removesuffix(SNAPSHOT_SUFFIX) for name in names if name.endswith(SNAPSHOT_SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def remove_snapshots(files: Files, folder: str, offsets: Iterable[int]) -> None:
    """Remove these snapshots; one that is gone is fine."""
    for offset in offsets:
        files.remove(f"{folder}/{snapshot_name(offset)}")


def stray_snapshots(offsets: Sequence[int], base_offsets: Collection[int]) -> list[int]:
    """List the snapshots that belong to no segment's start; the newest is never one of them."""
    return [offset for offset in offsets[:-1] if offset not in base_offsets]


def restore_producers(
    files: Files, folder: str, producers: ProducerStates, segments: Sequence[Segment], end: int
) -> None:
    """Make producer state what it was when the log ended at this offset.

    Snapshots of a later end, or damaged, are removed: they would lie once the log has grown again.
    """
    offsets = snapshot_offsets(files.names(folder))
    remove_snapshots(files, folder, (offset for offset in offsets if offset > end))
    start = load_newest_snapshot(files, folder, producers, [o for o in offsets if o <= end])
    for segment in _overlapping(segments, start, end):
        # What rots below the recovery point costs the state of its producers, not the log.
        with suppress(CorruptRecords):
            _replay(producers, segment, start, end)


def _replay(producers: ProducerStates, segment: Segment, start: int, end: int) -> None:
    """Let producer state see what a segment holds of [start, end)."""
    first = segment.batch_holding(start)
    if first is None:
        return
    for batch in segment.batches(first.position):
        if batch.last_offset >= end:
            return
        replay_batch(producers, segment, batch)


def load_newest_snapshot(
    files: Files, folder: str, producers: ProducerStates, offsets: Sequence[int]
) -> int:
    """Load the newest snapshot that can be read; return its offset, 0 if there is none."""
    for offset in reversed(offsets):
        path = f"{folder}/{snapshot_name(offset)}"
        try:
            producers.load(read_snapshot(files, path))
        except CorruptRecords as error:
            logger.warning("%s; it is removed, and the batches tell of producers instead", error)
            files.remove(path)
        else:
            return offset
    producers.clear()
    return 0


def replay_batch(
    producers: ProducerStates, segment: Segment, batch: StoredBatch
) -> AbortedTransaction | None:
    """Let producer state see a batch of the log; return the transaction if it aborted one."""
    header = batch.header
    if header is None or header.producer_id < 0:
        return None
    content = segment.handle().read(batch.position, batch.size) if header.control else b""
    completed = producers.replay(header, content)
    if completed is None or not completed.aborted:
        return None
    return AbortedTransaction(*completed[:4])


def _overlapping(segments: Sequence[Segment], start: int, end: int) -> list[Segment]:
    """List the segments with offsets in [start, end)."""
    found = []
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end
        if following > start and segment.base_offset < end:
            found.append(segment)
    return found
