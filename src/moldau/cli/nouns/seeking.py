"""Where `moldau group seek` takes a group: the plan, before anything is changed."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from moldau.base.clock import SystemClock
from moldau.base.errors import UserError
from moldau.cli.frame import client
from moldau.cli.frame.failures import reason_of
from moldau.cli.frame.offset_words import OffsetWord, Place, parse_offset_word
from moldau.cli.frame.offsets import resolve
from moldau.cli.frame.selection import chosen_partitions
from moldau.client.records import TopicPartition

AT_REST = frozenset({"Empty", "Dead"})
"""The states in which a group has no members that commit for themselves."""


class Move(NamedTuple):
    """Where a group is in a partition, and where it will be."""

    current: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class SeekTo:
    """One place for all partitions, or an offset for each."""

    word: OffsetWord | None
    offsets: Mapping[TopicPartition, OffsetWord]

    @classmethod
    def read(cls, word: str | None, file: Path | None) -> Self:
        """Take what the user gave: exactly one of both."""
        if (word is None) == (file is None):
            raise UserError("say where to: --to PLACE or --to-file FILE")
        if file is not None:
            return cls(None, read_offsets(file))
        assert word is not None
        return cls(parse_offset_word(word, SystemClock().wall_ms()), {})


def read_offsets(file: Path) -> dict[TopicPartition, OffsetWord]:
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
        found[partition] = OffsetWord(Place.OFFSET, int(values[2]))
    if not found:
        raise UserError(f"{file} names no offsets")
    return found


async def seek_plan(
    admin: client.AsyncAdmin, group: str, to: SeekTo, topics: Sequence[str]
) -> dict[TopicPartition, Move]:
    """Find out what changes; UserError if the group has members or nothing is meant."""
    await _check_at_rest(admin, group)
    committed = {
        partition: one.offset for partition, one in (await admin.list_group_offsets(group)).items()
    }
    wanted = await chosen_partitions(admin, topics) if topics else None
    words: Mapping[TopicPartition, OffsetWord] = to.offsets
    if to.word is not None:
        words = dict.fromkeys(sorted(committed) if wanted is None else wanted, to.word)
    elif wanted is not None:
        words = {partition: to.offsets[partition] for partition in wanted if partition in words}
    if not words:
        raise UserError(
            f"group {group!r} has committed no offsets: say which topics are meant with --topic"
        )
    targets = await resolve(admin, words, committed)
    return {one: Move(committed.get(one), offset) for one, offset in targets.items()}


async def _check_at_rest(admin: client.AsyncAdmin, group: str) -> None:
    try:
        described = await admin.describe_group(group)
    except client.GroupIdNotFound:
        return  # it comes into being with its offsets
    if described.state not in AT_REST:
        raise UserError(
            f"group {group!r} is {described.state} with {len(described.members)} members,"
            " which commit for themselves. Stop its consumers first."
        )
