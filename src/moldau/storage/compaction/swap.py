"""The log's side of a cleaning: what it is asked for, and how its results come into use.

Lives on the event loop, next to the log, and reads no record. A cleaned segment takes the place of
those it was made from by names alone, in an order from which a crash at any moment leads to all of
the old or all of the new:

    1. `.cleaned` becomes `.swap`, the `.log` last: from then on the new one is complete;
    2. the old ones become `.deleted`;
    3. `.swap` becomes no suffix, the `.log` first: what is left of that can be done at any time.

`recovery` does the rest after a crash between 1 and 3. The files were synced when they were
written, names come to the disk in the order of their changes, and where the log was cleaned up to
is written down only when the folder was synced: otherwise a power cut could bring back what later
cleanings take for gone.

A log that changes meanwhile (it is cut, loses segments, gets other configs, goes) calls the
cleaning off. Appending to it is no change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from moldau.base.checks import crash_point
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
    """The log has changed, and a cleaning of what it was is of no use."""


class Limits(NamedTuple):
    """What a cleaning may use."""

    key_bytes: int
    chunk_bytes: int


class Cleaning:
    """A cleaning of one log, as the log sees it."""

    def __init__(self, resources: Resources, log: Log, dirt: Dirt, limits: Limits) -> None:
        config = log.config
        self._resources = resources
        self._config = config
        self._left = [one for one in log.segments if one.base_offset < dirt.end_offset]
        """Segments that may still be replaced, oldest first."""
        self._sizes = {one.base_offset: one.size for one in self._left}
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
        """Raise CalledOff if what is being cleaned is no longer the log."""
        log, left = self.log, self._left
        if log.offline or log.config != self._config:
            raise CalledOff(f"{log.folder} is out of use or has other configs")
        number = _number_of(log, left[0]) if left else 0
        same = number is not None and list(log.segments[number : number + len(left)]) == left
        unwritten = all(one.size == self._sizes[one.base_offset] for one in left)
        if not (same and unwritten and log.active not in left):
            raise CalledOff(f"{log.folder} has lost segments or was cut")

    def swap_in(self, group: CleanedGroup) -> None:
        """Let a cleaned segment take the place of those it was made from.

        StorageError if the disk refuses: the directory goes offline, and recovery finishes it.
        """
        self.require_unchanged()
        old = self._left[: len(group.base_offsets)]
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
            # Most segments have no index of aborted transactions.
            with contextlib.suppress(FileNotFoundError):
                path = stem + suffix
                self._resources.files.rename(path + before, path + after)
                crash_point("compaction.swap.after_rename")

    def sync(self) -> None:
        """Make the swaps durable; may block, and may run on any thread."""
        with disk_failures(self.log.folder):
            crash_point("compaction.before_sync")
            self._resources.files.sync_folder(self.log.folder)
            crash_point("compaction.after_sync")

    def clear_away(self) -> None:
        """Remove what a cleaning that was called off has left, if the folder is still there."""
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
