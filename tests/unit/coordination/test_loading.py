"""A shard is brought up to its log, whatever stands in it, without holding up the loop."""

from __future__ import annotations

import asyncio
import gc
from unittest.mock import AsyncMock

import pytest

from kits.coordinator_kit import Bench, MemoryLog, batches, marker, one, run
from moldau.base.errors import CorruptRecords, StorageError
from moldau.coordination.outcome import Outcome, ProducerIdentity, StateRecord
from moldau.coordination.skipping import LINES_PER_LOAD
from moldau.records.batch import HEADER_SIZE, pack_batch, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.legacy import message_set
from moldau.records.record import Record

PRODUCER = ProducerIdentity(7, 3)


def test_a_shard_that_loads_is_not_served_and_events_wait_for_it():
    async def work():
        bench = Bench(MemoryLog(batches=await batches((b"a", b"1"))))
        bench.runtime.lead(bench.log)
        assert bench.get(b"a") == ("failed", "COORDINATOR_LOAD_IN_PROGRESS")
        assert bench.runtime.holds(0)
        bench.do(Outcome(records=[StateRecord(b"b", b"2")]))
        await bench.settle()
        assert bench.shard.load_count == 1
        assert bench.shard.map == {b"a": b"1", b"b": b"2"}

    run(work)


def test_the_outcome_of_having_loaded_is_carried_out():
    async def work():
        bench = Bench(MemoryLog(batches=await batches((b"a", b"1"))))
        bench.runtime.lead(bench.log)
        bench.shard.after_load = Outcome(effects=["markers again"])
        await bench.settle()
        assert bench.effects == ["markers again"]

    run(work)


@pytest.mark.parametrize("max_bytes", [1, 100, 1 << 20])
def test_everything_is_replayed_however_little_is_read_at_once(max_bytes):
    async def work():
        expected = {b"k%d" % number: b"v" * number for number in range(40)}
        log = MemoryLog(batches=await batches(*expected.items()))
        bench = await Bench(log, load_buffer_bytes=max_bytes).begin()
        await bench.shard.serves.wait()
        assert bench.shard.map == expected

    run(work)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_compressed_batches_are_replayed(codec):
    async def work():
        expected = {b"a": b"1" * 900, b"b": b"2" * 900}
        written = await batches(*expected.items(), codec=codec)
        bench = await Bench(MemoryLog(batches=written)).begin()
        assert bench.shard.map == expected

    run(work)


def test_the_loop_has_its_turn_while_a_large_batch_is_replayed():
    async def work():
        records = [StateRecord(b"%d" % number, b"") for number in range(5000)]
        writer = await Bench().begin()
        writer.do(Outcome(records=records))
        bench = Bench(writer.log.moved_to(1))
        bench.runtime.lead(bench.log)
        seen = set()
        while bench.get(b"0")[0] == "failed":
            seen.add(len(bench.shard.map))
            await asyncio.sleep(0)
        assert len(bench.shard.map) == 5000
        assert len(seen) > 10

    run(work)


def test_what_is_appended_while_a_shard_loads_is_replayed_too():
    async def work():
        log = MemoryLog(batches=await batches((b"a", b"1")))
        bench = Bench(log)
        bench.runtime.lead(log)
        log.append(one(b"late", b"2"))
        await bench.settle()
        assert bench.shard.map == {b"a": b"1", b"late": b"2"}

    run(work)


def test_records_nobody_knows_and_records_without_a_key_are_skipped(caplog):
    async def work():
        log = MemoryLog(
            batches=await batches((b"a", b"1"))
            + [one(b"unknown", b"?"), one(None, b"?"), one(b"b", None)]
        )
        bench = await Bench(log).begin()
        assert bench.shard.map == {b"a": b"1", b"b": None}

    run(work)
    assert "internal-0: the record at offset 1 is skipped: a type of the future" in caplog.text
    assert "internal-0: the record at offset 2 is skipped: it has no key" in caplog.text


def test_a_topic_full_of_records_nobody_knows_does_not_fill_the_log(caplog):
    async def work():
        log = MemoryLog(batches=[one(b"unknown", b"?")] * 500)
        await Bench(log).begin()

    run(work)
    assert len(caplog.records) == LINES_PER_LOAD + 1
    assert "internal-0: 500 records were skipped in all" in caplog.text


