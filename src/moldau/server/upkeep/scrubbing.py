"""The scrub: from time to time every closed segment is read again, to find what has rotted.

Off unless `log.scrub.interval.ms` says how long to rest between two passes. One segment at a time,
at most `BYTES_PER_SECOND`, in the process that also compacts, so that neither the event loop nor
its interpreter is busy with it. A damaged batch is said at WARN and counted, and left as it is:
whether to restore a copy or to live with the loss is up to the operator. A damaged `.txnindex` is
made anew before a reader has to wait for that.
"""

from __future__ import annotations

import asyncio
import logging

from moldau.base.clock import Clock
from moldau.base.executor import Executor, Lane, WorkerLost
from moldau.base.files import Files
from moldau.replication.partition import Partition
from moldau.replication.partitions import Partitions
from moldau.server.upkeep.housekeeping import LOGS_PER_SLICE
from moldau.server.upkeep.index_repair import RebuildIndex
from moldau.storage.closed_segments import ClosedSegments
from moldau.storage.scrub import Damage, ScrubStep, scrub_step
from moldau.storage.segment import Segment
from moldau.storage.transaction_index import DamagedTransactionIndex, check_stored

logger = logging.getLogger(__name__)

BYTES_PER_SECOND = 32 * 1024 * 1024
"""Slow enough to leave a disk to those who wait for it; a terabyte takes nine hours."""

STEP_BYTES = 4 * 1024 * 1024


class Scrubber:
    """Reads closed segments and compares checksums."""

    def __init__(
        self,
        files: Files,
        partitions: Partitions,
        clock: Clock,
        executor: Executor,
        rebuild_index: RebuildIndex,
    ) -> None:
        self._files = files
        self._partitions = partitions
        self._clock = clock
        self._executor = executor
        self._rebuild_index = rebuild_index
        self.checked_bytes = 0
        self.damaged_batches = 0

    async def scrub(self) -> None:
        """Look at every segment that is closed now, once."""
        damaged_before, started_s = self.damaged_batches, self._clock.monotonic()
        for number, partition in enumerate(self._partitions.snapshot(), 1):
            if number % LOGS_PER_SLICE == 0:
                await asyncio.sleep(0)
            for segment in tuple(partition.log.segments[:-1]):
                read = ClosedSegments(partition.log, (segment,))
                await self._scrub_segment(partition, segment, read)
                if segment.has_aborted and read.are_unchanged():
                    await self._scrub_index(partition, segment, read)
        logger.info(
            "scrub done in %.0f s: %d damaged batch(es) found",
            self._clock.monotonic() - started_s, self.damaged_batches - damaged_before,
        )  # fmt: skip

    async def _scrub_segment(
        self, partition: Partition, segment: Segment, read: ClosedSegments
    ) -> None:
        size = segment.size
        step = ScrubStep(0, segment.base_offset, ())
        while step.position < size and read.are_unchanged():
            position, started_s = step.position, self._clock.monotonic()
            try:
                step = await self._executor.compute(
                    Lane.CLEANING, scrub_step, self._files, segment.path, step, size, STEP_BYTES
                )
            except WorkerLost:
                return  # The next pass looks at this segment again.
            except OSError as error:
                self._cannot_read(partition, segment, read, error)
                return
            if not read.are_unchanged():
                return
            self.checked_bytes += step.position - position
            for damage in step.damages:
                self._found(partition, segment, damage)
            ahead_s = (step.position - position) / BYTES_PER_SECOND
            await asyncio.sleep(max(0.0, ahead_s - (self._clock.monotonic() - started_s)))

    async def _scrub_index(
        self, partition: Partition, segment: Segment, read: ClosedSegments
    ) -> None:
        """Have the index of aborted transactions made anew if it is damaged."""
        segments = partition.log.segments
        following = segments[segments.index(segment) + 1]
        try:
            await self._executor.compute(
                Lane.CLEANING, check_stored, self._files, segment.transactions_path,
                segment.base_offset, following.base_offset,
            )  # fmt: skip
        except DamagedTransactionIndex as damage:
            if read.are_unchanged():
                self._rebuild_index(partition, damage)
        except WorkerLost:
            return
        except OSError as error:
            self._cannot_read(partition, segment, read, error)

    def _cannot_read(
        self, partition: Partition, segment: Segment, read: ClosedSegments, error: OSError
    ) -> None:
        # One that retention or compaction has taken away meanwhile is no news.
        if read.are_unchanged():
            logger.warning("%s: %s cannot be read: %s", partition.key, segment.path, error)

    def _found(self, partition: Partition, segment: Segment, damage: Damage) -> None:
        self.damaged_batches += 1
        offsets = f"offsets {damage.first_offset} to {damage.last_offset}"
        if damage.last_offset < 0:
            offsets = f"offsets from {damage.first_offset} on, the rest of the segment"
        logger.warning(
            "%s: %s is damaged at position %d (%s): %d bytes, %s",
            partition.key, segment.path, damage.position, damage.reason, damage.size, offsets,
        )  # fmt: skip
