"""What a request raises fails that request; a broken state ends the shard, which is loaded anew."""

from __future__ import annotations

import asyncio

import pytest

from kits.coordinator_kit import Bench, MemoryLog, batches, failed, run
from moldau.base.errors import InvariantViolated
from moldau.coordination import runtime as runtimes
from moldau.coordination.backoff import backoff_s
from moldau.coordination.outcome import (
    NOTHING,
    HandlerFailed,
    Outcome,
    ProducerIdentity,
    Reply,
    StateRecord,
    Timer,
)
from moldau.protocol.errors import ErrorCode

PRODUCER = ProducerIdentity(7, 3)
NOT_AVAILABLE = ("failed", "COORDINATOR_NOT_AVAILABLE")
LOADING = ("failed", "COORDINATOR_LOAD_IN_PROGRESS")
INVALID = ("failed", "INVALID_REQUEST")


@pytest.fixture
def at_once(monkeypatch):
    """Load a shard that raised without a wait."""
    monkeypatch.setattr(runtimes, "RELOAD_FIRST_S", 0.0)


def boom(*_, **__):
    raise ZeroDivisionError("a bug")


def half_changed(shard, *_):
    shard.map[b"a"] = b"half"
    boom()


def broken_invariant(shard, *_):
    shard.map[b"a"] = b"half"
    raise InvariantViolated("the state is wrong")


async def in_a_handler(bench):
    assert bench.runtime.call("k", broken_invariant, failed) == NOT_AVAILABLE


async def on_the_short_way(bench):
    host = bench.runtime.host_for("k")
    assert not host.write_at_once(broken_invariant, boom, None, 0.0)


async def in_a_short_look(bench):
    assert bench.runtime.read_at_once("k", broken_invariant, None) is None


async def in_an_event(bench):
    bench.runtime.tell("k", half_changed)


async def in_a_timer(bench):
    shard = bench.shard

    def fired(key, now):
        shard.heard.set()
        half_changed(shard)

    shard.timer_fired = fired
    bench.do(Outcome(timers=[Timer("t", 0)]))
    await shard.heard.wait()


async def in_what_follows(bench):
    bench.do(Outcome(then=boom))


async def in_what_follows_a_commit(bench):
    bench.log.commits = False
    waiting = bench.put(b"c", b"3", then=boom)
    bench.log.commits = True
    bench.log.commit()
    assert waiting.result() == ("put", b"3")


async def in_what_happens_instead(bench):
    bench.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.do(Outcome(records=[StateRecord(b"a", b"2")], refused=boom))
    bench.log.refusal = None


async def in_a_marker(bench):
    bench.shard.transaction_ended = boom
    bench.runtime.transaction_ended(0, PRODUCER, committed=True)


async def in_a_replay(bench):
    bench.shard.replay = boom
    assert bench.put(b"b", b"2") == NOT_AVAILABLE


