"""Positions in partitions become offsets within their ends."""

from __future__ import annotations

import pytest

from moldau.cli.operations.positions import Ends, Position, PositionKind, Target, target_of

ENDS = Ends(10, 20)


@pytest.mark.parametrize(
    ("position", "base", "at_time", "target"),
    [
        (Position(PositionKind.EARLIEST), None, None, Target(10, 10)),
        (Position(PositionKind.LATEST), None, None, Target(20, 20)),
        (Position(PositionKind.OFFSET, 15), None, None, Target(15, 15)),
        (Position(PositionKind.OFFSET, 3), None, None, Target(3, 10)),
        (Position(PositionKind.OFFSET, 99), None, None, Target(99, 20)),
        (Position(PositionKind.CURRENT), 12, None, Target(12, 12)),
        (Position(PositionKind.CURRENT), None, None, Target(None, 20)),
        (Position(PositionKind.SHIFT, -5), 12, None, Target(7, 10)),
        (Position(PositionKind.SHIFT, 3), 12, None, Target(15, 15)),
        (Position(PositionKind.SHIFT, 3), None, None, Target(None, 20)),
        (Position(PositionKind.TIME, 1_000), None, 14, Target(14, 14)),
        (Position(PositionKind.TIME, 1_000), None, None, Target(None, 20)),
    ],
)
def test_a_position_means_an_offset_within_the_ends(position, base, at_time, target):
    assert target_of(position, ENDS, base=base, at_time=at_time) == target


def test_a_record_that_came_after_the_ends_were_read_keeps_its_offset():
    assert target_of(Position(PositionKind.TIME, 1_000), ENDS, at_time=25) == Target(25, 25)
