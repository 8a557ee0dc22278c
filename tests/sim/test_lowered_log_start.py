"""A truncation below the log start, ended at every crash point by a kill and by a power cut.

An admin has deleted the records below 7, and a checkpoint says so. Then the log is truncated below
7, and new records are appended there and flushed. They must be there after any crash from then on.
A crash before may leave the old log, the truncated one, or an empty one.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kits.log_kit import Broker, append_values, read_all
from moldau.sim.crashes import Crashed, CrashPlan
from moldau.sim.disk import SimDisk
from moldau.storage.log import Log
from moldau.storage.topic_config import LogConfig

OLD = [b"old %d" % number for number in range(10)]
NEW = [b"new 0", b"new 1", b"new 2"]

TRUNCATIONS = {
    "restart at 2": (2, lambda log: log.truncate_fully_and_start_at(2)),
    "truncate to 5": (5, lambda log: log.truncate_to(5)),
    "truncate to 0": (0, lambda log: log.truncate_to(0)),
}
SEGMENT_BYTES = {"one segment": 10_000, "many segments": 200}
RESTARTS = {"kill": Broker.kill, "power cut": Broker.cut_power}


class Run:
    """The scenario, and how far it came."""

    def __init__(self, start: int, truncate: Callable[[Log], object], segment_bytes: int) -> None:
        self.start = start
        self.truncate = truncate
        self.broker = Broker(SimDisk(random.Random(1)), LogConfig(segment_bytes=segment_bytes))
        self.is_flushed = False
        log = self.broker.log()
        for value in OLD:
            append_values(log, value)
        self.broker.flush(log)
        log.delete_records_before(7)
        self.broker.checkpoint()

    def lower(self) -> None:
        log = self.broker.log()
        self.truncate(log)
        for value in NEW:
            append_values(log, value, epoch=1)
        self.broker.flush(log)
        self.is_flushed = True

    def everything(self) -> None:
        self.lower()
        self.broker.checkpoint()
        append_values(self.broker.log(), b"not flushed", epoch=1)

    def check(self, broker: Broker) -> None:
        log = broker.log()
        values = [record.value for record in read_all(log)]
        if self.is_flushed:
            assert log.log_start_offset == self.start
            assert values[: len(NEW)] == NEW
        elif log.log_start_offset == 7:
            assert values == OLD[7 : 7 + len(values)]
        elif values:
            # Without a sync of the cut, a power cut may bring the old bytes back.
            assert log.log_start_offset == self.start
            expected = (NEW, OLD[self.start :])
            assert values in [one[: len(values)] for one in expected]


def passed_points(*scenario: object) -> list[tuple[str, int]]:
    run = Run(*scenario)
    with CrashPlan() as plan:
        run.everything()
    return [(name, hit) for name, count in plan.passed.items() for hit in range(1, count + 1)]


@pytest.mark.parametrize("restart", RESTARTS.values(), ids=RESTARTS)
@pytest.mark.parametrize("segment_bytes", SEGMENT_BYTES.values(), ids=SEGMENT_BYTES)
@pytest.mark.parametrize(("start", "truncate"), TRUNCATIONS.values(), ids=TRUNCATIONS)
class TestALoweredLogStart:
    def test_flushed_records_below_the_old_start_survive(
        self, start, truncate, segment_bytes, restart
    ):
        run = Run(start, truncate, segment_bytes)
        run.lower()
        run.check(restart(run.broker))

    def test_every_crash_point(self, start, truncate, segment_bytes, restart):
        points = passed_points(start, truncate, segment_bytes)
        assert ("log.truncate.before_log_start", 1) in points
        for name, hit in points:
            run = Run(start, truncate, segment_bytes)
            with CrashPlan(name, hit=hit), pytest.raises(Crashed):
                run.everything()
            broker = restart(run.broker)
            run.check(broker)
            self.check_goes_on(broker)

    def check_goes_on(self, broker: Broker) -> None:
        """The truncation can be done again, by a follower that asks its leader once more."""
        log = broker.log()
        log.truncate_fully_and_start_at(1)
        append_values(log, b"again", epoch=2)
        broker.flush(log)
        log = broker.kill().log()
        assert log.log_start_offset == 1
        assert [record.value for record in read_all(log)] == [b"again"]


def test_a_checkpoint_from_before_the_truncation_does_not_raise_the_start_again():
    run = Run(*TRUNCATIONS["truncate to 5"], SEGMENT_BYTES["one segment"])
    (write,) = run.broker.manager.prepare_checkpoints({})
    run.lower()
    write()
    run.check(run.broker.kill())


def test_a_start_that_was_never_flushed_is_lowered_too():
    """The recovery point is at 0 then, and stays there."""
    broker = Broker()
    log = broker.log()
    for value in OLD:
        append_values(log, value)
    log.delete_records_before(7)
    broker.checkpoint()
    log.truncate_to(5)
    append_values(log, b"new")
    broker.flush(log)
    log = broker.kill().log()
    assert [(record.offset, record.value) for record in read_all(log)] == [(5, b"new")]
