"""A truncation whose files are cut by another thread, and what happens to the log meanwhile."""

from __future__ import annotations

import asyncio
import errno

import pytest

from kits.hand_executor import HandExecutor, turns
from kits.log_kit import FOLDER, KEY, Broker, append, append_values, make_batch, read_all
from moldau.base.errors import DiskFull, InvariantViolated, StorageError
from moldau.base.ids import PartitionKey
from moldau.sim.disk_faults import Operation
from moldau.storage.flushing import Flusher
from moldau.storage.log_truncation import run_steps
from moldau.storage.topic_config import LogConfig
from moldau.storage.verify import verify_partition


def filled(count=10, segment_bytes=200) -> Broker:
    broker = Broker(config=LogConfig(segment_bytes=segment_bytes))
    log = broker.log()
    for number in range(count):
        append_values(log, b"%d" % number)
    broker.flush(log)
    broker.checkpoint()
    return broker


def values(log) -> list[bytes]:
    return [record.value for record in read_all(log)]


def log_sizes(broker) -> int:
    disk = broker.disk
    return sum(disk.size(f"{FOLDER}/{one}") for one in disk.names(FOLDER) if one.endswith(".log"))


def test_memory_is_cut_at_once_and_the_files_step_by_step():
    broker = filled()
    log = broker.log()
    before = log_sizes(broker)
    steps = log.begin_truncation(3)
    assert (log.log_end_offset, log.is_truncating) == (3, True)
    assert values(log) == [b"0", b"1", b"2"]
    assert log_sizes(broker) == before
    run_steps(steps)
    assert log_sizes(broker) == log.size < before
    assert not log.is_truncating
    append_values(log, b"new")
    assert values(log) == [b"0", b"1", b"2", b"new"]


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.append_as_follower(make_batch(base_offset=3, leader_epoch=0)),
        lambda log: log.roll(),
        lambda log: log.prepare_flush(),
        lambda log: log.begin_truncation(1),
        lambda log: log.begin_restart(0),
    ],
)
def test_nothing_else_changes_the_log_meanwhile(change):
    log = filled().log()
    log.begin_truncation(3)
    with pytest.raises(InvariantViolated, match="truncat"):
        change(log)


def test_retention_and_a_clean_stop_pass_it_by():
    broker = filled()
    log = broker.log()
    log.begin_truncation(3)
    assert log.retain(1 << 60, 3) == 0
    assert log.prepare_close() is None
    broker.manager.close({})
    assert not broker.disk.exists("/data/.kafka_cleanshutdown")


def test_a_checkpoint_of_all_logs_keeps_the_start_until_the_files_are_cut():
    broker = filled(segment_bytes=10_000)
    log = broker.log()
    log.delete_records_before(7)
    broker.checkpoint()
    steps = log.begin_truncation(5)
    assert log.log_start_offset == 5
    broker.checkpoint()
    path = "/data/log-start-offset-checkpoint"
    assert broker.disk.open(path).read(0, 100) == b"0\n1\norders 0 7\n"
    run_steps(steps)
    assert broker.disk.open(path).read(0, 100) == b"0\n1\norders 0 5\n"


def test_a_write_asked_for_before_another_truncation_does_not_undo_it():
    """Two logs of one directory are truncated at the same time, and write in the other order."""
    broker = filled()
    other = PartitionKey("orders", 1)
    second = broker.manager.open_or_create(other, bytes(16), broker.config)
    append_values(second, b"a", b"b")
    append_values(second, b"c")
    broker.flush(second)
    broker.checkpoint()
    write_first = broker.log().lower_recovery_point(3)
    write_second = second.lower_recovery_point(2)
    write_second()
    write_first()
    content = broker.disk.open("/data/recovery-point-offset-checkpoint").read(0, 100)
    assert content == b"0\n2\norders 0 3\norders 1 2\n"


def test_a_full_disk_stops_it_before_anything_is_cut():
    broker = filled()
    log = broker.log()
    write = log.lower_recovery_point(3)
    broker.sim().faults.fail(Operation.APPEND, "/data", code=errno.ENOSPC)
    with pytest.raises(DiskFull):
        write()
    assert values(log) == [b"%d" % number for number in range(10)]


