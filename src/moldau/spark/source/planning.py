"""From where to where each partition is read, and by which tasks.

What a stream has to say about partitions that came, went or shrank between two of its offsets is
decided here; how much is read at a time, in `ranges`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.client.records import TopicPartition
from moldau.spark.source.lookup import Lookup
from moldau.spark.source.loss import report_loss
from moldau.spark.source.offsets import StreamOffset
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.ranges import OffsetRange, divided, later
from moldau.spark.source.tasks import RangePartition


def tasks_of(
    ranges: Iterable[OffsetRange], ids: Mapping[str, str], options: SourceOptions
) -> list[RangePartition]:
    """Make the tasks that read these ranges, divided as the options say."""
    parts = divided(
        ranges, most=options.max_records_per_partition, least_count=options.min_partitions
    )
    return [
        RangePartition(each.partition, ids.get(each.partition.topic, ""), each.start, each.end)
        for each in parts
    ]


def places_of(start: StreamOffset, end: StreamOffset, lookup: Lookup) -> dict[TopicPartition, int]:
    """Return where each partition of the end is read from.

    A partition that was not there before, or whose topic has been made anew, is read from its
    first record on.
    """
    anew = _made_anew(start, end)
    places = {
        one: start.positions[one]
        for one in end.positions
        if one in start.positions and one.topic not in anew
    }
    others = end.positions.keys() - places.keys()
    return places | lookup.earliest(others) if others else places


def stream_ranges(
    start: StreamOffset, end: StreamOffset, lookup: Lookup, *, fail: bool
) -> list[OffsetRange]:
    """Return what is read between two offsets; what cannot be any more is reported as lost."""
    anew = _made_anew(start, end)
    for topic in sorted(anew):
        report_loss(f"topic {topic!r} was deleted and created again", fail=fail)
    for gone in sorted(start.positions.keys() - end.positions.keys()):
        report_loss(f"{gone} is gone", fail=fail)
    places = places_of(start, end, lookup)
    for one in sorted(places.keys() - start.positions.keys()):
        if places[one] > 0 and one.topic not in anew:
            report_loss(f"{one} is new and begins at offset {places[one]}, not at 0", fail=fail)
    for one in later(places, end.positions):
        if one.topic not in anew:
            report_loss(
                f"{one} ends at offset {end.positions[one]}, before {places[one]}, up to which it"
                " was read: its log was cut off",
                fail=fail,
            )
    return [OffsetRange(one, places[one], end.positions[one]) for one in sorted(places)]


def _made_anew(start: StreamOffset, end: StreamOffset) -> set[str]:
    """Return the topics whose ids have changed; of those without an id nobody can tell."""
    return {topic for topic, id_ in start.ids.items() if topic in end.ids and end.ids[topic] != id_}