def test_the_loop_has_its_turn_while_markers_and_emptied_batches_are_read():
    async def work():
        emptied = pack_batch(parse_header(one(b"a", b"1"))._replace(count=0), b"")
        log = MemoryLog(batches=[emptied, marker(PRODUCER, aborted=False)] * 1000)
        bench = Bench(log)
        bench.runtime.lead(log)
        turns = 0
        while bench.get(b"a")[0] == "failed":
            turns += 1
            await asyncio.sleep(0)
        assert turns > 2000 / 256

    run(work)


def test_a_gap_at_the_end_of_a_compacted_log_ends_the_load():
    async def work():
        log = MemoryLog(batches=await batches((b"a", b"1")))
        log.log_end_offset = log.committed_offset = 9
        bench = await Bench(log).begin()
        assert bench.get(b"a") == ("got", b"1")

    run(work)


def test_a_log_that_cannot_be_read_is_not_available_until_it_is_led_anew(caplog):
    async def work():
        log = MemoryLog(batches=await batches((b"a", b"1")))
        log.unreadable = StorageError("/data", "rotten")
        bench = await Bench(log).begin()
        assert bench.get(b"a") == ("failed", "COORDINATOR_NOT_AVAILABLE")
        bench.log = log.moved_to(1)
        await bench.begin()
        assert bench.get(b"a") == ("got", b"1")

    run(work)
    assert "internal-0 cannot be loaded: /data: rotten" in caplog.text


def flipped(batch):
    return batch[:-1] + bytes([batch[-1] ^ 1])


def recounted(count):
    """A batch with a good checksum that claims another number of records."""
    return lambda batch: pack_batch(parse_header(batch)._replace(count=count), batch[HEADER_SIZE:])


def with_records(records, **changes):
    return lambda batch: pack_batch(parse_header(batch)._replace(**changes), records)


