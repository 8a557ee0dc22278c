"""The fast path of requests that only look: it never tells what the slow path would not."""

from __future__ import annotations

from kits.coordinator_kit import Bench, MemoryLog, one, run
from moldau.coordination.outcome import ProducerIdentity


def look(bench, key=b"a"):
    return bench.runtime.read_at_once("k", lambda shard, asked: shard.map.get(asked), key)


def test_what_is_committed_is_told():
    async def work():
        bench = await Bench().begin()
        bench.put(b"a", b"1")
        assert look(bench) == b"1"

    run(work)


def test_nothing_is_told_that_may_never_be_committed():
    async def work():
        bench = await Bench(MemoryLog(commits=False)).begin()
        bench.put(b"a", b"1")
        assert look(bench) is None
        bench.log.commit()
        assert look(bench) == b"1"

    run(work)


def test_a_marker_that_is_not_committed_holds_it_back_too():
    async def work():
        bench = await Bench(MemoryLog(commits=False)).begin()
        bench.log.append(one(b"b", b"2"))
        bench.runtime.transaction_ended(0, ProducerIdentity(7, 0), committed=True)
        bench.shard.map[b"a"] = b"1"
        assert look(bench) is None
        bench.log.commit()
        assert look(bench) == b"1"

    run(work)


def test_nobody_answers_where_there_is_no_shard_or_it_is_loading():
    async def work():
        bench = Bench(MemoryLog(batches=[one(b"a", b"1")]))
        assert look(bench) is None
        bench.runtime.lead(bench.log)
        bench.shard.map[b"a"] = b"half loaded"
        assert look(bench) is None
        await bench.settle()
        assert look(bench) == b"1"

    run(work)
