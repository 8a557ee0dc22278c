"""The broker's cleaner: picks the dirtiest compacted log, has it cleaned, takes another.

The work itself is done step by step (`storage.compaction.work`) in a process that does nothing
else and holds the keys, no more than `log.cleaner.dedupe.buffer.size` of them; here it is decided
what is cleaned, how fast, and whether it still makes sense, and each new segment is put in place of
the old ones. When nothing is dirty enough the cleaner rests for `log.cleaner.backoff.ms`.

A log that cannot be cleaned, because its records are not what they claim to be, or because the new
segment would be a larger file than the process may make, is left alone from then on, with one line
that says why; the others go on. A log that changed under the work, and a worker that was lost, only
cost that work; so does a damaged `.txnindex`, which is made anew first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from moldau.base.clock import Clock
from moldau.base.errors import CorruptRecords, FileTooLarge, MoldauError, StorageError
from moldau.base.executor import Executor, Lane, WorkerLost
from moldau.base.ids import PartitionKey
from moldau.replication.partition import Partition
from moldau.replication.partitions import Partitions
from moldau.server.configuration.values import BrokerValues
from moldau.server.upkeep.index_repair import RebuildIndex
from moldau.storage.compaction.choice import Dirt
from moldau.storage.compaction.swap import CalledOff, Cleaning, Limits
from moldau.storage.compaction.work import CleaningLost, CleaningOutcome, begin, give_up, go_on
from moldau.storage.disk_errors import disk_errors
from moldau.storage.flushing import Flusher
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.storage.transaction_index import DamagedTransactionIndex

logger = logging.getLogger(__name__)

STEP_BYTES: Final = 64 * 1024 * 1024
"""Moved between two looks at the log: up to a second of work when records are tiny, and a tenth
when they are large. Only a stop, and a cleaning that is called off, wait for its end;
all else goes on, for the worker is a process of its own that yields to the broker."""

THROTTLE_INTERVAL_S: Final = 0.3
"""How evenly a throttled cleaner works."""

CHUNK_BYTES_MIN: Final = 64 * 1024
"""Below this, calls to the disk cost more than the bytes they move."""

KEY_BYTES_MAX: Final = 2**40
"""More than any machine has: a load factor may be any number, and the product infinite."""

SLOWEST_BYTES_PER_SECOND: Final = 1.0
"""The config may be 0, or less. Then the cleaner stands nearly still, as Kafka's does."""

REST_MIN_S: Final = 0.05
"""The config may be 0. Looking at every log without a rest would take the loop from clients."""

REST_AT_ONCE_S: Final = 15.0
"""How soon a rest that was too long is cut short when the config is changed."""

LOGS_PER_SLICE: Final = 64
"""Logs looked at between two turns of the loop."""


