"""An end of a log that was replaced does not come back below what was written behind it.

A power cut keeps some of what was not synced and loses the rest, in no order. It may undo that an
end was cut off, and with it the batches that took its place, and keep the next segment. Then the
batches of one leader would be followed by those of another one that never had them.
"""

from __future__ import annotations

import random

import pytest

from kits.log_kit import Broker, append, make_batch, stored_batches
from moldau.sim.disk import SimDisk
from moldau.storage.topic_config import LogConfig

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100)
SEEDS = range(60)


def _write(log, epoch, count, size):
    for number in range(count):
        append(log, make_batch([b"%d" % number + b"." * size]), epoch)


def _history(log):
    return [(batch.base_offset, batch.leader_epoch) for batch in stored_batches(log)]


def _after_power_cut(broker):
    return _history(broker.cut_power().log())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_truncated_end_does_not_come_back(seed):
    broker = Broker(SimDisk(random.Random(seed)), CONFIG)
    log = broker.log()
    _write(log, 1, 3, 40)
    broker.flush(log)
    _write(log, 2, 1, 90)
    first = _history(log)
    log.truncate_to(3)
    _write(log, 3, 5, 40)
    second = _history(log)
    found = _after_power_cut(broker)
    assert found in (first, *(second[:count] for count in range(3, len(second) + 1)))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_end_that_recovery_has_cut_off_does_not_come_back(seed):
    """Segments behind a damaged batch are set aside; what replaces the batch may end as it did."""
    broker = Broker(SimDisk(random.Random(seed)), CONFIG)
    log = broker.log()
    _write(log, 1, 3, 40)
    broker.flush(log)
    _write(log, 2, 8, 40)
    rotten = next(batch for batch in stored_batches(log) if batch.base_offset == 3)
    holder = next(one for one in log.segments if one.batch_holding(3) is not None)
    broker.sim().flip_bit(holder.path, rotten.end_position - 1)
    broker = broker.kill()
    log = broker.log()
    assert log.log_end_offset == 3
    _write(log, 3, 8, 40)
    second = _history(log)
    found = _after_power_cut(broker)
    assert found in [second[:count] for count in range(3, len(second) + 1)]
