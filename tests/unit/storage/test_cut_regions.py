"""Regions of a log that is truncated while they wait to be sent."""

from __future__ import annotations

import errno

import pytest

from kits.log_kit import Broker, append_values, make_batch, region_bytes
from moldau.base.errors import DiskFull
from moldau.base.files import check_intact
from moldau.sim.disk_faults import Operation

BYTES = 1 << 20


@pytest.fixture
def log():
    log = Broker().log()
    for value in (b"0", b"1", b"2"):
        append_values(log, value)
    return log


def regions(log, offset, end_offset=None):
    return log.read(offset, BYTES, end_offset or log.log_end_offset).regions


def test_a_region_that_reaches_into_what_is_cut_is_not_sent(log):
    (region,) = regions(log, 0)
    log.truncate_to(2)
    with pytest.raises(OSError, match="was cut"):
        check_intact(region)
    append_values(log, b"other", epoch=1)
    with pytest.raises(OSError, match="was cut"):
        check_intact(region)


def test_a_region_before_the_cut_is_sent(log):
    before = log.read(0, BYTES, 2)
    content = region_bytes(before)
    log.truncate_to(2)
    append_values(log, b"other", epoch=1)
    check_intact(before.regions[0])
    assert region_bytes(before) == content


def test_what_is_appended_after_the_cut_is_sent(log):
    log.truncate_to(1)
    append_values(log, b"other", epoch=1)
    (region,) = regions(log, 0)
    check_intact(region)
    assert len(region_bytes(log.read(0, BYTES, 2))) == region.size


def test_a_segment_that_is_dropped_whole_keeps_its_bytes_for_who_sends_them(log):
    content = region_bytes(log.read(0, BYTES, 3))
    read = log.read(0, BYTES, 3)
    log.truncate_fully_and_start_at(0)
    log.append_as_follower(make_batch([b"other"], leader_epoch=1))
    check_intact(read.regions[0])
    assert region_bytes(read) == content


def test_an_append_that_is_taken_back_leaves_regions_alone():
    broker = Broker()
    log = broker.log()
    append_values(log, b"0")
    (region,) = regions(log, 0)
    broker.sim().faults.fail(Operation.APPEND, log.folder, code=errno.ENOSPC, times=1)
    with pytest.raises(DiskFull):
        append_values(log, b"1")
    append_values(log, b"1")
    check_intact(region)
    check_intact(regions(log, 1)[0])
