"""The broker as a simulated process: it lives, dies at any point, and is the same in every run."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from kits.broker_bench import BROKER, CLIENT, simulate
from kits.log_kit import HandClock, append, make_batch, read_all
from moldau.base.ids import PartitionKey, TopicId
from moldau.engine.connection import ClientConnection
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from moldau.protocol.messages.transactions import InitProducerIdRequest
from moldau.sim.crashes import Crashed, CrashPlan
from moldau.sim.disk import SimDisk
from moldau.sim.disk_faults import Operation
from moldau.storage.manager import LogManager
from moldau.storage.resources import Resources
from moldau.storage.topic_config import LogConfig


def test_what_was_acknowledged_is_there_after_a_kill():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        for number in range(20):
            await bench.produce(b"%d" % number)
        bench.broker.kill()
        await bench.broker.start()
        return await bench.values()

    assert simulate(work) == [b"%d" % number for number in range(20)]


def test_what_was_stopped_in_order_is_there_after_a_power_cut():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        await bench.produce(b"a", b"b")
        await bench.broker.stop()
        bench.broker.power_cut()
        await bench.broker.start()
        return await bench.values()

    for seed in range(5):
        assert simulate(work, seed) == [b"a", b"b"]


def test_whoever_looks_after_each_turn_is_told_of_a_process_that_others_start_and_end():
    turns = []

    async def work(bench):
        loop, broker = asyncio.get_running_loop(), bench.broker
        loop.after_turn = lambda ran: turns.append((set(ran), broker.alive, broker.process))
        await broker.start()
        broker.kill()
        await broker.start()
        broker.power_cut()
        await asyncio.sleep(1)

    simulate(work)
    lives = [(alive, process) for _, alive, process in turns]
    changed = [number for number in range(1, len(turns)) if lives[number] != lives[number - 1]]
    assert [lives[number] for number in changed] == [(True, "broker#2"), (False, "broker#2")]
    assert {"broker#1", "broker#2"} <= turns[changed[0]][0]
    assert "broker#2" in turns[changed[1]][0]


def test_a_power_cut_leaves_a_beginning_of_what_was_written():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        for number in range(20):
            await bench.produce(b"%d" % number)
        bench.broker.power_cut()
        await bench.broker.start()
        return await bench.values()

    found = [simulate(work, seed) for seed in range(12)]
    for values in found:
        assert values == [b"%d" % number for number in range(len(values))]
    assert len({len(values) for values in found}) > 1


def test_a_paused_broker_answers_when_it_goes_on():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        bench.broker.pause()
        writing = asyncio.ensure_future(bench.produce(b"a"))
        await asyncio.sleep(20)
        answered_while_paused = writing.done()
        bench.broker.resume()
        await writing
        return answered_while_paused, await bench.values()

    assert simulate(work) == (False, [b"a"])


def test_a_paused_process_can_be_killed():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        await bench.produce(b"a")
        bench.broker.pause()
        bench.broker.kill()
        left = bench.broker.paused
        await bench.broker.start()
        return left, await bench.values()

    assert simulate(work) == (False, [b"a"])


def test_an_orderly_stop_leaves_no_task():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        await bench.produce(b"a")
        assert bench.broker.leaked_tasks()
        await bench.broker.stop()
        return bench.broker.leaked_tasks()

    assert simulate(work) == []


def test_a_killed_process_has_no_task_left_and_holds_no_lock():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        bench.broker.kill()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        left = bench.broker.leaked_tasks()
        await bench.broker.start()
        return left

    assert simulate(work) == []


@pytest.mark.parametrize(
    "point", ["journal.append.after_write", "manager.open.before_clean_mark_removal"]
)
def test_a_crash_while_starting_needs_only_another_start(point):
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        await bench.produce(b"a")
        bench.broker.kill()
        with CrashPlan(trace=bench.world.trace) as plan:
            bench.broker.crash_at(plan, point, 1)
            with pytest.raises(Crashed):
                await bench.broker.start()
            assert not bench.broker.alive
            await bench.broker.start()
        return await bench.values()

    assert simulate(work) == [b"a"]


def test_a_crash_at_a_point_ends_the_process_there():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        with CrashPlan(trace=bench.world.trace) as plan:
            bench.broker.crash_at(plan, "segment.append.after_write", 3)
            await bench.produce(b"1")
            await bench.produce(b"2")
            third = asyncio.ensure_future(bench.produce(b"3"))
            await asyncio.sleep(1.0)
            assert not bench.broker.alive
            third.cancel()
        await bench.broker.start()
        return await bench.values()

    assert simulate(work) == [b"1", b"2", b"3"]


def test_a_full_disk_under_the_metadata_is_told_and_no_bug():
    async def work(bench):
        await bench.broker.start()
        bench.broker.disk.faults.fill_up(10)
        answer = await bench.ask(InitProducerIdRequest(None, 1000))
        created = await bench.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1, [], [])]))
        return answer.error_code, created.topics[0].error_code

    assert simulate(work) == (ErrorCode.KAFKA_STORAGE_ERROR,) * 2


def test_a_topic_of_a_used_name_does_not_inherit_what_was_checkpointed_of_the_old_one():
    """Its start was taken for the new log's after a kill, and all of the new log was dropped."""

    async def work(bench):
        await bench.broker.start()
        await bench.create()
        await bench.produce(*(b"old %d" % number for number in range(9)))
        before = [DeleteRecordsPartition(0, 9)]
        await bench.ask(DeleteRecordsRequest([DeleteRecordsTopic("t", before)], 1000))
        await asyncio.sleep(1.0)
        await bench.ask(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000))
        await bench.create()
        await bench.produce(b"new")
        bench.broker.kill()
        await bench.broker.start()
        return await bench.values()

    interval = {"log.flush.offset.checkpoint.interval.ms": "900"}
    assert simulate(work, **interval) == [b"new"]


