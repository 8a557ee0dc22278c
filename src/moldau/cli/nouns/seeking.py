"""What `moldau group seek` is told: one position for all partitions, or a file of offsets.

Owns the notation and the refusals; `operations/offset_reset.py` works out the plan.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from moldau.base.clock import SystemClock
from moldau.base.errors import UserError
from moldau.cli.frame import client
from moldau.cli.frame.failures import reason_of
from moldau.cli.frame.offset_words import parse_position
from moldau.cli.frame.selection import chosen_partitions
from moldau.cli.operations.offset_reset import (
    Move,
    activities_of,
    committed_offsets,
    plan_reset,
)
from moldau.cli.operations.positions import Position, PositionKind
from moldau.client.records import TopicPartition

FROM_CURRENT = (PositionKind.CURRENT, PositionKind.SHIFT)


@dataclass(frozen=True, slots=True)
class SeekTo:
    """One position for all partitions, or an offset for each."""

    position: Position | None
    offsets: Mapping[TopicPartition, Position]

    @classmethod
    def read(cls, word: str | None, file: Path | None) -> Self:
        """Read what the user gave, which must be one of both."""
        if (word is None) == (file is None):
            raise UserError("use one of --to POSITION and --to-file FILE")
        if file is not None:
            return cls(None, read_offsets(file))
        assert word is not None
        return cls(parse_position(word, SystemClock().wall_ms()), {})

    def positions(
        self, partitions: Sequence[TopicPartition], *, named: bool
    ) -> Mapping[TopicPartition, Position]:
        """Return the position of each partition; a file names its own unless the user did."""
        if self.position is not None:
            return dict.fromkeys(partitions, self.position)
        if not named:
            return self.offsets
        return {one: self.offsets[one] for one in partitions if one in self.offsets}


def read_offsets(file: Path) -> dict[TopicPartition, Position]:
    """Read lines of topic,partition,offset.

    A first line with these names may say where they stand among other columns; without one they
    stand in this order, as Kafka's tool has them.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {file}: {reason_of(error)}") from error
    lines = [line for line in csv.reader(text.splitlines()) if line]
    names = ["topic", "partition", "offset"]
    places = [0, 1, 2]
    if lines and set(names) <= set(lines[0]):
        places = [lines[0].index(name) for name in names]
        del lines[0]
    found = {}
    for line in lines:
        values = [line[place].strip() if place < len(line) else "" for place in places]
        if not values[0] or not (values[1].isdecimal() and values[2].isdecimal()):
            raise UserError(f"{file}: {','.join(line)!r} is not topic,partition,offset")
        partition = TopicPartition(values[0], int(values[1]))
        found[partition] = Position(PositionKind.OFFSET, int(values[2]))
    if not found:
        raise UserError(f"{file} has no offsets")
    return found


async def seek_plan(
    admin: client.AsyncAdmin, group: str, to: SeekTo, topics: Sequence[str]
) -> dict[TopicPartition, Move]:
    """Find out what changes; UserError if the group has members or nothing is meant."""
    activity = (await activities_of(admin, [group]))[group]
    if not activity.is_resettable:
        raise UserError(
            f"group {group!r} is {activity.state} with {activity.member_count} members:"
            " stop its consumers first"
        )
    committed = await committed_offsets(admin, group)
    wanted = await chosen_partitions(admin, topics) if topics else None
    positions = to.positions(sorted(committed) if wanted is None else wanted, named=bool(topics))
    if not positions:
        raise UserError(f"group {group!r} has no committed offsets: name its topics with --topic")
    plan = await plan_reset(admin, committed, positions)
    for partition, move in plan.items():
        if move.asked is None and to.position is not None and to.position.kind in FROM_CURRENT:
            raise UserError(f"{partition} has no committed offset to start from")
    return plan
