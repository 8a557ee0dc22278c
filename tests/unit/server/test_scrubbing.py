"""The scrub finds what has rotted in closed segments, says it, and changes nothing."""

from __future__ import annotations

import logging

import pytest

from kits.log_kit import KEY, TOPIC_ID, Broker, append, make_batch, marker, sized_batch
from kits.partition_kit import make_partition
from moldau.base.ids import BrokerId, LeaderEpoch
from moldau.replication.partition import Partition, Role
from moldau.replication.partitions import Partitions
from moldau.server.upkeep import scrubbing
from moldau.server.upkeep.scrubbing import Scrubber
from moldau.sim.disk_faults import Operation
from moldau.sim.executor import SimExecutor
from moldau.sim.world import World
from moldau.storage.scrub import ScrubStep, scrub_step
from moldau.storage.topic_config import LogConfig
from moldau.storage.transaction_index import DamagedTransactionIndex

CONFIG = LogConfig(segment_bytes=1600, index_interval_bytes=200, file_delete_delay_ms=0)


class Bench:
    """Ten batches of 400 bytes, four in a segment, and a scrubber."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.storage = Broker(config=CONFIG, clock=world.clock)
        self.log = self.storage.log()
        for _ in range(10):
            append(self.log, sized_batch(400, timestamp=world.clock.wall_ms()))
        node = BrokerId(1)
        role = Role(node, LeaderEpoch(0), 0, (node,), (node,))
        partitions = Partitions()
        partitions.add(make_partition(KEY, TOPIC_ID, self.log, role))
        disk = self.storage.disk
        self.asked: list[str] = []
        self.scrubber = Scrubber(
            disk, partitions, world.clock, SimExecutor(world), self.rebuild_index
        )

    def rebuild_index(self, partition: Partition, damage: DamagedTransactionIndex) -> bool:
        assert partition.log is self.log
        self.asked.append(str(damage))
        return True

    def scrub(self, caplog) -> list[str]:
        """Make one pass and return what is warned of."""
        caplog.clear()
        self.world.run(self.scrubber.scrub())
        return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]

    def path(self, base_offset: int) -> str:
        return f"/data/orders-0/{base_offset:020d}.log"

    def content(self) -> dict[str, bytes]:
        names = self.storage.disk.names("/data/orders-0")
        files = [self.storage.disk.open(f"/data/orders-0/{name}") for name in names]
        return {file.path: file.read(0, file.size()) for file in files}


@pytest.fixture
def bench():
    with World(3) as world:
        yield Bench(world)


def test_sound_segments_are_no_news(bench, caplog):
    assert bench.scrub(caplog) == []
    assert (bench.scrubber.checked_bytes, bench.scrubber.damaged_batches) == (3200, 0)


@pytest.mark.parametrize("step_bytes", [1, 400, 1000, 1 << 20])
def test_every_damaged_batch_is_said_and_counted_and_nothing_is_changed(
    bench, caplog, monkeypatch, step_bytes
):
    monkeypatch.setattr(scrubbing, "STEP_BYTES", step_bytes)
    for base_offset, position in ((0, 500), (0, 1500), (4, 100), (8, 100)):
        bench.storage.sim().flip_bit(bench.path(base_offset), position)
    before = bench.content()
    # The last segment is being written, and is recovery's to look at.
    assert bench.scrub(caplog) == [
        f"{KEY}: {bench.path(base)} is damaged at position {position} (the CRC does not match):"
        f" 400 bytes, offsets {offset} to {offset}"
        for base, position, offset in ((0, 400, 1), (0, 1200, 3), (4, 0, 4))
    ]
    assert bench.scrubber.damaged_batches == 3
    assert bench.content() == before


def test_where_no_batch_begins_the_rest_of_the_segment_is_named(bench, caplog):
    bench.storage.sim().flip_bit(bench.path(0), 400 + 16, bit=6)  # the magic
    (line,) = bench.scrub(caplog)
    assert f"{bench.path(0)} is damaged at position 400" in line
    assert "1200 bytes, offsets from 1 on, the rest of the segment" in line
    assert bench.scrubber.checked_bytes == 3200


def test_an_offset_that_goes_back_is_found():
    broker = Broker(config=CONFIG)
    append(broker.log(), sized_batch(400))
    append(broker.log(), sized_batch(400))
    begin = ScrubStep(0, 1, ())
    step = scrub_step(broker.disk, "/data/orders-0/00000000000000000000.log", begin, 800, 1 << 20)
    (damage,) = step.damages
    assert (damage.position, damage.reason) == (0, "offset 0 where 1 is the least")


def test_it_keeps_to_its_rate(bench, caplog, monkeypatch):
    monkeypatch.setattr(scrubbing, "BYTES_PER_SECOND", 100)
    monkeypatch.setattr(scrubbing, "STEP_BYTES", 800)
    started_s = bench.world.clock.monotonic()
    bench.scrub(caplog)
    assert bench.world.clock.monotonic() - started_s >= 32


def test_segments_that_go_meanwhile_are_no_news(bench, caplog, monkeypatch):
    monkeypatch.setattr(scrubbing, "STEP_BYTES", 400)
    monkeypatch.setattr(scrubbing, "BYTES_PER_SECOND", 400)
    bench.world.loop.call_later(2.5, bench.log.delete_records_before, 8)
    bench.world.loop.call_later(2.6, bench.log.retain, bench.world.clock.wall_ms(), 10)
    assert bench.scrub(caplog) == []
    assert len(bench.log.segments) == 1
    assert bench.scrubber.checked_bytes < 3200


def test_a_segment_that_is_cut_and_closed_again_is_no_news(bench, caplog, monkeypatch):
    monkeypatch.setattr(scrubbing, "STEP_BYTES", 400)
    monkeypatch.setattr(scrubbing, "BYTES_PER_SECOND", 400)

    def cut() -> None:
        bench.log.truncate_to(2)
        bench.log.roll()

    bench.world.loop.call_later(2.5, cut)
    closed = bench.log.segments[0]
    assert bench.scrub(caplog) == []
    assert closed in bench.log.segments[:-1]


def test_a_file_that_cannot_be_read_is_said_and_the_others_are_looked_at(bench, caplog):
    bench.storage.sim().faults.fail(Operation.READ, bench.path(0))
    (line,) = bench.scrub(caplog)
    assert line.startswith(f"{KEY}: {bench.path(0)} cannot be read: ")
    assert bench.scrubber.checked_bytes == 1600
    assert not bench.log.offline


@pytest.mark.parametrize("content", [None, b"", b"rubbish"], ids=["sound", "empty", "garbage"])
def test_a_damaged_index_of_aborted_transactions_is_made_anew(bench, caplog, content):
    append(bench.log, make_batch(producer=(9, 0, 0), transactional=True))
    bench.log.append_marker(*marker(9, 0, aborted=True), 0, transaction_version=1)
    path = bench.log.active.transactions_path
    bench.log.roll()
    if content is not None:
        bench.storage.disk.remove(path)
        bench.storage.disk.open(path, create=True).append([content])
    assert bench.scrub(caplog) == []
    assert [line.partition(": ")[0] for line in bench.asked] == [path] * (content is not None)