def test_a_batch_that_was_worked_on_does_not_land_in_another_topic_of_the_name():
    """It was appended by name after the wait for another process, whoever had the name by then."""

    async def work(bench):
        await bench.broker.start()
        old_id = await bench.create({"compression.type": "gzip"})
        other = await ClientConnection.open(bench.network.host("other"), BROKER, CLIENT)
        sending = other.send(bench.batch(b"old", topic_id=old_id), 13)
        await bench.ask(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000))
        await bench.create({"compression.type": "gzip"})
        code = (await sending).responses[0].partition_responses[0].error_code
        return code, await bench.values()

    outcomes = [simulate(work, seed) for seed in range(30)]
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in {code for code, _ in outcomes}
    assert [values for _, values in outcomes if values] == []


def test_a_disk_that_refuses_a_deletion_does_not_end_a_broker_that_has_another():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        (folder,) = [each for each in ("/data", "/more") if bench.broker.disk.exists(f"{each}/t-0")]
        bench.broker.disk.faults.fail(Operation.RENAME, f"{folder}/t-0")
        request = DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000)
        deleted = (await bench.ask(request)).responses[0].error_code
        await asyncio.sleep(1.0)
        return deleted, bench.broker.serving

    assert simulate(work, **{"log.dirs": "/data,/more"}) == (0, True)


def test_a_topic_deleted_while_it_is_synced_does_not_take_its_disk_out_of_use():
    async def work(bench):
        await bench.broker.start()
        await bench.create({"flush.ms": "100"})
        await bench.produce(b"a")
        bench.broker.slow_disk(0.5)
        await asyncio.sleep(1.0)
        await bench.ask(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000))
        await asyncio.sleep(5.0)
        await bench.create()
        return await bench.produce(b"b")

    assert [simulate(work, seed) for seed in range(8)] == [0] * 8


def test_a_deleted_topic_that_a_power_cut_brings_back_is_set_aside():
    async def work(bench):
        await bench.broker.start()
        await bench.create({"flush.ms": "100"})
        await bench.produce(b"a")
        await asyncio.sleep(2.0)
        await bench.ask(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000))
        bench.broker.power_cut()
        back = "t-0" in bench.broker.disk.names("/data")
        await bench.broker.start()
        return back, "t-0" in bench.broker.disk.names("/data")

    outcomes = [simulate(work, seed) for seed in range(10)]
    assert any(back for back, _ in outcomes)
    assert not any(kept for _, kept in outcomes)


def test_of_two_logs_of_one_name_the_one_of_the_topic_is_served():
    """A power cut can undo the removal of an old log, in another directory than the new one's."""
    old, new = TopicId(bytes(15) + b"\1"), TopicId(bytes(15) + b"\2")
    disk, key = SimDisk(random.Random(1)), PartitionKey("t", 0)

    def manager(*folders: str) -> LogManager:
        opened = LogManager(Resources(disk, HandClock(), random.Random(1)), folders)
        opened.open("cluster", 1, "boot")
        opened.load(lambda _: LogConfig())
        return opened

    for folder, topic_id in (("/a", old), ("/b", new)):
        only = manager(folder)
        append(only.open_or_create(key, topic_id, LogConfig()), make_batch([folder.encode()]))
        only.close({})
    both = manager("/a", "/b")
    log = both.open_or_create(key, new, LogConfig())
    assert [record.value for record in read_all(log)] == [b"/b"]
    assert [name for name in disk.names("/a") if name.endswith("-stray")]
    assert both.get(key) is log


async def whole_life(bench):
    """Something of everything, for the digest."""
    await bench.broker.start()
    await bench.create()
    for number in range(5):
        await bench.produce(b"%d" % number)
        bench.broker.kill()
        await bench.broker.start()
    bench.broker.power_cut()
    await bench.broker.start()
    await bench.values()
    await bench.broker.stop()
    return bench.world.trace.digest()


def test_the_same_seed_gives_the_same_life_and_another_seed_another():
    assert simulate(whole_life, 5) == simulate(whole_life, 5)
    assert simulate(whole_life, 5) != simulate(whole_life, 6)


def test_a_life_does_not_depend_on_the_interpreters_hash_seed():
    digests = set()
    for hash_seed in ("1", "4711"):
        helpers = str(Path(__file__).parents[1])
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": helpers}
        done = subprocess.run(
            [sys.executable, __file__], env=environment, check=True, capture_output=True, text=True
        )
        digests.add(done.stdout)
    assert digests == {simulate(whole_life, 5) + "\n"}


if __name__ == "__main__":
    print(simulate(whole_life, 5))
