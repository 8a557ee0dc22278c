"""From where to where records are read, partition by partition.

    start, end      the ends of a partition
    42              an offset
    +5              five after the start
    -5              five before the end
    @TIME, 90m      the first record at or after a time

Ends are exclusive. What lies beyond the ends of a partition means its ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from moldau.base.clock import Clock, SystemClock
from moldau.base.errors import UserError
from moldau.cli.frame.offset_words import parse_position
from moldau.cli.operations.positions import Ends, Position, PositionKind, target_of
from moldau.client.consumer import Consumer
from moldau.client.errors import ClientError
from moldau.client.records import TopicPartition

METADATA_AGE_MS: Final = 10_000
"""How late a new partition is noticed. A request every ten seconds costs a broker nothing, and five
minutes, a client's usual age, are longer than somebody watches a terminal."""
PERIOD_S: Final = 1.0
"""How often to look at what the consumer knows: that is no request."""
LOOKUP_MS: Final = 1_000
"""How long the first offset of a partition may take: a new one may have no leader yet."""


class Reach(NamedTuple):
    """Where to begin and, if anywhere, where to stop."""

    begin: Position
    until: Position | None = None


class Stretch(NamedTuple):
    """What is to be read of one partition."""

    begin: int
    end: int | None
    """None goes on for ever."""


def parse_place(text: str, option: str, now_ms: int) -> Position:
    """Read a place; UserError where it is none that stands for itself."""
    word = parse_position(text, now_ms, known="start, end")
    if word.kind is PositionKind.CURRENT:
        raise UserError(
            f"{option} {text}: only a group has a current position; leave the option out to"
            " continue there"
        )
    return word


def stretches(
    consumer: Consumer[Any, Any], partitions: Iterable[TopicPartition], reach: Reach
) -> dict[TopicPartition, Stretch]:
    """Look up what places mean."""
    wanted = list(partitions)
    earliest = consumer.beginning_offsets(wanted)
    latest = consumer.end_offsets(wanted)
    ends = {one: Ends(earliest[one], latest[one]) for one in wanted}
    begins = _offsets(consumer, reach.begin, ends)
    if reach.until is None:
        return {one: Stretch(begins[one], None) for one in wanted}
    untils = _offsets(consumer, reach.until, ends)
    return {one: Stretch(begins[one], untils[one]) for one in wanted}


def _offsets(
    consumer: Consumer[Any, Any], position: Position, ends: Mapping[TopicPartition, Ends]
) -> dict[TopicPartition, int]:
    at_times = (
        consumer.offsets_for_times(dict.fromkeys(ends, position.value))
        if position.kind is PositionKind.TIME
        else {}
    )
    found = {}
    for partition, both in ends.items():
        at = at_times.get(partition)
        found[partition] = target_of(
            position,
            both,
            base=both.earliest if position.value >= 0 else both.latest,
            at_time=None if at is None else at.offset,
        ).offset
    return found


class Newcomers:
    """Looks for partitions that are added to topics while these are read without a group.

    All their records came after the reading began, so they are read from the first one on.
    """

    def __init__(
        self,
        consumer: Consumer[Any, Any],
        topics: Collection[str],
        known: Collection[TopicPartition],
        clock: Clock | None = None,
    ) -> None:
        self._consumer = consumer
        self._topics = frozenset(topics)
        self._known = set(known)
        self._clock = clock or SystemClock()
        self._next = self._clock.monotonic() + PERIOD_S

    def look(self) -> dict[TopicPartition, Stretch]:
        """Return what is new, each once, and where it begins; nothing if it is not time to look."""
        now = self._clock.monotonic()
        if now < self._next:
            return {}
        self._next = now + PERIOD_S
        try:
            found = [self._consumer.partitions_for(topic, timeout_ms=0) for topic in self._topics]
            added = frozenset[TopicPartition]().union(*found) - self._known
            if not added:
                return {}
            begins = self._consumer.beginning_offsets(added, timeout_ms=LOOKUP_MS)
        except ClientError:
            # A topic is being deleted, or a partition has no leader: the next look tells more.
            return {}
        self._known |= added
        return {one: Stretch(begins[one], None) for one in sorted(added)}
