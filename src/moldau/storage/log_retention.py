"""The deletion of a log's oldest segments. `retention` decides which; this deletes them.

The log start moves first, the files go second: the start must never be below the first segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.base.checks import crash_point, invariant
from moldau.base.errors import DiskFull
from moldau.base.files import Files
from moldau.storage.durability import Durability
from moldau.storage.producer_history import remove_snapshots
from moldau.storage.retention import expired_count
from moldau.storage.segments import Segments

if TYPE_CHECKING:
    from moldau.storage.log import Log


def delete_expired(
    log: Log,
    files: Files,
    segments: Segments,
    durability: Durability,
    now_ms: int,
    high_watermark: int,
) -> int:
    """Delete the segments that retention has expired; return how many."""
    count = expired_count(
        segments.all,
        log.config,
        now_ms,
        log_start_offset=log.log_start_offset,
        high_watermark=high_watermark,
        log_end_offset=log.log_end_offset,
    )
    if count == len(segments):
        try:
            log.roll()
        except DiskFull:
            count -= 1  # Deleting the others makes room for a roll next time.
    for _ in range(count):
        start = segments.base_offsets[1]
        invariant(
            start <= high_watermark <= log.log_end_offset,
            f"{log}: a start at {start} with high watermark {high_watermark}",
        )
        log.delete_records_before(start)
        crash_point("log.retain.before_removal")
        oldest = segments.take_oldest()
        oldest.schedule_delete()
        remove_snapshots(files, log.folder, [oldest.base_offset])
        durability.names_changed()
        crash_point("log.retain.after_removal")
    return count
