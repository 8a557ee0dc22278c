"""Every invariant of the storage floor fires, and before anything has changed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kits.log_kit import (
    FOLDER,
    Broker,
    HandClock,
    append_values,
    make_batch,
)
from moldau.base.errors import InvariantViolated
from moldau.records.batch import parse_header
from moldau.records.control import EndTransactionMarker, end_transaction_batch
from moldau.sim.disk import SimDisk
from moldau.storage.epochs import LeaderEpochs
from moldau.storage.log import Log
from moldau.storage.producers import ProducerStates
from moldau.storage.resources import Resources
from moldau.storage.segment import Segment
from moldau.storage.segments import Segments
from moldau.storage.topic_config import LogConfig


@pytest.fixture
def log() -> Log:
    log = Broker(config=LogConfig(segment_bytes=1000)).log()
    append_values(log, b"a", b"b", epoch=3)
    return log


def state(log: Log) -> tuple[object, ...]:
    return (
        log.log_start_offset,
        log.log_end_offset,
        log.size,
        log.epochs.entries,
        [segment.base_offset for segment in log.segments],
    )


class TestLog:
    def test_a_leader_never_appends_with_an_older_epoch(self, log):
        before = state(log)
        with pytest.raises(InvariantViolated, match="epoch 2 after 3"):
            append_values(log, b"c", epoch=2)
        assert state(log) == before

    def test_a_segment_never_starts_below_the_log_end(self, log):
        before = state(log)
        with pytest.raises(InvariantViolated, match="a roll at 1 is below the end"):
            log.roll(1)
        assert state(log) == before

    def test_the_log_start_never_passes_the_log_end(self, log):
        with pytest.raises(InvariantViolated, match="a start at 3 is above the end"):
            log.delete_records_before(3)
        assert log.log_start_offset == 0

    def test_retention_deletes_nothing_with_a_high_watermark_above_the_log_end(self, log):
        log.update_config(LogConfig(retention_bytes=0))
        log.roll()
        append_values(log, b"c", epoch=3)
        log.roll()
        before = state(log)
        with pytest.raises(InvariantViolated, match="with high watermark 4"):
            log.retain(0, high_watermark=4)
        assert state(log) == before

    @pytest.mark.parametrize("truncate", [Log.truncate_to, Log.truncate_fully_and_start_at])
    def test_no_log_is_truncated_to_a_negative_offset(self, log, truncate):
        before = state(log)
        with pytest.raises(InvariantViolated, match="-1"):
            truncate(log, -1)
        assert state(log) == before

    def test_the_recovery_point_never_passes_the_log_end(self, log):
        flush = log.prepare_flush()
        flush.run()
        with pytest.raises(InvariantViolated, match="flushed above the end"):
            log.flushed(replace(flush, end_offset=3))


class Parts:
    """What a log is put together from."""

    def __init__(self) -> None:
        disk = SimDisk(random.Random(1))
        disk.make_folder(FOLDER)
        self.config = LogConfig()
        self.resources = Resources(disk, HandClock(), random.Random(2))

    def segment(self, base_offset: int) -> Segment:
        return Segment.create(self.resources, FOLDER, base_offset, self.config)

    def log(self, *bases: int, start: int, recovery_point: int, end: int) -> Log:
        return Log(
            self.resources,
            FOLDER,
            self.config,
            [self.segment(base) for base in bases],
            LeaderEpochs(),
            ProducerStates(),
            log_start_offset=start,
            log_end_offset=end,
            recovery_point=recovery_point,
            lower_offsets=lambda folder, **_: lambda: None,
            durable=True,
        )


class TestOpening:
    def test_the_parts_of_a_log_fit_together(self):
        log = Parts().log(10, 20, start=15, recovery_point=20, end=20)
        assert (log.log_start_offset, log.log_end_offset) == (15, 20)

    @pytest.mark.parametrize(
        ("start", "recovery_point", "end"),
        [
            pytest.param(9, 20, 20, id="start below the first segment"),
            pytest.param(21, 20, 20, id="start above the end"),
            pytest.param(15, 21, 20, id="recovery point above the end"),
            pytest.param(15, 15, 19, id="end below the last segment"),
        ],
    )
    def test_a_log_is_not_opened_with_parts_that_do_not_fit(self, start, recovery_point, end):
        with pytest.raises(InvariantViolated, match=f"end {end}"):
            Parts().log(10, 20, start=start, recovery_point=recovery_point, end=end)

    def test_a_log_without_segments_is_not_opened(self):
        with pytest.raises(InvariantViolated, match="a log has a segment"):
            Parts().log(start=0, recovery_point=0, end=0)


class TestSegments:
    @pytest.mark.parametrize("bases", [(0, 20, 10), (0, 10, 10)])
    def test_segments_are_loaded_in_order(self, bases):
        parts = Parts()
        with pytest.raises(InvariantViolated, match="not in order"):
            Segments([parts.segment(base) for base in bases])

    @pytest.mark.parametrize("base", [0, 10])
    def test_a_new_segment_starts_above_all_others(self, base):
        parts = Parts()
        segments = Segments([parts.segment(0), parts.segment(10)])
        with pytest.raises(InvariantViolated, match="starts above"):
            segments.add(parts.segment(base))
        assert segments.base_offsets == [0, 10]

    @pytest.mark.parametrize(
        ("replaced", "base"),
        [
            pytest.param([0, 2], 0, id="not neighbours"),
            pytest.param([0, 1], 5, id="another base offset"),
            pytest.param([2, 3], 20, id="the active segment"),
        ],
    )
    def test_compaction_replaces_closed_neighbours_only(self, replaced, base):
        parts = Parts()
        segments = Segments([parts.segment(start) for start in (0, 10, 20, 30)])
        with pytest.raises(InvariantViolated, match="does not replace"):
            segments.replace([segments.all[number] for number in replaced], parts.segment(base))
        assert segments.base_offsets == [0, 10, 20, 30]


def test_a_segment_is_not_truncated_below_its_base_offset():
    segment = Parts().segment(10)
    batch = make_batch([b"v"] * 5, base_offset=8)
    segment.write([batch])
    segment.account(len(batch), 8, 12, 0)
    with pytest.raises(InvariantViolated, match="has offset 8"):
        segment.truncate_to(11)
    assert segment.size == len(batch) == segment.handle().size()


class TestProducers:
    def opened(self, producer_id: int, offset: int, producers: ProducerStates) -> None:
        batch = make_batch(producer=(producer_id, 0, 0), transactional=True)
        producers.apply(parse_header(batch), offset)

    def closed(self, producer_id: int, offset: int, producers: ProducerStates) -> None:
        marker = EndTransactionMarker(aborted=False, coordinator_epoch=0)
        batch = end_transaction_batch(marker, producer_id, 0, 0, base_offset=offset)
        producers.replay(parse_header(batch), batch)

    def test_transactions_open_in_the_order_of_their_offsets(self):
        producers = ProducerStates()
        self.opened(1, 10, producers)
        with pytest.raises(InvariantViolated, match="at 9 is out of order"):
            self.opened(2, 9, producers)
        assert producers.first_unstable_offset == 10

    def test_markers_come_in_the_order_of_their_offsets(self):
        producers = ProducerStates()
        self.opened(1, 10, producers)
        self.opened(2, 11, producers)
        self.closed(1, 13, producers)
        with pytest.raises(InvariantViolated, match="at 12 is out of order"):
            self.closed(2, 12, producers)
        assert producers.get(2).transaction_first_offset == 11
