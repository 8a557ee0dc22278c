"""The truncation of a log: it loses its end, or all it has.

A follower truncates where its log differs from its leader's. In memory that is one step, on the
event loop. The files follow in steps that may block: to cut a gigabyte takes the kernel as long as
to write some of it. Until the last step has run, `Log.is_truncating` holds, and nothing is
appended, flushed or deleted. Reads go on: below the new end no byte changes.

A crash may come between any two steps, so their order matters for recovery: first the recovery
point on disk, then whole segments, newest first, then the end of the segment that stays, last the
log start on disk if it is lower now. A crash before that leaves an empty log at the old start, and
records deleted by an admin stay away.

The log may be deleted meanwhile, and its path may be another log's. So the steps name files by an
open folder. `Log` decides whether there is anything to truncate; `replication.truncation` decides
where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from moldau.base.checks import crash_point
from moldau.base.errors import DiskFull, StorageError
from moldau.base.files import Folder
from moldau.base.ids import Offset
from moldau.storage.disk_errors import disk_failures
from moldau.storage.durability import Durability
from moldau.storage.prepared_end import PreparedEnd
from moldau.storage.producer_history import replay_producers, snapshot_offsets, snapshots_after
from moldau.storage.producer_snapshot import snapshot_name
from moldau.storage.resources import Resources
from moldau.storage.segment import Segment
from moldau.storage.segment_files import create_log_file, rename_deleted
from moldau.storage.segments import Segments

if TYPE_CHECKING:
    from moldau.storage.log import Log

BlockingSteps = Iterator[Callable[[], None]]
"""Calls that block, for any thread, one after the other. The iterator itself runs on the loop. A
StorageError must take the log directory offline."""


class Truncation(NamedTuple):
    """One truncation of one log, with the parts of the log that it changes."""

    log: Log
    resources: Resources
    segments: Segments
    durability: Durability
    folder: Folder
    prepared: PreparedEnd | None

    def truncate_to(self, offset: int) -> BlockingSteps:
        """Remove everything at or above an offset below the log end."""
        log, segments = self.log, self.segments
        if offset < segments.base_offsets[0]:
            return self.restart_at(offset)
        snapshots = snapshot_offsets(self.resources.files.names(log.folder))
        prepared = self.prepared
        segment = segments.all[segments.number_of(offset)]
        loaded = prepared.tail_of(log, segment) if prepared is not None else None
        cut = segment.truncate_to(offset, loaded)
        lowered = self.durability.cut_to(cut.end_offset)
        if prepared is not None and not prepared.fits(log, cut.end_offset):
            prepared = None
        removed = self._take_segments_above(offset)
        log.active = segments.all[-1]
        old_start = log.log_start_offset
        self._move_ends(min(old_start, cut.end_offset), cut.end_offset)
        if prepared is not None:
            log.producers = prepared.producers
        else:
            self._replay_producers(snapshots)

        def change(folder: Folder) -> None:
            crash_point("log.truncate.before_removal")
            _remove_segments(folder, removed)
            crash_point("log.truncate.before_cut")
            cut.run(folder)
            crash_point("log.truncate.after_cut")
            _remove_snapshots(folder, snapshots_after(snapshots, cut.end_offset))

        return self._steps(lowered, change, removed, old_start)

    def restart_at(self, offset: int) -> BlockingSteps:
        """Delete all segments and continue with an empty log at an offset."""
        log = self.log
        snapshots = snapshot_offsets(self.resources.files.names(log.folder))
        # Behind a gap nobody knows the producers: a marker that ended a transaction may lie in it,
        # and that transaction would stay open here for ever.
        has_gap = offset > log.log_end_offset
        outdated = snapshots if has_gap else snapshots_after(snapshots, offset)
        lowered = self.durability.cut_to(offset)
        removed = self._take_segments_above(-1)
        active = Segment.without_file(self.resources, log.folder, offset, log.config)
        log.active = active
        self.segments.add(active)
        log.epochs.clear()
        old_start = log.log_start_offset
        self._move_ends(offset, offset)
        self._replay_producers([] if has_gap else snapshots)

        def change(folder: Folder) -> None:
            # Snapshots first: the new log must not be found with one from before a gap.
            _remove_snapshots(folder, outdated)
            crash_point("log.restart.before_removal")
            _remove_segments(folder, removed)
            crash_point("log.restart.before_create")
            create_log_file(folder, active.file_names[0])
            crash_point("log.restart.after_create")

        return self._steps(lowered, change, removed, old_start)

    def _take_segments_above(self, offset: int) -> list[Segment]:
        """Take the segments that start above an offset out of the log, newest first."""
        segments, removed = self.segments, []
        while segments.all and segments.base_offsets[-1] > offset:
            removed.append(segments.take_newest())
            removed[-1].let_go()
        return removed

    def _move_ends(self, start_offset: int, end_offset: int) -> None:
        log = self.log
        log.log_end_offset = Offset(end_offset)
        log.log_start_offset = Offset(start_offset)
        log.epochs.truncate_from_end(Offset(end_offset))

    def _replay_producers(self, snapshots: Sequence[int]) -> None:
        log = self.log
        replay_producers(
            self.resources.files,
            log.folder,
            log.producers,
            self.segments.all,
            log.log_end_offset,
            snapshots,
        )

    def _steps(
        self,
        lowered: Callable[[], None] | None,
        change: Callable[[Folder], None],
        removed: Sequence[Segment],
        old_start: int,
    ) -> BlockingSteps:
        """Yield the steps in their order; between them, do the rest on the loop."""
        log = self.log
        with closing(self.folder):
            if lowered is not None:
                yield partial(_write, lowered)
            yield partial(_change, log.folder, change, self.folder)
            for segment in removed:
                segment.renamed_deleted()
            if log.log_start_offset < old_start:
                yield partial(_write, self.durability.lower_log_start(log.log_start_offset))
                crash_point("log.truncate.after_log_start")
        log.is_truncating = False


def run_steps(steps: Iterable[Callable[[], None]]) -> None:
    """Run the steps of a truncation here and now."""
    for step in steps:
        step()


def _write(write: Callable[[], None]) -> None:
    """Write lowered offsets. There is no way back: a full disk is a failure like any other."""
    try:
        write()
    except DiskFull as error:
        raise StorageError(error.path, "no room to write down a truncation") from error


def _change(path: str, change: Callable[[Folder], None], folder: Folder) -> None:
    with disk_failures(path):
        change(folder)


def _remove_segments(folder: Folder, removed: Sequence[Segment]) -> None:
    """Rename the files of these segments, newest first, and sync the folder.

    Without the sync, a power cut could undo the deletion and keep later appends: old segments
    would then follow new batches.
    """
    for segment in removed:
        rename_deleted(folder, segment.file_names)
    if removed:
        crash_point("log.truncate.before_sync")
        folder.sync()


def _remove_snapshots(folder: Folder, offsets: Sequence[int]) -> None:
    for offset in offsets:
        folder.remove(snapshot_name(offset))
