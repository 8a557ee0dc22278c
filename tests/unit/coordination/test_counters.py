"""What coordinators count is what happened, and what is counted at a scrape is what there is."""

from __future__ import annotations

import random

from kits.coordinator_kit import Bench, MemoryLog, run
from kits.group_kit import Desk as GroupDesk
from kits.group_shard_kit import ServedShard
from kits.transaction_kit import ABORT_INTERVAL_MS, ORDERS_0, TIMEOUT_MS
from kits.transaction_kit import Desk as TransactionDesk
from moldau.coordination.groups.records import CURRENT_FORM, CommittedOffset, OffsetKey
from moldau.coordination.groups.records import offset_record as written
from moldau.coordination.groups.records import offset_tombstone as tombstone
from moldau.coordination.groups.shard import GroupShard, ShardSettings
from moldau.coordination.groups.states import GroupState
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.counters import TransactionCounters
from moldau.coordination.transactions.transaction import TransactionState
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def test_a_rebalance_counts_once_its_assignment_stands():
    desk = GroupDesk()
    leader, _ = desk.members(2)
    assert desk.counters.rebalances == 0
    desk.sync(leader, 1, {})
    assert desk.counters.rebalances == 1


def test_offsets_are_counted_as_they_are_committed_and_as_they_are_kept():
    served = ServedShard()
    partitions = [OffsetCommitRequestPartition(index, 5) for index in range(3)]
    request = OffsetCommitRequest(
        "g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic("t", partitions=partitions)],
    )
    for _ in range(2):
        served.commit(request)
    assert (served.counters.offset_commits, served.shard.offsets.count()) == (6, 3)
    assert served.shard.count_groups() == {GroupState.EMPTY: 1}


def test_what_is_deleted_is_not_counted_any_more():
    shard = GroupShard(ShardSettings(), random.Random(1))
    keys = [OffsetKey("g", "t", partition) for partition in range(3)]
    for key in keys:
        shard.replay(written(CURRENT_FORM, key, CommittedOffset(1)), None)
    shard.replay(tombstone(keys[0]), None)
    assert shard.offsets.count() == 2


def told(counters: TransactionCounters) -> tuple[int, int, int]:
    return counters.committed, counters.aborted, counters.timed_out


def test_a_transaction_counts_when_every_partition_has_its_marker():
    desk = TransactionDesk()
    producer = desk.init()
    desk.add(producer, ORDERS_0)
    assert desk.shard.count_ids() == {TransactionState.ONGOING: 1}
    ended = desk.end(producer)
    assert told(desk.counters) == (0, 0, 0)
    desk.mark()
    assert told(desk.counters) == (1, 0, 0)
    desk.add(ended.producer, ORDERS_0)
    desk.end(ended.producer, commit=False)
    desk.mark()
    assert told(desk.counters) == (1, 1, 0)
    assert desk.shard.count_ids() == {TransactionState.COMPLETE_ABORT: 1}


def test_a_transaction_that_took_too_long_counts_as_that_and_as_aborted():
    desk = TransactionDesk()
    desk.add(desk.init(), ORDERS_0)
    desk.wait(TIMEOUT_MS + ABORT_INTERVAL_MS)
    desk.mark()
    assert told(desk.counters) == (0, 1, 1)


def test_loads_are_timed_and_shards_that_serve_are_told_from_others():
    async def work():
        log = MemoryLog()
        bench = await Bench(log).begin()
        runtime: Runtime = bench.runtime
        assert (runtime.shards, runtime.refusals) == ((bench.shard,), (ErrorCode.NONE,))
        assert runtime.load_times.count == 0
        bench.put(b"a", b"1")
        after = Bench(log.moved_to(1))
        after.runtime.lead(after.log)
        assert after.runtime.shards == ()
        assert after.runtime.refusals == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,)
        await after.begin()
        assert len(after.runtime.shards) == after.runtime.load_times.count == 1
        times = after.runtime.load_times
        assert times.max_s == times.total_s >= 0

    run(work)
