"""The look-up examples that must come out exactly."""

from __future__ import annotations

from struct import pack

import pytest

from kits.log_kit import FOLDER, Broker, append, make_batch
from moldau.storage.indexes import OffsetIndex
from moldau.storage.log import Log
from moldau.storage.topic_config import LogConfig


def test_entry_2487_49111_is_where_the_search_for_offset_2490_starts():
    content = pack(">8i", 1120, 21004, 1733, 33982, 2487, 49111, 3190, 62711)
    index = OffsetIndex.decode(0, content, log_size=80_000)
    assert index.floor(2490) == (2487, 49111)


def test_relative_entries_of_segment_170410():
    index = OffsetIndex.decode(170_410, pack(">4i", 3, 348, 8, 1325), log_size=2000)
    assert index[0] == (170_413, 348)
    assert index[1] == (170_418, 1325)
    assert index.floor(170_418) == (170_418, 1325)


def log_with_segments(*base_offsets: int) -> Log:
    """Make a log whose segments begin here; each has a batch at its start and one at its end."""
    log = Broker().log()
    log.append_as_follower(make_batch(base_offset=base_offsets[0]))
    for base_offset in base_offsets[1:]:
        log.append_as_follower(make_batch(base_offset=base_offset - 1))
        log.roll()
        log.append_as_follower(make_batch(base_offset=base_offset))
    assert [segment.base_offset for segment in log.segments] == list(base_offsets)
    return log


@pytest.mark.parametrize(
    ("offset", "base_offset"),
    [(170_409, 0), (170_410, 170_410), (170_418, 170_410), (239_429, 170_410), (239_430, 239_430)],
)
def test_offset_170418_lies_in_the_second_of_segments_0_170410_239430(offset, base_offset):
    log = log_with_segments(0, 170_410, 239_430)
    assert log.read(offset, 1 << 20, log.log_end_offset).segment_base_offset == base_offset


def test_of_segments_0_5367851_9936472_the_first_holds_up_to_5367850():
    log = log_with_segments(0, 5_367_851, 9_936_472)
    end_offset = log.log_end_offset
    assert log.read(5_367_850, 1 << 20, end_offset).segment_base_offset == 0
    assert log.read(5_367_851, 1 << 20, end_offset).segment_base_offset == 5_367_851


def test_after_last_offset_5376_the_next_file_is_named_5377():
    broker = Broker(config=LogConfig(segment_bytes=200))
    log = broker.log()
    log.truncate_fully_and_start_at(5372)
    append(log, make_batch([b"x"] * 5))
    assert log.log_end_offset == 5377
    append(log, make_batch([b"x" * 100]))
    assert "00000000000000005377.log" in broker.disk.names(FOLDER)
