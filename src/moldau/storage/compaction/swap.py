"""The broker's side of a cleaning: the plan for the worker, and the swap of its results.

This runs on the event loop and reads no records. A swap only renames files. The order is such that
a crash at any point leads to all old segments or to the new one:

    1. rename `.cleaned` to `.swap`, the `.log` last: then the new segment is complete;
    2. rename the old files to `.deleted`;
    3. remove the suffix `.swap`, of the `.log` first, because recovery completes the rest.

After a crash between 1 and 3, `recovery` continues. This relies on three things: the worker has
synced the files, the file system keeps the order of renames, and the cleaner offset is written only
after the folder was synced. Otherwise a power cut could bring back old segments below the cleaner
offset, and no later cleaning would remove their records.

A cleaning is called off if the log is truncated, loses segments that are not swapped yet, gets
other configs or is closed. Appends do not disturb it. A truncation counts even after the last swap:
the cleaner offset must not be above the log end, where dirty records come next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from moldau.base.checks import crash_point, invariant
from moldau.base.errors import MoldauError
from moldau.storage.compaction.choice import Dirt
from moldau.storage.compaction.output import remove_unfinished
from moldau.storage.compaction.source import SegmentFiles
from moldau.storage.compaction.work import CleanedGroup, CleaningPlan, LastBatch
from moldau.storage.disk_errors import disk_failures
from moldau.storage.log import Log
from moldau.storage.producer_history import remove_snapshots
from moldau.storage.producers import Producer
from moldau.storage.recovery import CLEANED_SUFFIX, SWAP_SUFFIX
from moldau.storage.resources import Resources
from moldau.storage.segment import SEGMENT_SUFFIXES, Segment


class CalledOff(MoldauError):  # noqa: N818 - it names the event
    """The log has changed since the cleaning started, so the result cannot be used."""


class Limits(NamedTuple):
    """The memory that a cleaning may use."""

    key_bytes: int
    chunk_bytes: int


class Cleaning:
    """One cleaning of one log, on the broker's side."""

    def __init__(self, resources: Resources, log: Log, dirt: Dirt, limits: Limits) -> None:
        config = log.config
        self._resources = resources
        self._config = config
        self._truncation_count = log.truncation_count
        self._left = [one for one in log.segments if one.base_offset < dirt.end_offset]
        """Segments that are not swapped yet, oldest first."""
        self.log = log
        self.plan = CleaningPlan(
            files=resources.files,
            token=resources.random.randbytes(16).hex(),
            segments=tuple(
                SegmentFiles(log.folder, one.base_offset, one.size, one.has_aborted)
                for one in log.segments
            ),
            first_dirty_offset=dirt.first_dirty_offset,
            end_offset=dirt.end_offset,
            now_ms=resources.clock.wall_ms(),
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            producers={
                producer.producer_id: last
                for producer in log.producers
                if (last := _last_batch(producer)).offset < dirt.end_offset
            },
            key_bytes=limits.key_bytes,
            chunk_bytes=limits.chunk_bytes,
        )

    def require_unchanged(self) -> None:
        """Raise CalledOff if the log has changed; call it after every `await`."""
        log, left = self.log, self._left
        if log.offline or log.config != self._config:
            raise CalledOff(f"{log.folder} is out of use or has other configs")
        number = _number_of(log, left[0]) if left else 0
        same = number is not None and list(log.segments[number : number + len(left)]) == left
        uncut = log.truncation_count == self._truncation_count
        if not (same and uncut and log.active not in left):
            raise CalledOff(f"{log.folder} has lost segments or was cut")

    def swap_in(self, group: CleanedGroup) -> None:
        """Replace old segments by the cleaned one.

        StorageError if the disk fails: the directory goes offline, and recovery completes the swap.
        """
        self.require_unchanged()
        old = self._left[: len(group.base_offsets)]
        # Every old segment is deleted below, so the new one must be made of exactly these.
        invariant(
            tuple(segment.base_offset for segment in old) == group.base_offsets,
            f"{self.log.folder}: cleaned {group.base_offsets}, not the next segments",
        )
        log, stem = self.log, old[0].stem
        with disk_failures(log.folder):
            crash_point("compaction.swap.before_ready")
            self._rename(stem, SEGMENT_SUFFIXES[::-1], CLEANED_SUFFIX, SWAP_SUFFIX)
            crash_point("compaction.swap.after_ready")
            for segment in old:
                segment.schedule_delete()
                crash_point("compaction.swap.after_schedule_delete")
            self._rename(stem, SEGMENT_SUFFIXES, SWAP_SUFFIX, "")
            crash_point("compaction.swap.after_names")
            new = Segment(
                self._resources,
                log.folder,
                old[0].base_offset,
                group.size,
                log.config,
                has_aborted=group.has_aborted,
            )
            log.replace_segments(old, new)
            del self._left[: len(old)]
            bases = [segment.base_offset for segment in old[1:]]
            remove_snapshots(self._resources.files, log.folder, bases)
            crash_point("compaction.swap.after_snapshots")

    def _rename(self, stem: str, suffixes: Sequence[str], before: str, after: str) -> None:
        for suffix in suffixes:
            # Most segments have no `.txnindex`.
            with contextlib.suppress(FileNotFoundError):
                path = stem + suffix
                self._resources.files.rename(path + before, path + after)
                crash_point("compaction.swap.after_rename")

    def sync(self) -> None:
        """Sync the renames; may block, and may run on any thread.

        The cleaner offset must not be written before this.
        """
        with disk_failures(self.log.folder):
            crash_point("compaction.before_sync")
            self._resources.files.sync_folder(self.log.folder)
            crash_point("compaction.after_sync")

    def clear_away(self) -> None:
        """Remove the files of a cleaning that was called off, if the folder still exists."""
        with contextlib.suppress(OSError):
            for segment in self._left[:1]:
                remove_unfinished(self._resources.files, segment.stem)


def _number_of(log: Log, segment: Segment) -> int | None:
    try:
        return log.segments.index(segment)
    except ValueError:
        return None


def _last_batch(producer: Producer) -> LastBatch:
    batches = producer.batches
    return LastBatch(batches[-1].last_offset if batches else -1, producer.epoch)