class CleanerSettings(NamedTuple):
    """How the cleaner works, as the configs say now."""

    enabled: bool
    backoff_s: float
    limits: Limits
    max_bytes_per_second: float

    @classmethod
    def of(cls, values: BrokerValues) -> CleanerSettings:
        """Read the broker's configs. Half of the buffer is for reading, half for writing."""
        key_bytes = values.integer("log.cleaner.dedupe.buffer.size")
        load_factor = values.value("log.cleaner.io.buffer.load.factor")
        rate = values.value("log.cleaner.io.max.bytes.per.second")
        assert isinstance(load_factor, float)
        assert isinstance(rate, float)
        return cls(
            bool(values.value("log.cleaner.enable")),
            max(values.integer("log.cleaner.backoff.ms") / 1000, REST_MIN_S),
            Limits(
                int(min(key_bytes * load_factor, KEY_BYTES_MAX)),
                max(CHUNK_BYTES_MIN, values.integer("log.cleaner.io.buffer.size") // 2),
            ),
            max(rate, SLOWEST_BYTES_PER_SECOND),
        )


class CleanerWork:
    """What the cleaner has done and seen so far, for the metrics."""

    __slots__ = ("last_look_s", "max_clean_s", "max_dirty_ratio", "read_bytes", "written_bytes")

    def __init__(self, now_s: float) -> None:
        self.last_look_s = now_s
        """When it last looked for something to clean, by the monotonic clock."""
        self.max_dirty_ratio = 0.0
        """Of the dirtiest log that it then saw, worth cleaning or not."""
        self.read_bytes = 0
        self.written_bytes = 0
        self.max_clean_s = 0.0

    def cleaned(self, outcome: CleaningOutcome, elapsed_s: float) -> None:
        """Note a log that was cleaned."""
        self.read_bytes += outcome.read_bytes
        self.written_bytes += outcome.written_bytes
        self.max_clean_s = max(self.max_clean_s, elapsed_s)


class _Candidate(NamedTuple):
    """A log that is worth cleaning."""

    partition: Partition
    dirt: Dirt


class Compaction:
    """The cleaner of one broker."""

    def __init__(
        self,
        logs: LogManager,
        partitions: Partitions,
        flusher: Flusher,
        clock: Clock,
        executor: Executor,
        settings: Callable[[], CleanerSettings],
        storage_failed: Callable[[StorageError], None],
        rebuild_index: RebuildIndex,
    ) -> None:
        self._logs = logs
        self._partitions = partitions
        self._flusher = flusher
        self._clock = clock
        self._executor = executor
        self._settings = settings
        self._storage_failed = storage_failed
        self._rebuild_index = rebuild_index
        self._uncleanable: dict[PartitionKey, Log] = {}
        self.work = CleanerWork(clock.monotonic())

    @property
    def uncleanable(self) -> Iterator[PartitionKey]:
        """Partitions whose records cannot be cleaned."""
        return iter(tuple(self._uncleanable))

    async def run(self) -> None:
        """Clean whatever is dirty until cancelled."""
        while True:
            if not (self._settings().enabled and await self.clean_dirtiest()):
                await self._rest()

    async def _rest(self) -> None:
        """Wait for as long as the config says, also where that is changed meanwhile."""
        begun_s = self._clock.monotonic()
        while True:
            left_s = begun_s + self._settings().backoff_s - self._clock.monotonic()
            if left_s <= 0:
                return
            await asyncio.sleep(min(left_s, REST_AT_ONCE_S))

    async def clean_dirtiest(self) -> bool:
        """Clean the log that needs it most; tell whether there was one and it worked."""
        candidate = await self._dirtiest()
        if candidate is None:
            return False
        partition = candidate.partition
        try:
            # Only what is on the disk is cleaned: what the sync of a segment that was just closed
            # has not reached yet would be left behind, and wait for as much dirt again.
            await self._flusher.flush(partition.log, partition.log.active.base_offset)
            dirt = self._dirt(partition)
            return dirt is not None and await self._clean(partition, dirt)
        except FileTooLarge as error:
            self._leave_alone(partition, error)
        except StorageError as error:
            self._storage_failed(error)
        except DamagedTransactionIndex as damage:
            if not self._rebuild_index(partition, damage):
                self._leave_alone(partition, damage)
        except CorruptRecords as error:
            self._leave_alone(partition, error)
        except Exception:
            # Whatever it is, it would come again: this log waits for somebody to look at it.
            logger.exception("%s cannot be cleaned and is left as it is from now on", partition.key)
            self._uncleanable[partition.key] = partition.log
        return False

    async def _dirtiest(self) -> _Candidate | None:
        found: _Candidate | None = None
        max_ratio = 0.0
        for number, partition in enumerate(self._partitions.snapshot(), 1):
            if number % LOGS_PER_SLICE == 0:
                await asyncio.sleep(0)
            dirt = self._dirt(partition)
            if dirt is None:
                continue
            max_ratio = max(max_ratio, dirt.ratio)
            is_worth_it = dirt.worth_cleaning(partition.log.config.min_cleanable_dirty_ratio)
            if is_worth_it and (found is None or dirt.ratio > found.dirt.ratio):
                found = _Candidate(partition, dirt)
        self.work.max_dirty_ratio = max_ratio
        self.work.last_look_s = self._clock.monotonic()
        return found

    def _dirt(self, partition: Partition) -> Dirt | None:
        """Say what there is to clean in a partition; None if it cannot be, or must not."""
        key, log = partition.key, partition.log
        unusable = log.offline or log.full
        if not log.config.compacts or unusable or self._logs.get(key) is not log:
            return None
        if self._uncleanable.get(key) is log:
            return None
        self._uncleanable.pop(key, None)
        try:
            return self._logs.dirt(key, partition.last_stable_offset)
        except StorageError as error:
            self._storage_failed(error)
        except CorruptRecords as error:
            self._leave_alone(partition, error)
        return None

    def _leave_alone(self, partition: Partition, error: MoldauError) -> None:
        logger.error("%s cannot be cleaned: %s", partition.key, error)
        self._uncleanable[partition.key] = partition.log

    async def _clean(self, partition: Partition, dirt: Dirt) -> bool:
        """Clean one log; False if the work came to nothing."""
        cleaning = self._logs.prepare_cleaning(partition.key, dirt, self._settings().limits)
        started_s = self._clock.monotonic()
        try:
            outcome = await self._work(partition.key, cleaning)
            await self._executor.run(cleaning.sync)
            self._require_unchanged(partition.key, cleaning)
            await self._executor.run(self._logs.cleaned(partition.key, outcome.end_offset))
        except (CalledOff, CleaningLost, WorkerLost) as reason:
            await self._call_off(partition.key, cleaning, reason)
            return False
        except Exception:
            try:
                self._require_unchanged(partition.key, cleaning)
            except CalledOff as reason:
                # Files that are gone say nothing of the disk if their log has let them go, and
                # half a batch says nothing of the records if the log was cut while it was read.
                await self._call_off(partition.key, cleaning, reason)
                return False
            raise
        finally:
            cleaning.clear_away()
        elapsed_s = self._clock.monotonic() - started_s
        self.work.cleaned(outcome, elapsed_s)
        _log_outcome(partition.key, dirt, outcome, elapsed_s)
        return True

    async def _call_off(self, key: PartitionKey, cleaning: Cleaning, reason: MoldauError) -> None:
        """Let the worker forget what came to nothing; one that was lost has forgotten already."""
        logger.info("%s: cleaning is called off: %s", key, reason)
        if isinstance(reason, CalledOff):
            with contextlib.suppress(WorkerLost):
                await self._executor.compute(Lane.CLEANING, give_up, cleaning.plan.token)

    async def _work(self, key: PartitionKey, cleaning: Cleaning) -> CleaningOutcome:
        """Go through all steps, and put in place what they yield."""
        step = None
        while step is None or step.outcome is None:
            rate = self._settings().max_bytes_per_second
            budget_bytes = max(1, int(min(STEP_BYTES, rate * THROTTLE_INTERVAL_S)))
            started_s = self._clock.monotonic()
            with disk_errors(cleaning.log.folder):
                if step is None:
                    step = await self._executor.compute(
                        Lane.CLEANING, begin, cleaning.plan, budget_bytes
                    )
                else:
                    token = cleaning.plan.token
                    step = await self._executor.compute(Lane.CLEANING, go_on, token, budget_bytes)
            self._require_unchanged(key, cleaning)
            if step.group is not None:
                cleaning.swap_in(step.group)
            ahead_s = step.moved_bytes / rate - (self._clock.monotonic() - started_s)
            if ahead_s > 0:
                await asyncio.sleep(ahead_s)
        return step.outcome

    def _require_unchanged(self, key: PartitionKey, cleaning: Cleaning) -> None:
        if self._logs.get(key) is not cleaning.log:
            raise CalledOff("the log is gone")
        cleaning.require_unchanged()


def _log_outcome(key: PartitionKey, dirt: Dirt, outcome: CleaningOutcome, elapsed_s: float) -> None:
    rate = outcome.read_bytes / max(elapsed_s, 0.001) / 1e6
    logger.info(
        "%s: cleaned [%d, %d) in %.1f s (%.0f MB/s): %d of %d bytes and %d of %d records are left",
        key,
        dirt.first_dirty_offset,
        outcome.end_offset,
        elapsed_s,
        rate,
        outcome.written_bytes,
        outcome.read_bytes,
        outcome.written_records,
        outcome.read_records,
    )
