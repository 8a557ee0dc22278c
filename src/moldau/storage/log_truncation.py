"""The truncation of a log: it loses its end, or all it has.

A follower truncates where its log differs from its leader's. A crash may come between any two steps
here, so their order matters for recovery: first the recovery point on disk, then whole segments,
newest first, then the end of the segment that stays, last the log start on disk if it is lower now.
A crash before that leaves an empty log at the old start, and records deleted by an admin stay away.

This runs on the event loop and blocks. `Log` decides whether there is anything to truncate;
`replication.truncation` decides where.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from moldau.base.checks import crash_point
from moldau.base.ids import Offset
from moldau.storage.durability import Durability
from moldau.storage.prepared_end import PreparedEnd
from moldau.storage.producer_history import restore_producers
from moldau.storage.resources import Resources
from moldau.storage.segment import Segment
from moldau.storage.segments import Segments

if TYPE_CHECKING:
    from moldau.storage.log import Log


class Truncation(NamedTuple):
    """One truncation of one log, with the parts of the log that it changes."""

    log: Log
    resources: Resources
    segments: Segments
    durability: Durability
    prepared: PreparedEnd | None

    def truncate_to(self, offset: int) -> None:
        """Remove everything at or above an offset below the log end."""
        segments = self.segments
        if offset < segments.base_offsets[0]:
            self.restart_at(offset)
            return
        batch = segments.all[segments.number_of(offset)].batch_holding(offset)
        self.durability.cut_to(offset if batch is None else min(offset, batch.base_offset))
        crash_point("log.truncate.before_removal")
        self._delete_segments_above(offset)
        self.log.active = segments.all[-1]
        crash_point("log.truncate.before_cut")
        end_offset = self.log.active.truncate_to(offset)
        crash_point("log.truncate.after_cut")
        self._truncate_state(min(self.log.log_start_offset, end_offset), end_offset)

    def restart_at(self, offset: int) -> None:
        """Delete all segments and continue with an empty log at an offset."""
        log = self.log
        self.durability.cut_to(offset)
        crash_point("log.restart.before_removal")
        self._delete_segments_above(-1)
        crash_point("log.restart.before_create")
        log.active = Segment.create(self.resources, log.folder, offset, log.config)
        self.segments.add(log.active)
        crash_point("log.restart.after_create")
        log.epochs.clear()
        self._truncate_state(offset, offset)

    def _delete_segments_above(self, offset: int) -> None:
        """Delete the segments that start above an offset, newest first, and sync the folder.

        Without the sync, a power cut could undo the deletion and keep later appends: old segments
        would then follow new batches.
        """
        segments = self.segments
        count = len(segments)
        while segments.all and segments.base_offsets[-1] > offset:
            segments.take_newest().schedule_delete()
        if len(segments) < count:
            crash_point("log.truncate.before_sync")
            self.resources.files.sync_folder(self.log.folder)

    def _truncate_state(self, start_offset: int, end_offset: int) -> None:
        """Truncate epochs, snapshots and producers, and set both ends; indexes are cut already."""
        log, prepared, files = self.log, self.prepared, self.resources.files
        fits = prepared is not None and prepared.fits(log, end_offset)
        log.log_end_offset = Offset(end_offset)
        old_start, log.log_start_offset = log.log_start_offset, Offset(start_offset)
        log.epochs.truncate_from_end(Offset(end_offset))
        if prepared is not None and fits:
            log.producers = prepared.take(files, log.folder)
        else:
            restore_producers(files, log.folder, log.producers, self.segments.all, end_offset)
        if start_offset < old_start:
            self.durability.log_start_lowered()
