"""Repair of damaged `.txnindex` files: whoever reads one and finds it wrong asks for it here.

One index after the other is made anew from the batches (`storage.transaction_index_rebuild`), in
the process that also compacts: a segment of small batches is seconds of work. The new file is
written beside the old one and takes its place on the event loop, where it is certain that the
segment is still the one that was read: compaction may have put another in its place meanwhile.

Readers of committed transactions wait for it as they wait for new records, and never get anything
on the word of the damaged file. If the batches cannot be read either they are told
CORRUPT_MESSAGE, and the index is not tried again until the next start.

The segment that is being written is closed first, so that no abort comes while its index is made.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords, InvariantViolated, StorageError
from moldau.base.executor import Executor, Lane, WorkerLost
from moldau.base.files import Files
from moldau.replication.partition import Partition
from moldau.storage.closed_segments import ClosedSegments
from moldau.storage.disk_errors import is_full, storage_error
from moldau.storage.indexes import AbortedIndex
from moldau.storage.log import Log
from moldau.storage.segment import Segment
from moldau.storage.transaction_index import (
    EMPTY,
    TEMPORARY_SUFFIX,
    DamagedTransactionIndex,
    store_beside,
)
from moldau.storage.transaction_index_rebuild import RebuildStep, begin_rebuild, rebuild_step

logger = logging.getLogger(__name__)

STEP_BYTES: Final = 16 * 1024 * 1024
"""Of a log that is read between two pauses: a second of work if its batches are tiny."""

_base_offset = attrgetter("base_offset")

RebuildIndex = Callable[[Partition, DamagedTransactionIndex], bool]
"""Asks for an index to be made anew; False if that was tried and cannot be."""


class _Asked(NamedTuple):
    """An index that somebody needs."""

    partition: Partition
    damage: DamagedTransactionIndex


class _Outdated(Exception):  # noqa: N818 - it names the state of the work
    """The segments that were read have changed: whoever needs the index asks again."""


class IndexRepair:
    """Makes damaged transaction indexes anew, one at a time."""

    def __init__(
        self,
        files: Files,
        executor: Executor,
        cleaner: Executor,
        storage_failed: Callable[[StorageError], None],
    ) -> None:
        self._files = files
        self._executor = executor
        self._cleaner = cleaner
        self._storage_failed = storage_failed
        self._asked: dict[Segment, _Asked] = {}
        self._hopeless: set[Segment] = set()
        self._is_asked = asyncio.Event()

    def ask(self, partition: Partition, damage: DamagedTransactionIndex) -> bool:
        """Have an index made anew; False if that was tried and cannot be.

        Those who watch the partition are told when it is done, or cannot be.
        """
        segment = _segment_at(partition.log, damage.base_offset)
        if segment is None:
            return True  # it went in this moment, and so did the question
        if segment in self._hopeless:
            return False
        if segment not in self._asked:
            self._asked[segment] = _Asked(partition, damage)
            self._is_asked.set()
        return True

    async def run(self) -> None:
        """Do what is asked for until cancelled."""
        while True:
            await self._is_asked.wait()
            self._is_asked.clear()
            while self._asked:
                segment, (partition, damage) = next(iter(self._asked.items()))
                try:
                    await self._repair(partition, segment, damage)
                finally:
                    del self._asked[segment]

    async def _repair(
        self, partition: Partition, segment: Segment, damage: DamagedTransactionIndex
    ) -> None:
        """Make one index anew. What fails for the moment is asked for again by the next reader."""
        log = partition.log
        try:
            if segment is log.active:
                log.roll()
            asked = ClosedSegments(log, (segment,))
            index = await self._rebuild(log, asked)
            await self._store(asked, index)
        except (WorkerLost, _Outdated, FileNotFoundError):
            return  # retention may have taken an earlier segment away
        except StorageError as error:
            self._storage_failed(error)
            return
        except OSError as error:
            if asked.are_unchanged():
                self._storage_failed(storage_error(damage.path, error))
            return
        except (CorruptRecords, InvariantViolated) as error:
            logger.error("%s; it cannot be made anew: %s", damage, error)  # noqa: TRY400
            self._hopeless.add(segment)
        else:
            # An empty file without any aborts is what Kafka leaves behind, and no news.
            if len(index) or damage.reason != EMPTY:
                logger.warning(
                    "%s; made anew from the batches: %d aborted transaction(s)", damage, len(index)
                )
        partition.notify()

    async def _rebuild(self, log: Log, asked: ClosedSegments) -> AbortedIndex:
        """Read what is needed of the log up to the end of a segment."""
        (segment,) = asked.segments
        base_offset = segment.base_offset
        work = self._cleaner.compute(
            Lane.CLEANING, begin_rebuild, self._files, log.folder, base_offset
        )
        step = await _read(asked, work)
        first = max(0, bisect_right(log.segments, step.known_offset, key=_base_offset) - 1)
        last = bisect_right(log.segments, base_offset, key=_base_offset)
        needed = ClosedSegments(log, log.segments[first:last])
        for one in needed.segments:
            step = step.at_next_segment()
            while step.position < one.size:
                work = self._cleaner.compute(
                    Lane.CLEANING, rebuild_step, self._files, one.path, step, one.size, STEP_BYTES
                )
                step = await _read(needed, work)
        return AbortedIndex.decode(step.entries)

    async def _store(self, asked: ClosedSegments, index: AbortedIndex) -> None:
        """Replace the file; on a full disk the index is used without one."""
        (segment,) = asked.segments
        path = segment.transactions_path
        try:
            if len(index):
                await self._executor.run(store_beside, self._files, path, index)
                if not asked.are_unchanged():
                    self._files.remove(path + TEMPORARY_SUFFIX)
                _require_unchanged(asked)
                self._files.rename(path + TEMPORARY_SUFFIX, path)
            else:
                self._files.remove(path)
        except OSError as error:
            if not is_full(error):
                raise
        segment.aborted_rebuilt(index)


def _segment_at(log: Log, base_offset: int) -> Segment | None:
    segments = log.segments
    number = bisect_left(segments, base_offset, key=_base_offset)
    found = segments[number] if number < len(segments) else None
    return found if found is not None and found.base_offset == base_offset else None


async def _read(segments: ClosedSegments, work: Awaitable[RebuildStep]) -> RebuildStep:
    """Await a step; _Outdated if the segments have changed meanwhile, whatever came of it."""
    try:
        step = await work
    except (CorruptRecords, InvariantViolated):
        _require_unchanged(segments)
        raise
    _require_unchanged(segments)
    return step


def _require_unchanged(segments: ClosedSegments) -> None:
    if not segments.are_unchanged():
        raise _Outdated