BUGS = [
    in_a_handler,
    on_the_short_way,
    in_a_short_look,
    in_an_event,
    in_a_timer,
    in_what_follows,
    in_what_follows_a_commit,
    in_what_happens_instead,
    in_a_marker,
    in_a_replay,
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_shard_with_a_bug_is_thrown_away_and_loaded_from_its_log(bug, at_once, caplog):
    async def work():
        bench = await Bench().begin()
        bench.put(b"a", b"1")
        parked, first = bench.park(), bench.shard
        await bug(bench)
        assert parked.result() == NOT_AVAILABLE
        assert first.has_resigned
        assert bench.get(b"a") == LOADING
        await bench.settle()
        assert bench.shard is not first
        assert bench.get(b"a") == ("got", b"1")
        assert dict(bench.stored()) == bench.shard.map

    run(work)
    assert "internal-0 has a bug" in caplog.text
    assert "Traceback" in caplog.text


def test_a_request_that_raises_fails_alone(caplog):
    async def work():
        bench = await Bench().begin()
        bench.put(b"a", b"1")
        parked, first = bench.park(), bench.shard
        assert bench.runtime.call("k", boom, failed) == INVALID
        assert not parked.done()
        assert bench.shard is first
        assert bench.put(b"b", b"2") == ("put", b"2")
        assert bench.stored() == [(b"a", b"1"), (b"b", b"2")]

    run(work)
    assert "Traceback" in caplog.text


def test_a_client_that_repeats_what_raises_fills_no_log(caplog):
    async def work():
        bench = await Bench().begin()
        for _ in range(50):
            assert bench.runtime.call("k", boom, failed) == INVALID
        assert bench.runtime.bugs.count == 50

    run(work)
    assert len(caplog.records) == 1


def test_records_that_cannot_be_encoded_are_refused_and_others_are_not():
    unpackable = StateRecord(b"a", 7)

    async def work():
        told = []

        def refused(code, _):
            told.append(code)
            return NOTHING

        bench = await Bench().begin()
        first = bench.shard
        assert bench.put(b"a", 7) == INVALID
        bench.do(Outcome(records=[unpackable], refused=refused))
        assert told == [ErrorCode.INVALID_REQUEST]
        assert bench.shard is first
        assert bench.put(b"b", b"2") == ("put", b"2")
        assert bench.stored() == [(b"b", b"2")]

    run(work)


def test_what_a_shard_repairs_is_carried_out_and_the_request_fails():
    async def work():
        bench = await Bench().begin()
        parked, first = bench.park(), bench.shard
        (waiting,) = first.parked

        def repaired(*_):
            raise HandlerFailed(ValueError("a bug"), Outcome(replies=[Reply(waiting, "sent away")]))

        assert bench.runtime.call("k", repaired, failed) == INVALID
        assert parked.result() == "sent away"
        first.timer_fired = repaired
        bench.do(Outcome(timers=[Timer("t", 0)]))
        await bench.settle()
        assert bench.shard is first

    run(work)


@pytest.mark.parametrize("short_way", ["write_at_once", "read_at_once"])
def test_a_short_way_that_raises_leaves_the_request_to_the_long_one(short_way, caplog):
    async def work():
        bench = await Bench().begin()
        host = bench.runtime.host_for("k")
        asked = (boom, boom, None, 0.0) if short_way == "write_at_once" else (boom, None)
        assert not getattr(host, short_way)(*asked)
        assert bench.put(b"a", b"1") == ("put", b"1")

    run(work)
    assert "Traceback" in caplog.text


def test_an_effect_that_cannot_be_carried_out_ends_the_shard_but_not_its_answer(at_once, caplog):
    async def work():
        bench = await Bench(perform=boom).begin()
        assert bench.put(b"a", b"1", effects=["marker"]) == ("put", b"1")
        assert bench.get(b"a") == LOADING
        await bench.settle()
        assert bench.get(b"a") == ("got", b"1")

    run(work)
    assert "internal-0 has a bug" in caplog.text


def test_a_timer_of_a_shard_with_a_bug_never_fires(at_once):
    async def work():
        bench = await Bench().begin()
        first = bench.shard
        bench.do(Outcome(timers=[Timer("t", 0)]))
        await in_a_handler(bench)
        await bench.settle()
        assert first.fired == []

    run(work)


def test_events_are_kept_until_the_shard_is_loaded_again(at_once):
    async def work():
        bench = await Bench().begin()
        await in_a_handler(bench)
        bench.do(Outcome(records=[StateRecord(b"told", b"1")]))
        await bench.settle()
        assert bench.get(b"told") == ("got", b"1")

    run(work)


def test_a_record_that_raises_ends_the_shard_that_wrote_it_but_not_the_next(at_once, caplog):
    """Its log holds what it raises at, and would do so for ever: loading skips it."""

    async def work():
        bench = await Bench().begin()
        assert bench.put(b"broken", b"1") == NOT_AVAILABLE
        await bench.settle()
        assert bench.get(b"a") == ("got", None)
        assert bench.runtime.load_times.skipped_records == 1
        assert len(bench.shards) == 2

    run(work)
    assert "internal-0: the record at offset 0 is skipped" in caplog.text


def test_a_shard_that_cannot_begin_stays_not_available(caplog):
    async def work():
        bench = Bench()
        make = bench.runtime._make_shard

        def broken(index, leader_epoch):
            shard = make(index, leader_epoch)
            shard.loaded = boom
            return shard

        bench.runtime._make_shard = broken
        await bench.begin()
        assert bench.get(b"a") == NOT_AVAILABLE
        assert len(bench.shards) == 1

    run(work)
    assert "internal-0 cannot begin to serve" in caplog.text


def test_each_bug_makes_the_next_load_wait_longer_until_all_was_well_for_a_while(monkeypatch):
    counts = []

    def no_wait(failure_count, first_s, max_s):
        counts.append(failure_count)
        return 0.0

    monkeypatch.setattr(runtimes, "backoff_s", no_wait)

    async def work():
        bench = await Bench().begin()
        clock = bench.runtime._settings.clock
        for quiet_s in (0, 1, runtimes.FAILURES_FORGOTTEN_S, 1):
            clock.now_ms += int(quiet_s * 1000)
            await in_a_handler(bench)
            await bench.settle()
        bench.log = bench.log.moved_to(1)
        await bench.begin()
        await in_a_handler(bench)

    run(work)
    assert counts == [1, 2, 1, 2, 1]


def test_waits_double_up_to_a_limit():
    assert [backoff_s(count, 1.0, 5.0) for count in (1, 2, 3, 4, 10_000)] == [1, 2, 4, 5, 5]


def test_a_partition_that_moves_away_while_its_shard_waits_is_not_loaded():
    async def work():
        bench = await Bench(MemoryLog(batches=await batches((b"a", b"1")))).begin()
        await in_a_handler(bench)
        reads = bench.log.reads
        await bench.runtime.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert bench.log.reads == reads
        assert bench.get(b"a") == ("failed", "NOT_COORDINATOR")

    run(work)
