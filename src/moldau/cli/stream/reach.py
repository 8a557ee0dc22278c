"""From where to where records are read, partition by partition.

    start, end      the ends of a partition
    42              an offset
    +5              five after the start
    -5              five before the end
    @TIME, 90m      the first record at or after a time

Ends are exclusive. What lies beyond the ends of a partition means its ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from moldau.base.errors import UserError
from moldau.cli.frame.offset_words import OffsetWord, Place, parse_offset_word
from moldau.client.consumer import Consumer
from moldau.client.records import TopicPartition


class Reach(NamedTuple):
    """Where to begin and, if anywhere, where to stop."""

    begin: OffsetWord
    until: OffsetWord | None = None


class Stretch(NamedTuple):
    """What is to be read of one partition."""

    begin: int
    end: int | None
    """None goes on for ever."""


def parse_place(text: str, option: str, now_ms: int) -> OffsetWord:
    """Read a place; UserError where it is none that stands for itself."""
    word = parse_offset_word(text, now_ms, known="start, end")
    if word.place is Place.CURRENT:
        raise UserError(f"{option} {text}: only a group is somewhere; leave it out to go on there")
    return word


def stretches(
    consumer: Consumer[Any, Any], partitions: Iterable[TopicPartition], reach: Reach
) -> dict[TopicPartition, Stretch]:
    """Look up what places mean."""
    wanted = list(partitions)
    earliest = consumer.beginning_offsets(wanted)
    latest = consumer.end_offsets(wanted)
    begins = _resolved(consumer, reach.begin, earliest, latest)
    if reach.until is None:
        return {one: Stretch(begins[one], None) for one in wanted}
    untils = _resolved(consumer, reach.until, earliest, latest)
    return {one: Stretch(begins[one], untils[one]) for one in wanted}


def _resolved(
    consumer: Consumer[Any, Any],
    word: OffsetWord,
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if word.place is Place.TIME:
        found = consumer.offsets_for_times(dict.fromkeys(earliest, word.value))
        return {one: at.offset if at is not None else latest[one] for one, at in found.items()}
    return {
        one: min(max(_meant(word, earliest[one], latest[one]), earliest[one]), latest[one])
        for one in earliest
    }


def _meant(word: OffsetWord, earliest: int, latest: int) -> int:
    match word.place:
        case Place.EARLIEST:
            return earliest
        case Place.LATEST:
            return latest
        case Place.SHIFT:
            return word.value + (earliest if word.value >= 0 else latest)
        case _:
            return word.value
