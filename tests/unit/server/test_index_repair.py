"""Readers of committed transactions wait for a damaged `.txnindex` and then read the truth."""

from __future__ import annotations

import asyncio
import errno
import logging

import pytest

from kits import fetch_kit
from kits.fetch_kit import Kit
from kits.log_kit import append, make_batch, marker
from kits.slicing import finished
from moldau.base.errors import InvariantViolated
from moldau.base.files import read_whole
from moldau.protocol.errors import ErrorCode
from moldau.server.upkeep import index_repair
from moldau.server.upkeep.index_repair import IndexRepair
from moldau.sim.disk_faults import Operation
from moldau.sim.executor import SimExecutor
from moldau.sim.world import World

PATH = "/data/t-0/00000000000000000000.txnindex"


class Bench:
    """A partition with an aborted transaction in a closed segment, its readers and the repair."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.kit = Kit("t")
        self.partition = self.kit["t"]
        self.log = self.partition.log
        self.abort()
        self.log.roll()
        self.abort()
        self.disk = self.kit.disk.sim()
        self.stored = read_whole(self.disk, PATH)
        self.failures = []
        executor = SimExecutor(world)
        self.repair = IndexRepair(self.disk, executor, executor, self.failures.append)
        self.session = self.kit.session()
        self.kit.fetch(self.session, {"t": (0, fetch_kit.FAR)})

    def abort(self) -> None:
        sequence = self.log.log_end_offset // 2
        append(self.log, make_batch(producer=(9, 0, sequence), transactional=True))
        self.log.append_marker(*marker(9, 0, aborted=True), 0, transaction_version=1)
        self.partition.advance()

    def spoil(self, content: bytes = b"rubbish", path: str = PATH) -> None:
        """Damage an index and forget what was known of it."""
        self.disk.remove(path)
        self.disk.open(path, create=True).append([content])
        self.kit.disk.resources.aborted.drop(path.removesuffix(".txnindex"))

    def look(self):
        """Look what the reader would be told now."""
        fetch = self.kit.fetch(self.session, committed_only=True, rebuild_index=self.repair.ask)
        found, enough = finished(fetch.look())
        return found, enough

    def run(self, *, until=lambda: False, seconds: float = 5.0) -> None:
        """Let the repair work for a while."""

        async def work() -> None:
            task = asyncio.ensure_future(self.repair.run())
            for _ in range(int(seconds * 100)):
                await asyncio.sleep(0.01)
                if until():
                    break
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self.world.run(work())

    def warnings(self, caplog) -> list[str]:
        return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.fixture
def bench():
    with World(3) as world:
        yield Bench(world)


def is_nothing(looked) -> bool:
    """Tell whether a reader gets neither bytes nor an error, and has to wait."""
    found, enough = looked
    return not enough and all(not (one.size or one.error) for one in found)


def aborted(looked):
    (fetched,), _ = looked
    assert fetched.size
    return [(one.producer_id, one.first_offset) for one in fetched.aborted]


def test_a_reader_waits_and_then_reads_what_is_right(bench, caplog):
    before = aborted(bench.look())
    bench.spoil()
    woken = []
    bench.session.wake = lambda: woken.append(True)
    assert is_nothing(bench.look())
    assert is_nothing(bench.look())
    bench.run()
    assert woken
    assert aborted(bench.look()) == before == [(9, 0)]
    assert read_whole(bench.disk, PATH) == bench.stored
    (line,) = bench.warnings(caplog)
    assert line == (
        f"{PATH}: a transaction index of 7 bytes has half an entry;"
        " made anew from the batches: 1 aborted transaction(s)"
    )
    assert bench.failures == []
    assert not [name for name in bench.disk.names("/data/t-0") if name.endswith(".tmp")]


def test_the_file_is_right_after_a_restart(bench):
    bench.spoil()
    bench.look()
    bench.run()
    # After an orderly stop nothing but the file says what was aborted.
    again = bench.kit.disk.stop()
    (log,) = [log for _, log in again.manager]
    read = log.read(0, 1 << 20, log.log_end_offset)
    assert [one.first_offset for one in log.aborted_transactions(0, read)] == [0]


def test_an_empty_file_without_aborts_goes_without_a_word(bench, caplog):
    bench.log.roll()
    append(bench.log, make_batch())
    bench.log.roll()
    bench.partition.advance()
    segment = bench.log.segments[2]
    bench.disk.open(segment.transactions_path, create=True)
    segment.has_aborted = True
    bench.log._segments.note_aborted(segment)
    bench.kit.fetch(bench.session, {"t": (segment.base_offset, fetch_kit.FAR)})
    assert is_nothing(bench.look())
    bench.run()
    assert aborted(bench.look()) == []
    assert not bench.disk.exists(segment.transactions_path)
    assert bench.warnings(caplog) == []


def test_an_empty_file_that_should_not_be_is_made_anew(bench, caplog):
    bench.spoil(b"")
    assert is_nothing(bench.look())
    bench.run()
    assert aborted(bench.look()) == [(9, 0)]
    (line,) = bench.warnings(caplog)
    assert "is empty; made anew" in line


def test_the_segment_being_written_is_closed_first(bench):
    bench.kit.fetch(bench.session, {"t": (2, fetch_kit.FAR)})
    bench.spoil(path=bench.log.active.transactions_path)
    assert is_nothing(bench.look())
    bench.run()
    assert len(bench.log.segments) == 3
    assert aborted(bench.look()) == [(9, 2)]
    bench.abort()
    bench.kit.fetch(bench.session, {"t": (4, fetch_kit.FAR)})
    assert aborted(bench.look()) == [(9, 4)]


def violate_invariant(*arguments):
    """Take the place of work for a worker process, so it must pickle."""
    raise InvariantViolated("a transaction is out of order")


def test_a_bug_in_the_repair_of_one_index_does_not_end_the_repair(bench, caplog, monkeypatch):
    monkeypatch.setattr(index_repair, "rebuild_step", violate_invariant)
    bench.spoil()
    assert is_nothing(bench.look())
    bench.run()
    (fetched,), _ = bench.look()
    assert fetched.error is ErrorCode.CORRUPT_MESSAGE
    (line,) = bench.warnings(caplog)
    assert "it cannot be made anew: a transaction is out of order" in line


def test_batches_that_cannot_be_read_either_are_an_error_and_tried_once(bench, caplog):
    bench.disk.flip_bit(PATH.replace(".txnindex", ".log"), 150)  # in the marker
    bench.spoil()
    woken = []
    bench.session.wake = lambda: woken.append(True)
    assert is_nothing(bench.look())
    bench.run()
    assert woken
    for _ in range(2):
        (fetched,), _ = bench.look()
        assert (fetched.error, fetched.size) == (ErrorCode.CORRUPT_MESSAGE, 0)
        bench.run()
    (line,) = bench.warnings(caplog)
    assert line.startswith(f"{PATH}: ")
    assert "it cannot be made anew" in line


def test_a_full_disk_costs_the_file_and_not_the_answer(bench):
    bench.spoil()
    bench.disk.faults.fail(Operation.APPEND, PATH, code=errno.ENOSPC)
    assert is_nothing(bench.look())
    bench.run()
    assert aborted(bench.look()) == [(9, 0)]
    assert bench.failures == []
    assert not bench.disk.exists(PATH + ".tmp")


def test_a_disk_that_fails_is_said(bench):
    bench.spoil()
    bench.disk.faults.fail(Operation.APPEND, PATH)
    assert is_nothing(bench.look())
    bench.run()
    (failure,) = bench.failures
    assert failure.path == PATH


def test_what_goes_meanwhile_is_let_go(bench, monkeypatch, caplog):
    monkeypatch.setattr(index_repair, "STEP_BYTES", 1)
    bench.spoil()
    assert is_nothing(bench.look())
    bench.world.loop.call_later(0.03, bench.log.delete_records_before, 2)
    bench.world.loop.call_later(0.03, bench.log.retain, bench.world.clock.wall_ms(), 4)
    bench.run()
    assert bench.log.log_start_offset == 2
    assert not bench.disk.exists(PATH)
    assert (bench.failures, bench.warnings(caplog)) == ([], [])


def test_a_segment_that_is_cut_while_it_is_read_is_not_hopeless(bench, monkeypatch, caplog):
    monkeypatch.setattr(index_repair, "STEP_BYTES", 1)
    bench.spoil()
    assert is_nothing(bench.look())
    compute, (closed, _) = bench.repair._cleaner.compute, bench.log.segments

    async def cut_and_compute(*work):
        if bench.log.log_end_offset > 2:
            bench.log.truncate_to(2)  # the marker goes, its records stay
            bench.log.roll()
        return await compute(*work)

    monkeypatch.setattr(bench.repair._cleaner, "compute", cut_and_compute)
    bench.run()
    assert closed in bench.log.segments[:-1]
    assert (bench.failures, bench.warnings(caplog)) == ([], [])
    assert closed not in bench.repair._hopeless
