"""Where two cleaned segments meet: nothing is missing there that recovery could take for lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from kits.compaction_kit import COMPACTED, clean, pairs, roll_and_clean, write
from kits.log_kit import KEY, Broker, stored_batches


@pytest.fixture
def broker() -> Broker:
    return Broker(config=COMPACTED)


def cleaned(broker: Broker):
    """Of many segments, which do not fit into one, nothing is left but the newest record."""
    log = broker.log()
    for _ in range(40):
        write(log, (b"k", b"v" * 100))
    log.roll()
    count = len(log.segments)
    clean(broker)
    assert 3 < len(log.segments) <= count
    return log


def test_no_cleaning_leaves_a_gap_between_two_segments(broker):
    log = cleaned(broker)
    for before, after in pairwise(log.segments):
        *_, last = before.batches()
        assert last.last_offset + 1 == after.base_offset


def test_what_keeps_the_border_is_one_empty_batch(broker):
    log = cleaned(broker)
    batches = stored_batches(log)
    assert [batch.header.count for batch in batches] == [0] * (len(log.segments) - 2) + [1]
    write(log, (b"k", b"new"))
    roll_and_clean(broker)
    assert len(log.segments) == 3
    assert [batch.header.count for batch in stored_batches(log)] == [0, 1]


@pytest.mark.parametrize("lost", [("recovery-point", "cleaner"), ("recovery-point",)])
def test_another_policy_and_a_crash_lose_nothing(broker, lost):
    log = cleaned(broker)
    write(log, (b"other", b"v"))
    before = pairs(log)
    disk = broker.sim().kill()
    for name in lost:
        disk.remove(f"/data/{name}-offset-checkpoint")
    deleting = replace(COMPACTED, cleanup_policy=frozenset({"delete"}))
    again = Broker(disk, deleting, clock=broker.clock)
    assert again.reports[KEY].removed_segments == 0
    assert again.log().log_end_offset == 41
    assert pairs(again.log()) == before