DAMAGES = {
    "checksum": flipped,
    "too few records": recounted(7),
    "a negative number of records": recounted(-7),
    "a bad codec": with_records(b"x", attributes=7),
    "what gzip did not write": with_records(b"nonsense", attributes=1),
    "what lz4 did not write": with_records(b"nonsense", attributes=3),
    "what zstd did not write": with_records(b"nonsense", attributes=4),
    "no record": with_records(b"\xff" * 9),
    "a bad marker": with_records(one(b"a", b"1")[HEADER_SIZE:], attributes=0x30),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("max_bytes", [1, 100, 1 << 20])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_damaged_batch_is_skipped_and_all_others_are_read(damage, max_bytes, index, caplog):
    async def work():
        log = MemoryLog(batches=await batches((b"a", b"1"), (b"b", b"2"), (b"c", b"3")))
        offset, batch = log.batches[index]
        log.batches[index] = (offset, DAMAGES[damage](batch))
        bench = await Bench(log, load_buffer_bytes=max_bytes).begin()
        whole = {b"a": b"1", b"b": b"2", b"c": b"3"}
        del whole[b"abc"[index : index + 1]]
        assert bench.shard.map == whole
        assert bench.runtime.load_times.skipped_records > 0
        assert bench.put(b"d", b"4") == ("put", b"4")

    run(work)
    assert "internal-0: " in caplog.text
    assert f"offset {index} " in caplog.text


def test_the_records_before_a_bad_one_of_their_batch_are_read(caplog):
    async def work():
        builder = BatchBuilder()
        for number in range(600):
            builder.append(1, b"%d" % number, b"v")
        header, batch = builder.seal()
        cut = pack_batch(header, batch[HEADER_SIZE:-1])
        bench = await Bench(MemoryLog(batches=[cut, one(b"behind", b"1")])).begin()
        assert len(bench.shard.map) == 600
        assert bench.shard.map[b"behind"] == b"1"
        assert b"599" not in bench.shard.map
        assert bench.runtime.load_times.skipped_records == 1

    run(work)
    assert "internal-0: 1 record(s) from offset 599 on are skipped" in caplog.text


class BrokenInTheMiddle(MemoryLog):
    """Two files, the first of which cannot be walked through from its second batch on."""

    async def read(self, offset, max_bytes):
        if offset == 1:
            raise CorruptRecords("no batch begins here")
        data = await super().read(offset, max_bytes)
        return data[: len(self.batches[0][1])] if offset == 0 else data

    def next_start(self, offset):
        return 3 if offset < 3 else self.log_end_offset


@pytest.mark.parametrize("garbage", [None, b"\0" * 200, b"\xff" * 200])
def test_behind_bytes_that_are_no_batch_the_next_file_is_read(garbage, caplog):
    async def work():
        written = await batches(*((b"%d" % number, b"v") for number in range(5)))
        if garbage is None:
            log = BrokenInTheMiddle(batches=written)
        else:
            log = MemoryLog(batches=written)
            log.batches[1] = (1, garbage)
            log.read = AsyncMock(
                side_effect=lambda offset, size: b"".join(
                    batch for base, batch in log.batches if base >= offset
                )
            )
            log.next_start = lambda offset: 3 if offset < 3 else 5
        bench = await Bench(log).begin()
        assert set(bench.shard.map) == {b"0", b"3", b"4"}

    run(work)
    assert "internal-0: everything from offset 1 up to 2 is skipped" in caplog.text


def test_a_record_that_the_shard_cannot_take_is_skipped(caplog):
    async def work():
        log = MemoryLog(batches=[one(b"broken", b""), one(b"broken", b""), one(b"a", b"1")])
        bench = await Bench(log).begin()
        assert bench.get(b"a") == ("got", b"1")
        assert bench.runtime.load_times.skipped_records == 2

    run(work)
    assert caplog.text.count("Traceback") == 1
    assert "internal-0: the record at offset 1 is skipped: ValueError" in caplog.text


@pytest.mark.parametrize("records", [[], [(b"a", b"1")]])
def test_a_shard_that_fails_to_begin_is_not_available(records, caplog):
    async def work():
        bench = Bench(MemoryLog(batches=await batches(*records)))
        make = bench.runtime._make_shard

        def make_failing(index, leader_epoch):
            shard = make(index, leader_epoch)
            shard.loaded = lambda now: 1 // 0
            return shard

        bench.runtime._make_shard = make_failing
        await bench.begin()
        assert bench.get(b"a") == ("failed", "COORDINATOR_NOT_AVAILABLE")

    run(work)
    assert "internal-0 cannot begin to serve" in caplog.text


def test_transactions_are_decided_by_their_markers():
    async def work():
        log = MemoryLog()
        bench = await Bench(log).begin()
        other = ProducerIdentity(8, 0)
        third = ProducerIdentity(9, 0)
        bench.put(b"committed", b"1", producer=PRODUCER)
        bench.put(b"aborted", b"2", producer=other)
        bench.put(b"open", b"3", producer=third)
        log.append(marker(PRODUCER, aborted=False))
        log.append(marker(other, aborted=True))
        after = await Bench(log.moved_to(1)).begin()
        assert after.shard.map == {b"committed": b"1"}
        assert after.shard.undecided == {9: {b"open": b"3"}}

    run(work)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_messages_of_old_formats_are_replayed(codec):
    async def work():
        records = [
            Record(0, 1, b"a", b"1"), Record(1, 2, b"b", b"2"), Record(2, 3, None, b"?"),
        ]  # fmt: skip
        log = MemoryLog()
        log.log_end_offset = log.committed_offset = 3
        log.read = AsyncMock(return_value=message_set(records, 1, codec))
        bench = await Bench(log).begin()
        assert bench.shard.map == {b"a": b"1", b"b": b"2"}
        log.read.assert_awaited_once()

    run(work)


def test_a_log_that_changed_its_format_is_replayed_on_both_sides():
    async def work():
        old = message_set([Record(0, 1, b"a", b"1")], 0)
        log = MemoryLog(batches=[one(b"", b""), one(b"b", b"2")])
        answers = {0: old + log.batches[1][1], 1: log.batches[1][1]}
        log.read = AsyncMock(side_effect=lambda offset, size: answers[offset])
        bench = await Bench(log).begin()
        assert bench.shard.map == {b"a": b"1", b"b": b"2"}

    run(work)


def test_the_collector_is_off_while_a_shard_loads_and_back_on_whatever_comes_of_it():
    async def work(log):
        bench = Bench(log)
        seen = []
        bench.runtime.lead(log)
        bench.shard.replay = lambda record, producer: seen.append(gc.isenabled())
        await bench.settle()
        return seen, gc.isenabled()

    broken = MemoryLog(batches=[one(b"a", b"1")])
    broken.unreadable = StorageError("/data", "rotten")
    gc.enable()
    assert asyncio.run(work(MemoryLog(batches=[one(b"a", b"1")]))) == ([False], True)
    assert asyncio.run(work(broken)) == ([], True)
