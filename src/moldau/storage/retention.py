"""Which segments retention deletes. This module only decides.

Retention deletes whole segments, oldest first, and never one with offsets at or above the high
watermark: another leader may have other records there. It deletes

- segments below the log start, whatever the cleanup policy (an admin deleted their records);
- with the `delete` policy, segments while the others have at least `retention.bytes`;
- with the `delete` policy, segments whose newest record is older than `retention.ms`.

The active segment may be deleted too, unless it is empty; the caller rolls it first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from moldau.storage.topic_config import LogConfig


class Candidate(Protocol):
    """A segment as retention sees it."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    def newest_ms(self) -> int:
        """Timestamp of the newest record; may read a file, so only the oldest are asked."""
        ...


def expired_count(
    segments: Sequence[Candidate],
    config: LogConfig,
    now_ms: int,
    *,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
) -> int:
    """Return how many of the oldest segments to delete."""
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    removable = _removable_count(segments, ends, high_watermark)
    count = 0
    while count < min(removable, len(segments) - 1) and ends[count] <= log_start_offset:
        count += 1
    if not config.deletes:
        return count
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[count:]) - config.retention_bytes
        while count < removable and excess >= segments[count].size:
            excess -= segments[count].size
            count += 1
    if config.retention_ms >= 0:
        oldest_ms = now_ms - config.retention_ms
        while count < removable and segments[count].newest_ms() < oldest_ms:
            count += 1
    return count


def _removable_count(
    segments: Sequence[Candidate], ends: Sequence[int], high_watermark: int
) -> int:
    """Count the oldest segments below the high watermark, without an empty active one."""
    count = 0
    while count < len(segments) and ends[count] <= high_watermark:
        count += 1
    if count == len(segments) and count and not segments[-1].size:
        count -= 1
    return count
