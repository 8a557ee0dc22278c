"""Opening the folder of a partition, with recovery after a crash.

After a clean shutdown only the end of the last segment is read. After a crash nothing at or above
the recovery point is trusted. Recovery reads the segments from the one with the recovery point on
and checks CRCs from the recovery point on. It rebuilds indexes, producer state and leader epochs.
It truncates at the first bad batch and removes all later segments, as Kafka does. The removed bytes
stay in the folder as `.cut` files (`cuts`), and the report lists the lost offsets.

Recovery relies on four promises: everything below the recovery point was synced; a truncation
lowers the recovery point on disk before it changes a byte; it lowers the log start on disk before
the next append; and every leader epoch is either in the epoch checkpoint or in a batch at or above
the recovery point.

First it completes or undoes interrupted compactions and deletions, by file names in this order:
`.deleted` and `.cleaned` files are removed. A `.swap` at or above the lowest `.cleaned` is from an
unfinished split and is removed (KAFKA-6264). Any other `.swap` is complete: the segments that it
replaces are removed and it is renamed. Indexes without a `.log` are removed.

A power cut can lose the last batch of a segment exactly at its boundary. That leaves no damaged
bytes, only a gap before the next segment. Such a gap is a loss, and everything after it is removed:
a replica must fetch it again instead of serving a log with a hole. Kafka's cleaner makes such gaps
too; ours does not, nor does a follower of a compacted log. So a gap is accepted if the log is
compacted, or below the offset up to which it once was, and if batches follow. An empty segment
behind a gap says only that its file was made: a leader with such an end could never be caught up
with, because there is nothing to fetch up to it.

On a full disk recovery skips what can be rebuilt later: snapshots, and index files of closed
segments. Two things must be written, or the log is not opened (DiskFull): the `.txnindex`, and the
`.cut` files.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from moldau.base.checks import crash_point
from moldau.base.errors import CorruptRecords, DiskFull
from moldau.base.files import Files
from moldau.base.ids import LeaderEpoch, Offset
from moldau.storage.checkpoints import PARTITION_METADATA, DamagedFile
from moldau.storage.cuts import (
    CUT_SUFFIX,
    Cut,
    CutFile,
    cut_path,
    find_cuts,
    keep_tail,
    last_readable_offset,
)
from moldau.storage.disk_errors import disk_errors, is_full
from moldau.storage.durability import LowerOffsets
from moldau.storage.epochs import LeaderEpochs, load_epochs, save_epochs
from moldau.storage.index_files import make_empty
from moldau.storage.log import Log
from moldau.storage.producer_history import (
    remove_snapshots,
    replay_batch,
    restore_producers,
    snapshot_offsets,
    store_snapshot,
    stray_snapshots,
)
from moldau.storage.producers import ProducerStates
from moldau.storage.resources import Resources
from moldau.storage.scan import StoredBatch, walk
from moldau.storage.segment import (
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    Segment,
    file_stem,
)
from moldau.storage.segment_files import DELETED_SUFFIX
from moldau.storage.topic_config import LONG_MAX, LogConfig
from moldau.storage.transaction_index import TRANSACTION_INDEX_SUFFIX

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"
_LEFT_BEHIND = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TEMPORARY_SUFFIX)


class Report(NamedTuple):
    """What recovery did; empty after a clean shutdown."""

    recovered_segments: int = 0
    cut_bytes: int = 0
    removed_segments: int = 0
    reason: str = ""
    warnings: tuple[str, ...] = ()
    """One line per loss and per rebuilt file."""
    cuts: tuple[CutFile, ...] = ()
    """The `.cut` files in the folder."""
    lacked_room: bool = False
    """Whether files were skipped because the disk is full."""

    def __str__(self) -> str:
        if not self.recovered_segments:
            return "opened"
        line = f"{self.recovered_segments} segments checked"
        if self.cut_bytes or self.removed_segments:
            line += (
                f", {self.cut_bytes} bytes and {self.removed_segments} segments cut: {self.reason}"
            )
        return line


class Opened(NamedTuple):
    """An open log and the report of its recovery."""

    log: Log
    report: Report


def open_log(
    resources: Resources,
    folder: str,
    config: LogConfig,
    *,
    clean: bool,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    compacted_below: int = 0,
    lower_offsets: LowerOffsets,
) -> Opened:
    """Open the log in a folder; `clean` says that the last shutdown was a clean one.

    A folder without segments becomes an empty log at `log_start_offset`. This reads and writes
    files: it runs before the log is in use, on a thread or before the event loop starts.
    """
    with disk_errors(folder):
        opening = _Opening(resources, folder, config, log_start_offset, compacted_below)
        # A damaged end after a clean shutdown is treated like a crash.
        end_offset = opening.end_after_clean_shutdown() if clean else None
        trusted = end_offset is not None
        if end_offset is None:
            end_offset = opening.recover(recovery_point)
        if end_offset < log_start_offset:
            end_offset = opening.start_over(log_start_offset)
        log_start = max(log_start_offset, opening.segments[0].base_offset)
        # The epoch file may be newer than the log: a power cut may have taken the last batches.
        opening.epochs.truncate_from_end(Offset(end_offset))
        opening.epochs.truncate_from_start(Offset(log_start))
        opening.restore_producers(end_offset, trusted=trusted)
        cuts = opening.cut_files()
    log = Log(
        resources,
        folder,
        config,
        opening.segments,
        opening.epochs,
        opening.producers,
        log_start_offset=log_start,
        log_end_offset=end_offset,
        recovery_point=end_offset if trusted else min(recovery_point, end_offset),
        lower_offsets=lower_offsets,
        durable=trusted,
        unsynced_paths=opening.unsynced_paths,
    )
    if not trusted:
        _sync_as_promised(log)
    return Opened(log, opening.report._replace(cuts=cuts))


def _sync_as_promised(log: Log) -> None:
    """Sync what recovery found where `flush.messages` asks for that before anybody reads it.

    The broker may have been killed between an append and its sync. Readers would be told of those
    records from now on, and a power cut could still take them.
    """
    if log.unflushed_count < log.config.flush_messages:
        return
    flush = log.prepare_flush()
    if flush is not None:
        # The batches are synced before the room runs out: only the epochs are written.
        with contextlib.suppress(DiskFull):
            flush.run()
            log.flushed(flush)


class _Opening:
    """The parts of a log while it is opened."""

    def __init__(
        self,
        resources: Resources,
        folder: str,
        config: LogConfig,
        log_start_offset: int,
        compacted_below: int,
    ) -> None:
        files = resources.files
        self._resources = resources
        self._folder = folder
        self._config = config
        self._gaps_below = LONG_MAX if config.compacts else compacted_below
        """A segment that starts up to here may have a gap before it."""
        names = finish_interrupted(files, folder)
        self._snapshots = snapshot_offsets(names)
        self._has_cuts = any(name.endswith(CUT_SUFFIX) for name in names)
        self.producers = ProducerStates()
        self.report = Report()
        self.unsynced_paths: list[str] = []
        known = set(names)
        self.segments = [
            Segment(
                resources,
                folder,
                base_offset,
                files.size(f"{folder}/{name}"),
                config,
                has_aborted=file_stem(base_offset) + TRANSACTION_INDEX_SUFFIX in known,
            )
            for name in names
            if name.endswith(LOG_SUFFIX) and (base_offset := segment_base(name)) is not None
        ]
        if not self.segments:
            self.segments.append(Segment.create(resources, folder, log_start_offset, config))
        self.epochs = self._load_epochs()

    def _load_epochs(self) -> LeaderEpochs:
        """Read the epochs; rebuild a damaged file from the headers of all batches."""
        try:
            return load_epochs(self._files, self._folder)
        except DamagedFile as error:
            epochs = LeaderEpochs()
            for segment in self.segments:
                # Recovery reads the epochs after damaged bytes, or removes those batches.
                with contextlib.suppress(CorruptRecords):
                    for batch in segment.batches():
                        if batch.leader_epoch > epochs.latest:
                            _assign_epoch(epochs, batch)
            epochs.dirty = True
            save_epochs(self._files, self._folder, epochs)
            self._warn(f"{error}; made anew from the batches: {len(epochs.entries)} epoch(s)")
            return epochs

    def _warn(self, line: str) -> None:
        self.report = self.report._replace(warnings=(*self.report.warnings, line))

    def end_after_clean_shutdown(self) -> int | None:
        """Find the log end from the last segment; None if its end is damaged."""
        return self.segments[-1].end_offset()

    def recover(self, recovery_point: int) -> int:
        """Check everything from the recovery point on; return the log end.

        That begins with the segment that has the last flushed batch. It may have been closed since
        it was flushed to its end, and then its indexes were stored afterwards and not synced.
        """
        bases = [segment.base_offset for segment in self.segments]
        first = max(0, bisect_left(bases, recovery_point) - 1)
        start = bases[first]
        # Epochs and snapshots above `start` may describe batches that were truncated since. The
        # batches that are read below give both again.
        self.epochs.truncate_from_end(Offset(start))
        restore_producers(self._files, self._folder, self.producers, self.segments[:first], start)
        # Only a flush syncs the topic id, and the log may never have had one.
        self.unsynced_paths.append(f"{self._folder}/{PARTITION_METADATA}")
        end_offset = start
        number = first
        while number < len(self.segments):
            segment = self.segments[number]
            wrong = self._gap(number, first, end_offset)
            if wrong is None:
                end_offset, wrong = self._recover_segment(segment, recovery_point)
                number += 1
            if wrong is not None:
                self._remove_from(number, end_offset, wrong)
        self.segments[-1].warm_up()
        self.report = self.report._replace(recovered_segments=len(self.segments) - first)
        return end_offset

    @property
    def _files(self) -> Files:
        return self._resources.files

    def _gap(self, number: int, first: int, end_offset: int) -> CorruptRecords | None:
        """Return what is wrong if a segment does not start where the one before ends."""
        base_offset = self.segments[number].base_offset
        if number == first or base_offset == end_offset:
            return None
        if end_offset < base_offset <= self._gaps_below and self._has_batches(number):
            return None
        return CorruptRecords(f"segment {base_offset} where {end_offset} was next")

    def _has_batches(self, number: int) -> bool:
        """Tell whether a segment or one after it begins with something that looks like a batch."""
        for segment in self.segments[number:]:
            with contextlib.suppress(CorruptRecords):
                if next(iter(segment.batches()), None) is not None:
                    return True
        return False

    def _recover_segment(
        self, segment: Segment, recovery_point: int
    ) -> tuple[int, CorruptRecords | None]:
        """Check one segment; return its end offset, and what was wrong after it, if anything."""
        size = segment.size
        end_offset = segment.base_offset
        if end_offset > 0:
            with self._if_there_is_room():
                path = store_snapshot(
                    self._files, self._folder, end_offset, self.producers, complete=True
                )
                self.unsynced_paths.append(path)

        def take(batch: StoredBatch) -> None:
            nonlocal end_offset
            if batch.leader_epoch > self.epochs.latest:
                _assign_epoch(self.epochs, batch)
            aborted = replay_batch(self.producers, segment, batch)
            if aborted is not None:
                segment.add_aborted(aborted)
            end_offset = batch.last_offset + 1

        wrong = segment.recover(recovery_point, take)
        if wrong is not None:
            self._cut_tail(segment, size, end_offset, wrong)
        if segment is not self.segments[-1] and wrong is None:
            with self._if_there_is_room():
                self._store_indexes(segment)
            segment.stop_writing()
            self.unsynced_paths += segment.index_paths
        return end_offset, wrong

    def _store_indexes(self, segment: Segment) -> None:
        """Store all entries or none: a partial index looks complete, an empty one is rebuilt."""
        try:
            segment.store_indexes()
        except OSError:
            make_empty(self._files, segment.index_paths[:2])
            raise

    @contextlib.contextmanager
    def _if_there_is_room(self) -> Iterator[None]:
        """Skip a write on a full disk, for files that can be rebuilt."""
        try:
            yield
        except OSError as error:
            if not is_full(error):
                raise
            self.report = self.report._replace(lacked_room=True)

    def _cut_tail(
        self, segment: Segment, size: int, end_offset: int, wrong: CorruptRecords
    ) -> None:
        """Truncate a segment after its good batches, and keep the rest in a `.cut` file."""
        file, position = segment.handle(), segment.size
        kept_as = keep_tail(self._files, file, position, size, self._resources.clock.wall_ms())
        last_lost = last_readable_offset(file, position, size, end_offset)
        # Copied before: after a crash in between, recovery runs again and finds the same bytes.
        crash_point("recovery.before_cut")
        file.truncate(position)
        crash_point("recovery.after_cut")
        # Else a second power cut could bring these bytes back behind what is written next.
        file.sync()
        if kept_as:
            self.unsynced_paths.append(kept_as)
        self._note_cut(
            Cut(
                segment.path, position, size - position, 0, end_offset, end_offset, last_lost,
                str(wrong), kept_as,
            )
        )  # fmt: skip

    def _remove_from(self, number: int, end_offset: int, wrong: CorruptRecords) -> None:
        """Remove the segments from this one on, newest first.

        In this order a crash in between leaves a log without a gap.
        """
        removed = self.segments[number:]
        if not removed:
            return
        first, last = removed[0], removed[-1]
        last_lost = (last.end_offset() or last.base_offset) - 1
        kept: list[str] = []
        while len(self.segments) > number:
            crash_point("recovery.before_removal")
            kept += self._set_aside(self.segments.pop())
        # Else a second power cut could bring them back behind segments that end where they begin.
        self._files.sync_folder(self._folder)
        self.unsynced_paths += kept
        size = sum(segment.size for segment in removed)
        self._note_cut(
            Cut(
                first.path, 0, size, len(removed), end_offset, first.base_offset, last_lost,
                str(wrong), ", ".join(reversed(kept)),
            )
        )  # fmt: skip

    def _set_aside(self, segment: Segment) -> list[str]:
        """Rename a whole segment to `.cut` and return the path; an empty one is removed."""
        segment.let_go()
        kept = []
        if segment.size:
            kept = [cut_path(segment.path, 0, self._resources.clock.wall_ms())]
            self._files.rename(segment.path, kept[0])
        else:
            self._files.remove(segment.path)
        for path in segment.index_paths:
            self._files.remove(path)
        return kept

    def _note_cut(self, cut: Cut) -> None:
        self._has_cuts = True
        report = self.report
        self.report = report._replace(
            removed_segments=report.removed_segments + cut.removed_segments,
            cut_bytes=report.cut_bytes + cut.size,
            reason=f"{self._folder}: {cut.reason}",
        )
        if cut.size:
            self._warn(str(cut))

    def cut_files(self) -> tuple[CutFile, ...]:
        """List the `.cut` files in the folder; most folders have none."""
        if not self._has_cuts:
            return ()
        return tuple(find_cuts(self._files, self._folder, self._files.names(self._folder)))

    def start_over(self, log_start_offset: int) -> int:
        """Remove all segments of a log that ends below its start: readers get none of it."""
        wrong = CorruptRecords(f"the log ended before its start, {log_start_offset}")
        self._remove_from(0, self.segments[0].base_offset, wrong)
        self.segments.append(
            Segment.create(self._resources, self._folder, log_start_offset, self._config)
        )
        return log_start_offset

    def restore_producers(self, end_offset: int, *, trusted: bool) -> None:
        """Load producer state after a clean shutdown; recovery has replayed it already.

        A log without any snapshot has no producers, or was copied without its snapshots. Reading
        the whole log to find out would make every start slow, so it is not replayed.
        """
        bases = {segment.base_offset for segment in self.segments}
        remove_snapshots(self._files, self._folder, stray_snapshots(self._snapshots, bases))
        if trusted and self._snapshots:
            restore_producers(self._files, self._folder, self.producers, self.segments, end_offset)


def _assign_epoch(epochs: LeaderEpochs, batch: StoredBatch) -> None:
    epochs.assign(LeaderEpoch(batch.leader_epoch), Offset(batch.base_offset))


def finish_interrupted(files: Files, folder: str) -> list[str]:
    """Complete or undo interrupted compactions and deletions; return the names in the folder.

    Usually there are none, and this costs one listing of the folder.
    """
    names = files.names(folder)
    if any(name.endswith(_LEFT_BEHIND) for name in names):
        _remove_unfinished(files, folder, names)
        _complete_swaps(files, folder)
        names = files.names(folder)
    logs = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    orphans = [
        name
        for name in names
        if name.endswith(SEGMENT_SUFFIXES[1:]) and name.partition(".")[0] not in logs
    ]
    for name in orphans:
        files.remove(f"{folder}/{name}")
    return [name for name in names if name not in orphans]


def _remove_unfinished(files: Files, folder: str, names: list[str]) -> None:
    first_cleaned = min(_bases(names, CLEANED_SUFFIX), default=None)
    for name in names:
        swap = segment_base(name, SWAP_SUFFIX)
        unfinished = swap is not None and first_cleaned is not None and swap >= first_cleaned
        if unfinished or name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
            files.remove(f"{folder}/{name}")


def _complete_swaps(files: Files, folder: str) -> None:
    """Replace old segments by the compacted ones that are complete (`.swap`).

    The order makes this repeatable after a crash. First the old files are removed: as long as a
    `.log.swap` exists, everything is done again. Then the `.log` files are renamed, and last their
    indexes. With the indexes first, a repeat would remove a new `.txnindex` as an old file, and
    recovery does not rebuild it below the recovery point.
    """
    names = files.names(folder)
    swaps = [name for name in names if segment_base(name, SWAP_SUFFIX) is not None]
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if not swaps:
        return
    start = min(_bases(logs, SWAP_SUFFIX), default=0)
    end = max((_swap_end(files, folder, name) for name in logs), default=0)
    crash_point("recovery.before_swap")
    for name in names:
        base_offset = segment_base(name)
        if base_offset is not None and start <= base_offset < end:
            files.remove(f"{folder}/{name}")
    for name in sorted(swaps, key=lambda name: name not in logs):
        files.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(SWAP_SUFFIX)}")
        crash_point("recovery.after_rename")
    crash_point("recovery.after_swap")
    files.sync_folder(folder)


def segment_base(name: str, more_suffix: str = "") -> int | None:
    """Parse the base offset from a file name of a segment; None for any other name."""
    for suffix in SEGMENT_SUFFIXES:
        if name.endswith(suffix + more_suffix):
            stem = name.removesuffix(suffix + more_suffix)
            return int(stem) if len(stem) == 20 and stem.isascii() and stem.isdigit() else None
    return None


def _bases(names: list[str], more_suffix: str) -> list[int]:
    found = (segment_base(name, more_suffix) for name in names)
    return [base_offset for base_offset in found if base_offset is not None]


def _swap_end(files: Files, folder: str, name: str) -> int:
    """Return the offset after the last batch of a `.swap` segment."""
    end_offset = segment_base(name, SWAP_SUFFIX) or 0
    file = files.open(f"{folder}/{name}")
    try:
        for batch in walk(file, 0, file.size()):
            end_offset = batch.last_offset + 1
    finally:
        file.close()
    return end_offset
