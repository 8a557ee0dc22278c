"""Which log to clean, and up to which segment. This module only decides.

    log start ...... first dirty ...... first uncleanable ...... log end
             cleaned             dirty                 not touched

The last cleaning ended at the first dirty offset. A cleaning does not touch the active segment,
anything at or above the last stable offset or the recovery point, or segments younger than
`min.compaction.lag.ms`. A log is cleaned if the dirty part is more than `min.cleanable.dirty.ratio`
of both parts, or if a dirty segment is older than `max.compaction.lag.ms` (KIP-354). The log with
the highest ratio is cleaned first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau.base.files import Files
from moldau.storage.compaction.source import SegmentFiles
from moldau.storage.index_files import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from moldau.storage.indexes import RELATIVE_OFFSET_MAX
from moldau.storage.log import Log
from moldau.storage.segment import Segment
from moldau.storage.topic_config import LONG_MAX

GROUP_COUNT_MAX: Final = 64
"""At most so many segments are cleaned into one. Swapping costs a few renames per segment on the
event loop. If there are more small segments, the next cleaning groups them further."""


class Dirt(NamedTuple):
    """The part of a log that can be cleaned."""

    first_dirty_offset: int
    end_offset: int
    """The base offset of the first segment that must not be touched."""
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Whether a dirty segment is older than `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def worth_cleaning(self, min_ratio: float) -> bool:
        """Return whether this log should be cleaned."""
        return self.dirty_bytes > 0 and (self.overdue or self.ratio > min_ratio)


def assess(log: Log, cleaner_offset: int | None, last_stable_offset: int, now_ms: int) -> Dirt:
    """Return what can be cleaned; `cleaner_offset` is where the last cleaning ended, if any.

    CorruptRecords if the log is damaged where this reads it.
    """
    start, end = log.log_start_offset, log.log_end_offset
    first_dirty = start if cleaner_offset is None else cleaner_offset
    if not start <= first_dirty <= end:
        # An admin deleted records, or the log was truncated below the cleaned part.
        first_dirty = start
    bases = [segment.base_offset for segment in log.segments]
    dirty_number = max(0, bisect_right(bases, first_dirty) - 1)
    end_number = _end_number(log, bases, dirty_number, last_stable_offset, now_ms)
    end_offset = max(first_dirty, bases[end_number])
    dirty = log.segments[dirty_number:end_number] if first_dirty < bases[end_number] else []
    clean = (one for one in log.segments if one.base_offset < first_dirty)
    return Dirt(
        first_dirty,
        end_offset,
        sum(segment.size for segment in clean),
        sum(segment.size for segment in dirty),
        _overdue(log, dirty, now_ms),
    )


def _end_number(
    log: Log, bases: Sequence[int], dirty_number: int, last_stable_offset: int, now_ms: int
) -> int:
    """Return the number of the first segment that must not be touched.

    A cleaning never ends above the recovery point. So a truncation into the cleaned part lowers
    the recovery point first, and `LogDirectory.lower_offsets` lowers both.
    """
    sure = min(last_stable_offset, log.recovery_point, bases[-1])
    number = min(max(0, bisect_right(bases, sure) - 1), len(bases) - 1)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for young in range(dirty_number, number):
            if log.segments[young].largest().timestamp > now_ms - lag_ms:
                return young
    return number


def _overdue(log: Log, dirty: Sequence[Segment], now_ms: int) -> bool:
    """Return whether the first batch of a dirty segment is older than the lag allows."""
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms >= LONG_MAX:
        return False
    return any(0 < segment.first_batch_ms() < now_ms - lag_ms for segment in dirty)


def group_segments(
    files: Files,
    segments: Sequence[SegmentFiles],
    end_offset: int,
    *,
    segment_bytes: int,
    index_bytes: int,
) -> list[list[SegmentFiles]]:
    """Group adjacent segments that fit into one, so that cleaned segments do not stay small.

    The limits are the size of the `.log`, the size of each index, and 31 bits for the offsets.
    """
    groups: list[list[SegmentFiles]] = []
    sizes: tuple[int, ...] = (0, 0, 0)
    for number, segment in enumerate(segments):
        following = segments[number + 1 : number + 2]
        last_offset = (following[0].base_offset if following else end_offset) - 1
        own = (
            segment.size,
            _size(files, segment.stem + INDEX_SUFFIX),
            _size(files, segment.stem + TIME_INDEX_SUFFIX),
        )
        joined = tuple(map(sum, zip(sizes, own, strict=True)))
        fits = (
            groups
            and len(groups[-1]) < GROUP_COUNT_MAX
            and joined[0] <= segment_bytes
            and max(joined[1:]) <= index_bytes
            and (not segment.size or last_offset - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        )
        if fits:
            groups[-1].append(segment)
            sizes = joined
        else:
            groups.append([segment])
            sizes = own
    return groups


def _size(files: Files, path: str) -> int:
    """Return the size of an index; 0 if it is missing and will be rebuilt."""
    return files.size(path) if files.exists(path) else 0
