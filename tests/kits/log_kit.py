"""What tests of the storage floor share: batches, a clock by hand, logs on a simulated disk."""

from __future__ import annotations

import random
from collections.abc import Sequence

from moldau.base.errors import StorageError
from moldau.base.files import Files
from moldau.base.ids import PartitionKey, TopicId
from moldau.records.batch import BatchHeader, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.control import EndTransactionMarker, end_transaction_batch
from moldau.records.record import Record, read_records
from moldau.sim.disk import SimDisk
from moldau.storage.append_result import AppendResult
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.storage.reader import ReadResult
from moldau.storage.resources import Resources
from moldau.storage.scan import StoredBatch
from moldau.storage.topic_config import LogConfig

NOW_MS = 1_700_000_000_000
KEY = PartitionKey("orders", 0)
TOPIC_ID = TopicId(bytes(range(16)))
FOLDER = "/data/orders-0"


class HandClock:
    """A clock that stands until a test moves it."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def monotonic(self) -> float:
        return self.now_ms / 1000

    def wall_ms(self) -> int:
        return self.now_ms


def make_batch(
    values: Sequence[bytes] = (b"value",),
    *,
    timestamps: Sequence[int] | int = NOW_MS,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytes:
    """Build a batch; one timestamp serves all records."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=transactional,
    )
    for number, value in enumerate(values):
        stamp = timestamps if isinstance(timestamps, int) else timestamps[number]
        builder.append(stamp, None, value)
    return builder.build()


def sized_batch(size: int, *, count: int = 1, timestamp: int = NOW_MS) -> bytes:
    """Build a batch of exactly this many bytes."""
    padding = max(0, size - 80 - 10 * count)
    while True:
        batch = make_batch([b"x"] * (count - 1) + [b"y" * padding], timestamps=timestamp)
        if len(batch) == size:
            return batch
        assert len(batch) < size, f"no batch of {count} records has {size} bytes"
        padding += size - len(batch) if size - len(batch) > 4 else 1


def append(log: Log, batch: bytes, leader_epoch: int = 0) -> AppendResult:
    """Append a batch as the leader."""
    return log.append(batch, parse_header(batch), leader_epoch)


def append_values(
    log: Log, *values: bytes, timestamp: int = NOW_MS, epoch: int = 0
) -> AppendResult:
    """Append one batch of these values."""
    return append(log, make_batch(values, timestamps=timestamp), epoch)


def marker(producer_id: int, producer_epoch: int, *, aborted: bool) -> tuple[bytes, BatchHeader]:
    """Build the end of a transaction."""
    batch = end_transaction_batch(
        EndTransactionMarker(aborted, 0), producer_id, producer_epoch, NOW_MS
    )
    return batch, parse_header(batch)


def region_bytes(result: ReadResult) -> bytes:
    """Read what a socket would be sent."""
    return b"".join(file.read(position, size) for file, position, size in result.regions)


def read_all(log: Log, offset: int | None = None) -> list[Record]:
    """Read every record from an offset to the end, as a consumer would, fetch by fetch."""
    position = log.log_start_offset if offset is None else offset
    found: list[Record] = []
    while position < log.log_end_offset:
        content = region_bytes(log.read(position, 1 << 20, log.log_end_offset))
        assert content, f"{log} has nothing at {position}"
        at = 0
        while at < len(content):
            header = parse_header(content, at)
            found += [r for r in read_records(content, at) if r.offset >= position]
            at += header.size
            next_offset = header.next_offset
        position = next_offset
    return found


def stored_batches(log: Log) -> list[StoredBatch]:
    """List every batch of every segment."""
    return [batch for segment in log.segments for batch in segment.batches()]


class Broker:
    """A log manager on a simulated disk, and ways to end it."""

    def __init__(
        self,
        disk: Files | None = None,
        config: LogConfig | None = None,
        *,
        clock: HandClock | None = None,
        directories: Sequence[str] = ("/data",),
        boot_id: str = "boot-1",
        open_files: int = 8,
        index_bytes: int = 4096,
    ) -> None:
        self.disk = disk if disk is not None else SimDisk(random.Random(1))
        self.config = config or LogConfig()
        self.clock = clock or HandClock()
        self.resources = Resources(
            self.disk, self.clock, random.Random(2), open_files=open_files, index_bytes=index_bytes
        )
        self.manager = LogManager(self.resources, directories)
        self.errors = self.manager.open("cluster", 1, boot_id)
        self.reports = self.manager.load(lambda topic: self.config)
        for write in self.manager.prepare_open_marks(broker_epoch=1):
            try:
                write()
            except StorageError as error:
                self.manager.directory_failed(error)

    def log(self, key: PartitionKey = KEY) -> Log:
        return self.manager.open_or_create(key, TOPIC_ID, self.config)

    def flush(self, log: Log) -> None:
        flush = log.prepare_flush()
        if flush is not None:
            flush.run()
            log.flushed(flush)

    def checkpoint(self) -> None:
        for write in self.manager.prepare_checkpoints({}):
            write()

    def remove_expired(self, now_ms: int | None = None) -> int:
        """Remove the files and folders that are due; return how many."""
        due = list(self.manager.prepare_removals(self.clock.now_ms if now_ms is None else now_ms))
        for remove in due:
            remove()
        return len(due)

    def sim(self) -> SimDisk:
        assert isinstance(self.disk, SimDisk)
        return self.disk

    def stop(self) -> Broker:
        """Stop in an orderly way and start again."""
        self.manager.close({})
        return self._next(self.sim().kill())

    def kill(self) -> Broker:
        """End the process and start again."""
        return self._next(self.sim().kill())

    def cut_power(self) -> Broker:
        """End the machine and start again."""
        return self._next(self.sim().power_cut())

    def _next(self, disk: SimDisk) -> Broker:
        return Broker(disk, self.config, clock=self.clock)
