"""Where the metrics page gets a broker's figures from.

Read in the page's own thread while the event loop goes on: containers are copied in one step
before they are walked. Nothing is kept up to date for the page's sake, so that an idle group or
partition costs nothing; whoever asks for the page pays for counting them.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator

from moldau.base.files import Files
from moldau.coordination.groups.shard import GroupShard
from moldau.coordination.groups.states import GroupState
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.shard import TransactionShard
from moldau.coordination.transactions.transaction import TransactionState
from moldau.observe.cleaner import CleanerFigures
from moldau.observe.coordinator_metrics import GroupFigures, ShardFigures, TransactionFigures
from moldau.observe.disks import DiskFigures, Room
from moldau.observe.memory import MemoryFigures
from moldau.observe.prometheus import BrokerFigures, LogFigures
from moldau.protocol.errors import ErrorCode
from moldau.server.broker import Broker
from moldau.server.lifecycle.committed_figures import committed_figures
from moldau.server.lifecycle.replication_figures import controller_figures, replication_figures
from moldau.server.lifecycle.runtimes import Runtimes
from moldau.storage.directory import LogDirectory


def figures_of(broker: Broker) -> BrokerFigures:
    """Return what a scrape asks of this broker."""
    series_max = broker.parts.settings.metrics_partitions_max
    return BrokerFigures(
        requests=broker.parts.metrics,
        partition_series_max=series_max,
        connections=lambda: len(broker.connections),
        logs=lambda: _logs(broker),
        topics=broker.parts.traffic.items,
        disks=lambda: _disks(broker),
        groups=lambda: _groups(broker.parts.runtimes),
        committed=lambda: committed_figures(broker.parts.runtimes.groups.shards, series_max),
        transactions=lambda: _transactions(broker.parts.runtimes),
        cleaner=lambda: _cleaner(broker),
        memory=lambda: _memory(broker),
        replication=lambda: replication_figures(broker.parts),
        controller=lambda: controller_figures(broker.parts),
    )


def _disks(broker: Broker) -> DiskFigures:
    directories, scrubber = broker.parts.logs.directories, broker.parts.scrubber
    return DiskFigures(
        sum(one.offline for one in directories),
        sum(one.full for one in directories),
        scrubber.checked_bytes,
        scrubber.damaged_batches,
        room_of(directories, broker.parts.ports.files),
    )


def room_of(directories: Iterable[LogDirectory], files: Files) -> dict[str, Room]:
    """Ask the file systems of directories; one that does not tell is left out."""
    found = {}
    for directory in directories:
        if not directory.offline:
            with contextlib.suppress(OSError):
                found[directory.path] = Room(*files.space(directory.path))
    return found


def _logs(broker: Broker) -> Iterator[LogFigures]:
    for partition in broker.parts.partitions.snapshot():
        yield LogFigures(
            *partition.key,
            partition.size,
            partition.log_start_offset,
            partition.log_end_offset,
            partition.segment_count,
        )


def _groups(runtimes: Runtimes) -> GroupFigures:
    states: Counter[GroupState] = Counter()
    offsets = 0
    for shard in runtimes.groups.shards:
        states += shard.count_groups()
        offsets += shard.offsets.count()
    return GroupFigures(
        _shards(runtimes.groups),
        {state.value: states[state] for state in GroupState},
        offsets,
        runtimes.group_counters.rebalances,
        runtimes.group_counters.offset_commits,
    )


def _transactions(runtimes: Runtimes) -> TransactionFigures:
    states: Counter[TransactionState] = Counter()
    for shard in runtimes.transactions.shards:
        states += shard.count_ids()
    counters = runtimes.transaction_counters
    return TransactionFigures(
        _shards(runtimes.transactions),
        {state.label: states[state] for state in TransactionState},
        counters.committed,
        counters.aborted,
        counters.timed_out,
    )


def _shards(runtime: Runtime[GroupShard] | Runtime[TransactionShard]) -> ShardFigures:
    told = Counter(runtime.refusals)
    return ShardFigures(
        runtime.topic,
        told[ErrorCode.NONE],
        told[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],
        told[ErrorCode.COORDINATOR_NOT_AVAILABLE],
        runtime.load_times.count,
        runtime.load_times.total_s,
        runtime.load_times.max_s,
        runtime.load_times.skipped_records,
        runtime.bugs.count,
    )


def _cleaner(broker: Broker) -> CleanerFigures:
    parts = broker.parts
    work = parts.compaction.work
    uncleanable = dict.fromkeys((one.path for one in parts.logs.directories), 0)
    for key in parts.compaction.uncleanable:
        log = parts.logs.get(key)
        if log is not None:
            uncleanable[log.folder.rpartition("/")[0]] += 1
    return CleanerFigures(
        work.max_dirty_ratio,
        parts.ports.clock.monotonic() - work.last_look_s,
        work.max_clean_s,
        work.read_bytes,
        work.written_bytes,
        uncleanable,
    )


def _memory(broker: Broker) -> MemoryFigures:
    budget = broker.parts.ports.memory
    return MemoryFigures(
        budget.held,
        max(0, budget.limit - budget.held),
        budget.waiting,
        budget.waits,
        budget.evictions,
    )
