"""A whole broker on a disk that fills up: it reads on, refuses writes, and goes on with room."""

from __future__ import annotations

import asyncio
import errno

import pytest

from kits.broker_bench import simulate
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import FindCoordinatorRequest
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from moldau.sim.disk_faults import Operation

FULL = ErrorCode.KAFKA_STORAGE_ERROR
BUSY_CHORES = {
    "log.flush.offset.checkpoint.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "offsets.topic.num.partitions": "2",
}


async def refusal(bench, *values: bytes) -> ErrorCode:
    response = await bench.ask(bench.batch(*values), 12)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


async def create(bench, name: str) -> ErrorCode:
    made = await bench.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1, [], [])]))
    return ErrorCode(made.topics[0].error_code)


async def commit(bench, offset: int) -> ErrorCode:
    topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])
    answer = await bench.ask(OffsetCommitRequest("g", topics=[topic]), 8)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def commit_at_last(bench, offset: int) -> None:
    """Commit once the coordinator is there: asking for it makes its topic."""
    while True:
        found = await bench.ask(FindCoordinatorRequest("g", 0), 3)
        if not found.error_code and not await commit(bench, offset):
            return
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("seed", range(4))
def test_reads_go_on_and_writes_come_back_without_a_restart(seed):
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        await commit_at_last(bench, 1)
        for number in range(5):
            await bench.produce(b"%d" % number)
        bench.broker.disk.faults.fill_up(20 + 40 * seed)
        codes = [await refusal(bench, b"x" * 500) for _ in range(3)]
        codes.append(await create(bench, "another"))
        refused_commit = await commit(bench, 2)
        read = await bench.values()
        await asyncio.sleep(3.0)
        still = await refusal(bench, b"x" * 500)
        bench.broker.disk.faults.heal()
        await asyncio.sleep(3.0)
        offset = await bench.produce(b"5")
        after = [await create(bench, "another"), await commit(bench, 3)]
        values = await bench.values()
        bench.broker.kill()
        await bench.broker.start()
        assert await bench.values() == values
        return codes, refused_commit, read, still, offset, after, values

    codes, refused_commit, read, still, offset, after, values = simulate(work, seed, **BUSY_CHORES)
    assert codes == [FULL] * 4
    assert refused_commit not in {ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR}
    assert read == [b"0", b"1", b"2", b"3", b"4"]
    assert (still, offset) == (FULL, 5)
    assert after == [ErrorCode.NONE] * 2
    assert values == [*read, b"5"]


def test_a_topic_whose_log_found_no_room_is_made_when_there_is_some():
    async def work(bench):
        await bench.broker.start()
        bench.broker.disk.faults.fail(Operation.CREATE, "/data/t-0", code=errno.ENOSPC)
        await bench.create()
        before = await refusal(bench, b"a")
        bench.broker.disk.faults.heal()
        await asyncio.sleep(3.0)
        return before, await bench.produce(b"b"), await bench.values()

    assert simulate(work) == (FULL, 0, [b"b"])


def test_a_stop_on_a_full_disk_is_a_stop_and_loses_nothing():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        for number in range(5):
            await bench.produce(b"%d" % number)
        bench.broker.disk.faults.fill_up(0)
        assert await refusal(bench, b"x") is FULL
        await bench.broker.stop()
        bench.broker.disk.faults.heal()
        bench.broker.power_cut()
        await bench.broker.start()
        return await bench.values()

    for seed in range(3):
        assert simulate(work, seed, **BUSY_CHORES) == [b"0", b"1", b"2", b"3", b"4"]
