from __future__ import annotations

from typing import NamedTuple

import pytest

from kits.log_kit import FOLDER, NOW_MS, Broker, append, read_all, sized_batch
from moldau.storage.retention import expired_count
from moldau.storage.topic_config import LogConfig

HOUR_MS = 3_600_000


class Piece(NamedTuple):
    base_offset: int
    size: int = 1000
    time_ms: int = NOW_MS

    def newest_ms(self) -> int:
        return self.time_ms


def count(pieces, *, start=0, end=None, high_watermark=None, **config) -> int:
    last = pieces[-1].base_offset + 10 if end is None else end
    settings = {"retention_ms": -1, "retention_bytes": -1} | config
    return expired_count(
        pieces,
        LogConfig(**settings),
        NOW_MS,
        log_start_offset=start,
        high_watermark=last if high_watermark is None else high_watermark,
        log_end_offset=last,
    )


FOUR = [Piece(0), Piece(10), Piece(20), Piece(30)]
AGED = [Piece(n * 10, time_ms=NOW_MS - (4 - n) * HOUR_MS) for n in range(4)]


class TestBySize:
    @pytest.mark.parametrize(
        ("retention_bytes", "gone"), [(4000, 0), (3001, 0), (3000, 1), (2500, 1), (2000, 2), (0, 4)]
    )
    def test_the_rest_never_falls_below_the_limit(self, retention_bytes, gone):
        assert count(FOUR, retention_bytes=retention_bytes) == gone

    def test_without_a_limit_nothing_goes(self):
        assert count(FOUR) == 0


class TestByAge:
    @pytest.mark.parametrize(("hours", "gone"), [(5, 0), (4, 0), (3, 1), (2, 2), (0.5, 4)])
    def test_a_segment_goes_when_its_newest_record_is_older(self, hours, gone):
        assert count(AGED, retention_ms=int(hours * HOUR_MS)) == gone

    def test_a_young_segment_shields_older_looking_ones_behind_it(self):
        mixed = [Piece(0), Piece(10, time_ms=0), Piece(20)]
        assert count(mixed, retention_ms=HOUR_MS) == 0

    def test_whichever_limit_is_met_first_counts(self):
        assert count(AGED, retention_ms=3 * HOUR_MS, retention_bytes=2000) == 2
        assert count(AGED, retention_ms=2 * HOUR_MS, retention_bytes=3500) == 2


class TestWhatStays:
    def test_nothing_that_reaches_above_the_high_watermark(self):
        assert count(FOUR, retention_bytes=0, high_watermark=19) == 1

    def test_an_empty_last_segment(self):
        assert count([Piece(0), Piece(10, size=0)], end=10, retention_bytes=0) == 1
        assert count([Piece(0, size=0)], end=0, retention_ms=0, retention_bytes=0) == 0

    def test_everything_with_the_compact_policy(self):
        assert count(AGED, retention_ms=1, cleanup_policy=frozenset({"compact"})) == 0


class TestByLogStart:
    @pytest.mark.parametrize("policy", ["delete", "compact"])
    def test_segments_wholly_below_it_go_whatever_the_policy(self, policy):
        assert count(FOUR, start=25, cleanup_policy=frozenset({policy})) == 2

    def test_the_last_segment_stays_even_when_all_is_deleted(self):
        assert count(FOUR, start=40) == 3


class TestExample:
    """`segment.bytes=1000`, `retention.bytes=2000`, `retention.ms=60000`."""

    CONFIG = LogConfig(segment_bytes=1000, retention_bytes=2000, retention_ms=60_000)

    def test_segments_appear_every_1000_bytes_and_one_may_reach_exactly_1000(self):
        log = Broker(config=self.CONFIG).log()
        for _ in range(20):
            append(log, sized_batch(250))
        assert [segment.size for segment in log.segments] == [1000] * 5

    def test_by_size_the_oldest_vanish_after_the_next_check_but_never_below_2000(self):
        broker = Broker(config=self.CONFIG)
        log = broker.log()
        for _ in range(18):
            append(log, sized_batch(250))
        assert log.size == 4500
        assert log.retain(NOW_MS, log.log_end_offset) == 2
        assert log.size == 2500
        assert log.log_start_offset == 8
        assert log.retain(NOW_MS, log.log_end_offset) == 0
        assert [record.offset for record in read_all(log)] == list(range(8, 18))

    def test_by_age_all_vanish_and_the_log_goes_on(self):
        broker = Broker(config=self.CONFIG)
        log = broker.log()
        for _ in range(6):
            append(log, sized_batch(250))
        assert log.retain(NOW_MS + 60_000, log.log_end_offset) == 0
        assert log.retain(NOW_MS + 60_001, log.log_end_offset) == 2
        assert (log.log_start_offset, log.log_end_offset, log.size) == (6, 6, 0)
        assert append(log, sized_batch(250)).base_offset == 6

    def test_files_are_renamed_first_and_removed_after_the_delay(self):
        broker = Broker(config=self.CONFIG)
        log = broker.log()
        for _ in range(18):
            append(log, sized_batch(250))
        log.retain(NOW_MS, log.log_end_offset)
        gone = "00000000000000000000.log"
        assert f"{gone}.deleted" in broker.disk.names(FOLDER)
        assert gone not in broker.disk.names(FOLDER)
        assert broker.remove_expired(NOW_MS + 59_999) == 0
        assert broker.remove_expired(NOW_MS + 60_000) > 0
        assert not [name for name in broker.disk.names(FOLDER) if name.endswith(".deleted")]

    def test_a_reader_in_a_removed_segment_reads_on(self):
        broker = Broker(config=self.CONFIG)
        log = broker.log()
        for _ in range(18):
            append(log, sized_batch(250))
        region = log.read(0, 1 << 20, 18).regions[0]
        log.retain(NOW_MS, log.log_end_offset)
        broker.remove_expired(NOW_MS + 60_000)
        assert len(region.file.read(region.position, region.size)) == 1000

    def test_another_small_size_is_legal_too(self):
        log = Broker(config=LogConfig(segment_bytes=107_370)).log()
        for _ in range(4):
            append(log, sized_batch(50_000))
        assert [segment.size for segment in log.segments] == [100_000, 100_000]
