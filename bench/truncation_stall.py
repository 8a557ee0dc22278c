"""The longest stall of the event loop while a follower truncates a large segment.

    python -m bench.truncation_stall [--folder DIR] [--megabytes N] [--batch BYTES]

A real log of one segment is filled, a gigabyte unless told otherwise, and flushed. Then it is
truncated near its start, in the steps that a fetcher takes, while a tick of the loop measures how
late it comes. The first line is the same with everything on the loop, for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from moldau.base.clock import SystemClock
from moldau.base.ids import BrokerId, LeaderEpoch, Offset, PartitionKey, TopicId
from moldau.records.batch import parse_header
from moldau.records.builder import BatchBuilder
from moldau.replication.fetching.fetcher import STEP_S
from moldau.replication.partition import Partition, Role
from moldau.server.workers.executor import PoolExecutor
from moldau.storage.disk import Disk
from moldau.storage.epochs import EpochEnd
from moldau.storage.flushing import Flusher
from moldau.storage.manager import LogManager
from moldau.storage.resources import Resources
from moldau.storage.topic_config import LogConfig

TICK_S = 0.0005
EPOCH = LeaderEpoch(0)
KEY = PartitionKey("bench", 0)
KEPT = EpochEnd(EPOCH, Offset(1_000))


class Stalls:
    """How late a tick of the loop comes at worst."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.began_s = 0.0
        """When the longest one began."""
        self._is_over = False

    async def watch(self) -> None:
        while not self._is_over:
            began_s = time.perf_counter()
            await asyncio.sleep(TICK_S)
            stall_s = time.perf_counter() - began_s - TICK_S
            if stall_s > self.longest_s:
                self.longest_s, self.began_s = stall_s, began_s

    def end(self) -> None:
        self._is_over = True


def filled(folder: str, size: int, batch_size: int) -> tuple[LogManager, Partition]:
    """Return a follower of a log with one segment of this size, flushed and checkpointed."""
    manager = LogManager(Resources(Disk(), SystemClock(), random.Random(1)), [folder])
    manager.open("bench", 1, "boot")
    config = LogConfig(segment_bytes=size)
    log = manager.open_or_create(KEY, TopicId(bytes(16)), config)
    written = 0
    while written < size - 2 * batch_size:
        builder = BatchBuilder()
        builder.append(written + 1, None, bytes(batch_size))
        batch = builder.build()
        log.append(batch, parse_header(batch), EPOCH)
        written += len(batch)
    flush = log.prepare_flush()
    if flush is not None:
        flush.run()
        log.flushed(flush)
    for write in manager.prepare_checkpoints({}):
        write()
    partition = Partition(KEY, TopicId(bytes(16)), log, BrokerId(2))
    partition.become_follower(
        Role(BrokerId(1), EPOCH, 0, (BrokerId(1), BrokerId(2)), (BrokerId(1),))
    )
    return manager, partition


async def truncate_on_loop(partition: Partition, flusher: Flusher) -> None:
    """Do everything at once, as the loop would without threads."""
    del flusher
    partition.log.truncate_to(partition.divergence(KEPT, EPOCH))


async def truncate_as_follower(partition: Partition, flusher: Flusher) -> None:
    """Do what `Fetcher` does."""
    log = partition.log
    offset = partition.divergence(KEPT, EPOCH)
    began_s = time.perf_counter()
    for _ in log.prepare_truncation(offset):
        if time.perf_counter() - began_s >= STEP_S:
            await asyncio.sleep(0)
            began_s = time.perf_counter()
    write = log.lower_recovery_point(offset)
    if write is not None:
        await flusher.run(write)
    if not await flusher.truncate(log, partition.truncate_to(offset, EPOCH), print):
        raise SystemExit("the disk failed")


async def measure(
    name: str,
    truncate: Callable[[Partition, Flusher], Awaitable[None]],
    folder: str,
    size: int,
    batch_size: int,
) -> None:
    manager, partition = filled(folder, size, batch_size)
    executor, stalls = PoolExecutor(), Stalls()
    watching = asyncio.create_task(stalls.watch())
    await asyncio.sleep(0.05)
    stalls.longest_s = 0.0
    began_s = time.perf_counter()
    await truncate(partition, Flusher(executor))
    took_s = time.perf_counter() - began_s
    await asyncio.sleep(2 * TICK_S)
    stalls.end()
    await watching
    await executor.close()
    print(
        f"{name:<14} {size >> 20} MiB cut to {partition.log.size >> 10} KiB"
        f" in {took_s * 1000:.1f} ms, longest stall {stalls.longest_s * 1000:.1f} ms,"
        f" from {(stalls.began_s - began_s) * 1000:.1f} ms on"
    )
    manager.close({})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where to make the logs; needs 2 GB")
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=1024, help="bytes of a batch")
    options = parser.parse_args()
    size = min(options.megabytes << 20, (1 << 31) - 1)
    ways = {"on the loop": truncate_on_loop, "as a follower": truncate_as_follower}
    for name, truncate in ways.items():
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            asyncio.run(measure(name, truncate, folder, size, options.batch))


if __name__ == "__main__":
    main()
