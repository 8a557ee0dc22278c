"""Restoring producer state: the newest good snapshot, then a replay of the batches after it.

There is a snapshot at every segment's start and, after a clean shutdown, at the log end. A snapshot
only saves time, so writing one does not wait for the disk. If one is damaged it is removed and an
older one is used; without any, the whole log is replayed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

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

BATCHES_PER_STEP: Final = 250
"""Headers that are read between two pauses: a millisecond or two."""


def store_snapshot(
    files: Files, folder: str, offset: int, producers: ProducerStates, *, complete: bool
) -> str:
    """Write the producer state of a log that ends at this offset; return the path.

    Complete, it has all batches that a producer may repeat; that takes several times as long.

    Renamed without a sync: the caller adds the path to the next flush. Until then a power cut may
    leave a damaged file, which its CRC reveals.
    """
    path = f"{folder}/{snapshot_name(offset)}"
    temporary = path + _TEMPORARY_SUFFIX
    files.remove(temporary)
    file = files.open(temporary, create=True)
    try:
        file.append([format_snapshot(producers, complete=complete)])
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
    """List the offsets of the snapshots among a folder's names, oldest first."""
    stems = (name.removesuffix(SNAPSHOT_SUFFIX) for name in names if name.endswith(SNAPSHOT_SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def remove_snapshots(files: Files, folder: str, offsets: Iterable[int]) -> None:
    """Remove these snapshots; a missing one is ignored."""
    for offset in offsets:
        files.remove(f"{folder}/{snapshot_name(offset)}")


def stray_snapshots(offsets: Sequence[int], base_offsets: Collection[int]) -> list[int]:
    """List the snapshots at no segment's start, except the newest, which may be at the log end."""
    return [offset for offset in offsets[:-1] if offset not in base_offsets]


def restore_producers(
    files: Files, folder: str, producers: ProducerStates, segments: Sequence[Segment], end: int
) -> None:
    """Restore the producer state of a log that ends at this offset, and remove later snapshots."""
    snapshots = snapshot_offsets(files.names(folder))
    remove_snapshots(files, folder, snapshots_after(snapshots, end))
    replay_producers(files, folder, producers, segments, end, snapshots)


def snapshots_after(offsets: Iterable[int], end: int) -> list[int]:
    """List the snapshots above the end of a log.

    They must be removed before the log grows again: then they would describe batches that were
    truncated.
    """
    return [offset for offset in offsets if offset > end]


def replay_producers(
    files: Files,
    folder: str,
    producers: ProducerStates,
    segments: Sequence[Segment],
    end: int,
    snapshots: Sequence[int],
) -> None:
    """Restore producer state from the newest of these snapshots that is not above the end."""
    usable = [offset for offset in snapshots if offset <= end]
    start = load_newest_snapshot(files, folder, producers, usable)
    for segment in _overlapping(segments, start, end):
        # A damaged batch below the recovery point costs its producers' state, not the log.
        with suppress(CorruptRecords):
            _replay(producers, segment, start, end)


def replay_in_steps(
    files: Files, folder: str, segments: Sequence[Segment], end: int
) -> Generator[None, None, ProducerStates]:
    """Return producer state as it was when the log ended at this offset, reading some at a time.

    `restore_producers` reads all headers since the segment's start in one go, and a segment of a
    gigabyte may have a million of them.
    """
    producers = ProducerStates()
    offsets = [offset for offset in snapshot_offsets(files.names(folder)) if offset <= end]
    start = load_newest_snapshot(files, folder, producers, offsets)
    for segment in _overlapping(segments, start, end):
        with suppress(CorruptRecords):
            for count, _ in enumerate(_replayed(producers, segment, start, end), 1):
                if not count % BATCHES_PER_STEP:
                    yield
    return producers


def _replay(producers: ProducerStates, segment: Segment, start: int, end: int) -> None:
    """Let producer state see what a segment holds of [start, end)."""
    for _ in _replayed(producers, segment, start, end):
        pass


def _replayed(
    producers: ProducerStates, segment: Segment, start: int, end: int
) -> Iterator[StoredBatch]:
    """Do the same batch by batch."""
    first = segment.batch_holding(start)
    if first is None:
        return
    for batch in segment.batches(first.position):
        if batch.last_offset >= end:
            return
        replay_batch(producers, segment, batch)
        yield batch


def load_newest_snapshot(
    files: Files, folder: str, producers: ProducerStates, offsets: Sequence[int]
) -> int:
    """Load the newest undamaged snapshot; return its offset, or 0 without any."""
    for offset in reversed(offsets):
        path = f"{folder}/{snapshot_name(offset)}"
        try:
            producers.load(read_snapshot(files, path))
        except CorruptRecords as error:
            logger.warning("%s; removed, producer state is replayed from the batches", error)
            files.remove(path)
        else:
            return offset
    producers.clear()
    return 0


def replay_batch(
    producers: ProducerStates, segment: Segment, batch: StoredBatch
) -> AbortedTransaction | None:
    """Replay one batch; return the transaction if the batch aborted one."""
    header = batch.header
    if header is None or header.producer_id < 0:
        return None
    # Only a marker is read whole; for data batches the header is enough.
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
