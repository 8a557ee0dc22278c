"""Which segments are too old or too many: a decision, nothing else.

Only whole segments go, from the oldest on, and none that reaches above the high watermark:

- those wholly below the log's start offset (records were deleted by request), whatever the policy;
- with the `delete` policy, while the rest still holds at least `retention.bytes`;
- with the `delete` policy, while the newest record in them is older than `retention.ms`.

The segment being written may go as well, unless it is empty; the caller rolls it first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from moldau.storage.topic_config import LogConfig


class Candidate(Protocol):
    """A segment, as far as retention is concerned."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    def newest_ms(self) -> int:
        """Time of the newest record; may cost a read, so only asked for the oldest segments."""
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
    """Say how many of the oldest segments are to go."""
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
    """Count the oldest segments that lie wholly below the high watermark and hold something."""
    count = 0
    while count < len(segments) and ends[count] <= high_watermark:
        count += 1
    if count == len(segments) and count and not segments[-1].size:
        count -= 1
    return count
