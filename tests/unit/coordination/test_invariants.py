"""Broken promises between host, runtime and log end a shard; they never lead to a wrong answer."""

from __future__ import annotations

import pytest

from kits.coordinator_kit import Bench, MemoryLog, batches, run
from moldau.base.errors import CorruptRecords, InvariantViolated

NOT_AVAILABLE = ("failed", "COORDINATOR_NOT_AVAILABLE")


class TestServing:
    def test_a_host_begins_to_serve_once(self):
        async def work():
            bench = await Bench().begin()
            with pytest.raises(InvariantViolated, match="twice, or after its end"):
                bench.runtime.host_for("k").begin()

        run(work)

    def test_a_host_that_has_ended_never_serves_again(self):
        async def work():
            bench = await Bench().begin()
            host = bench.runtime.host_for("k")
            bench.runtime.resign(0)
            with pytest.raises(InvariantViolated, match="twice, or after its end"):
                host.begin()

        run(work)

    def test_a_partition_has_one_shard(self):
        async def work():
            bench = await Bench().begin()
            with pytest.raises(InvariantViolated, match="has a shard already"):
                bench.runtime._load_again(bench.log)
            assert bench.put(b"a", b"1") == ("put", b"1")

        run(work)


class TestOutcomes:
    def test_a_reply_that_does_not_wait_has_no_records(self, caplog):
        async def work():
            bench = await Bench().begin()
            assert bench.put(b"a", b"1", at_once=True) == NOT_AVAILABLE
            assert bench.stored() == []

        run(work)
        assert "a reply that does not wait for its records" in caplog.text

    def test_an_append_moves_the_end_of_the_log(self, caplog):
        async def work():
            bench = await Bench().begin()
            bench.log.append = lambda batch, header: None
            assert bench.put(b"a", b"1") == NOT_AVAILABLE

        run(work)
        assert "an append ends at 0" in caplog.text


class StuckLog(MemoryLog):
    """Cannot be read, and names no place behind the damage."""

    async def read(self, offset, max_bytes):
        raise CorruptRecords("no batch begins here")

    def next_start(self, offset):
        return offset


def test_a_load_moves_forward(caplog):
    async def work():
        bench = await Bench(StuckLog(batches=await batches((b"a", b"1")))).begin()
        assert bench.get(b"a") == NOT_AVAILABLE

    run(work)
    assert "a load at 0 resumes at 0" in caplog.text
