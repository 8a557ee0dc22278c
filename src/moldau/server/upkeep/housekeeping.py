"""What a broker does from time to time, each at Kafka's own interval.

One task per kind of work, none per partition. What looks at every partition is rare; what is
frequent looks only at what changed. Everything that waits for the disk runs in the executor.

A log that fails does not stop a chore for the others. A disk error takes its directory offline. A
violated invariant is a bug in the state of one log, and the disk is fine: it is logged once, and
the log stays in use, because an invariant is checked before anything changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from moldau.base.clock import Clock
from moldau.base.errors import DiskFull, InvariantViolated, StorageError
from moldau.base.executor import Executor
from moldau.base.ids import PartitionKey
from moldau.replication.partition import Partition
from moldau.replication.partitions import Partitions
from moldau.server.network.stepping import take_turns
from moldau.storage.flushing import Flush, Flushable, Flusher
from moldau.storage.manager import LogManager

logger = logging.getLogger(__name__)

LOGS_CLOSED_AT_ONCE = 4
"""As many as the executor has threads: a disk syncs several files faster than one by one."""

LOGS_PER_SLICE = 64
"""Logs looked at between two turns of the loop: about a millisecond of work."""

INTERVAL_MIN_S = 0.01
"""Between two turns of a chore: an interval of 0 must not keep the loop busy."""


class Chore(NamedTuple):
    """One kind of work and how often it is done."""

    name: str
    interval_s: float
    work: Callable[[], Awaitable[None]]


async def keep_doing(chore: Chore) -> None:
    """Do a chore again and again until cancelled."""
    while True:
        await asyncio.sleep(max(chore.interval_s, INTERVAL_MIN_S))
        await chore.work()


class Housekeeping:
    """The chores that concern logs."""

    def __init__(
        self,
        logs: LogManager,
        partitions: Partitions,
        flusher: Flusher,
        clock: Clock,
        executor: Executor,
        producer_expiration_ms: Callable[[], int],
        directory_failed: Callable[[], None],
        room_again: Callable[[], None],
    ) -> None:
        self._logs = logs
        self._partitions = partitions
        self._flusher = flusher
        self._clock = clock
        self._executor = executor
        self._producer_expiration_ms = producer_expiration_ms
        self._directory_failed = directory_failed
        self._room_again = room_again
        self._reported: set[tuple[Flushable, str]] = set()
        """Logs with a violated invariant and the chore that met it: each is logged once."""

    async def retain(self) -> None:
        """Remove segments that are too old or too many, and tell readers of the new start."""
        now_ms = self._clock.wall_ms()
        await self._run(self._logs.prepare_cut_removals(now_ms))
        for number, partition in enumerate(tuple(self._partitions), 1):
            if not partition.log.offline:
                with self._contain(partition.log, "retention"):
                    _retain(partition, now_ms)
            if number % LOGS_PER_SLICE == 0:
                await asyncio.sleep(0)

    async def flush(self) -> None:
        """Sync what is due, and remove files whose time has come."""
        now_ms = self._clock.wall_ms()
        for log in self._logs.due_for_flush(now_ms):
            with self._contain(log, "flush"):
                await self._flusher.flush(log, log.log_end_offset)
        # After the syncs: to remove much takes long.
        await self._run(self._logs.prepare_removals(now_ms))
        await self._look_for_room()

    async def _run(self, calls: Iterator[Callable[[], None]]) -> None:
        for call in calls:
            try:
                await self._executor.run(call)
            except StorageError as error:
                self.storage_failed(error)

    async def _look_for_room(self) -> None:
        """Let appends in again where a full disk has room."""
        for directory in self._logs.full_directories:
            if await self._executor.run(directory.has_room) and directory.set_full(False):
                logger.info("log directory %s has room again and takes writes", directory.path)
                self._room_again()

    async def checkpoint(self) -> None:
        """Write down how far each log is durable, where it starts and what is committed."""
        for noting in self._logs.prepare_checkpoints_in_steps(self._high_watermark):
            write = await take_turns(noting)
            try:
                await self._executor.run(write)
            except StorageError as error:
                self.storage_failed(error)

    async def expire_producers(self) -> None:
        """Forget producers that have been silent for long."""
        now_ms, expiration_ms = self._clock.wall_ms(), self._producer_expiration_ms()
        for number, partition in enumerate(tuple(self._partitions), 1):
            log = partition.log
            if len(log.producers):
                with self._contain(log, "producer expiry"):
                    log.producers.remove_expired(now_ms, expiration_ms)
            if number % LOGS_PER_SLICE == 0:
                await asyncio.sleep(0)

    async def keep_broker_epoch(self, broker_epoch: int) -> None:
        """Write the epoch of a new registration into every log directory."""
        await self._run(self._logs.prepare_open_marks(broker_epoch))

    async def close_logs(self, broker_epoch: int) -> None:
        """Flush and close every log and leave the marks of a clean stop."""
        await self._flusher.settle()
        running: set[asyncio.Task[None]] = set()
        for log, flush in self._logs.prepare_close():
            running.add(asyncio.create_task(self._close_log(log, flush)))
            if len(running) >= LOGS_CLOSED_AT_ONCE:
                _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*running)
        self._logs.finish_close(self._high_watermarks(), broker_epoch)

    async def _close_log(self, log: Flushable, flush: Flush) -> None:
        with self._contain(log, "close"):
            await self._executor.run(flush.run)
            log.flushed(flush)

    @contextlib.contextmanager
    def _contain(self, log: Flushable, chore: str) -> Iterator[None]:
        """Keep the failure of one log from the other logs, and from the broker."""
        try:
            yield
        except StorageError as error:
            self.storage_failed(error)
        except InvariantViolated as error:
            if (log, chore) not in self._reported:
                # Deleted logs are offline. Without this the set would keep them forever.
                self._reported = {one for one in self._reported if not one[0].offline}
                self._reported.add((log, chore))
                logger.error("%s: a bug stops its %s, others go on: %s", log, chore, error)  # noqa: TRY400

    def storage_failed(self, error: StorageError) -> None:
        """Take the directory out of use in which this happened, once and loudly.

        One that is full is still read from; `flush` finds out when there is room again.
        """
        directory = self._logs.directory_failed(error)
        if directory is None:
            return
        if isinstance(error, DiskFull):
            logger.warning(
                "log directory %s is full, writes are refused until there is room: %s",
                directory.path, error,
            )  # fmt: skip
        else:
            logger.error("log directory %s is offline now: %s", directory.path, error)
            self._directory_failed()

    def _high_watermark(self, key: PartitionKey) -> int | None:
        partition = self._partitions.get(*key)
        return None if partition is None else partition.high_watermark

    def _high_watermarks(self) -> dict[PartitionKey, int]:
        return {partition.key: partition.high_watermark for partition in self._partitions}


def _retain(partition: Partition, now_ms: int) -> None:
    """Remove the expired segments of one log."""
    log = partition.log
    start = log.log_start_offset
    removed = log.retain(now_ms, partition.high_watermark)
    if removed:
        logger.info(
            "%s: removed %d segment(s), it starts at %d now",
            partition.key, removed, log.log_start_offset,
        )  # fmt: skip
    if log.log_start_offset != start:
        partition.notify()