def test_a_recovery_point_that_a_full_disk_has_refused_is_written_by_the_next_attempt():
    broker = filled()
    log = broker.log()
    write = log.lower_recovery_point(3)
    broker.sim().faults.fail(Operation.APPEND, "/data", code=errno.ENOSPC)
    with pytest.raises(DiskFull):
        write()
    broker.sim().faults.heal()
    log.truncate_to(3)
    content = broker.disk.open("/data/recovery-point-offset-checkpoint").read(0, 100)
    assert content == b"0\n1\norders 0 3\n"


def test_a_truncation_waits_for_a_recovery_point_that_another_one_has_not_written_yet():
    broker = filled()
    log = broker.log()
    log.lower_recovery_point(3)  # its thread has not begun
    run_steps(log.begin_truncation(3))
    content = broker.disk.open("/data/recovery-point-offset-checkpoint").read(0, 100)
    assert content == b"0\n1\norders 0 3\n"


def test_the_files_of_another_log_of_this_name_are_left_alone():
    broker = filled()
    steps = broker.log().begin_truncation(3)
    broker.manager.delete(KEY)
    again = broker.manager.open_or_create(KEY, b"another topic..!", broker.config)
    for number in range(10):
        append_values(again, b"again %d" % number)
    run_steps(steps)
    assert values(again) == [b"again %d" % number for number in range(10)]


def test_a_log_that_goes_on_behind_a_gap_forgets_open_transactions():
    """Their markers may lie in the gap: the leader has deleted them."""
    broker = Broker()
    log = broker.log()
    append(log, make_batch(producer=(7, 0, 0), transactional=True))
    log.roll()
    assert log.first_unstable_offset == 0
    log.truncate_fully_and_start_at(1000)
    assert log.first_unstable_offset is None
    again = broker.kill().log()
    assert (again.log_end_offset, again.first_unstable_offset) == (1000, None)


def test_a_log_that_goes_on_without_a_gap_keeps_its_producers():
    broker = Broker()
    log = broker.log()
    append(log, make_batch(producer=(7, 0, 0)))
    log.roll()
    log.truncate_fully_and_start_at(1)
    assert [one.producer_id for one in log.producers] == [7]


def test_an_emptied_log_is_closed_without_old_index_entries():
    broker = Broker()
    log = broker.log()
    append_values(log, b"v")
    log.roll()
    log.truncate_to(0)
    broker.manager.close({})
    assert list(verify_partition(broker.disk, FOLDER)) == []


async def truncate(flusher, log, failures=None):
    failed = _unexpected if failures is None else failures.append
    return await flusher.truncate(log, log.begin_truncation(3), failed)


def _unexpected(error):
    raise AssertionError(error)


def test_a_flush_waits_until_the_files_are_cut():
    async def scenario() -> None:
        broker = filled()
        log, executor = broker.log(), HandExecutor()
        flusher = Flusher(executor)
        log.lower_recovery_point(1)()
        truncating = asyncio.create_task(truncate(flusher, log))
        await turns()
        flushing = asyncio.create_task(flusher.flush(log, 3))
        await turns()
        assert executor.calls == 1
        truncating.cancel()  # nobody waits for it any more, and it goes on
        await turns()
        executor.go()
        await turns()
        assert not log.is_truncating
        executor.go()
        await flushing
        assert log.recovery_point == 3

    asyncio.run(scenario())


def test_settling_waits_for_a_truncation_and_a_failed_one_stays_fenced():
    async def scenario() -> None:
        broker = filled()
        log, executor = broker.log(), HandExecutor()
        flusher, failures = Flusher(executor), []
        truncating = asyncio.create_task(truncate(flusher, log, failures))
        await turns()
        settling = asyncio.create_task(flusher.settle())
        await turns()
        assert not settling.done()
        broker.sim().faults.fail(Operation.SYNC, "/data")
        executor.go()
        await settling
        assert not await truncating
        assert [type(one) for one in failures] == [StorageError]
        assert log.is_truncating

    asyncio.run(scenario())
