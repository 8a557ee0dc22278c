"""The lag of a stream, in records and in time.

Spark's progress has no source metrics for Python data sources. But it has the end of the last batch
and the end of the topics when it was planned. `lag_of` computes the lag in records from these,
without a request. `lag_now` asks the brokers. It also reads the first unread record of each
partition to learn how long it has been waiting.

    lag = lag_now(query.lastProgress, options_of_the_stream)
    print(lag.rows, lag.waiting_ms)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from moldau.base.clock import SystemClock
from moldau.base.errors import UserError
from moldau.client.records import TopicPartition
from moldau.spark.source.lookup import Lookup
from moldau.spark.source.offsets import StreamOffset
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.tasks import RangePartition, read_range
from moldau.spark.source.value_options import ValueOptions


class PartitionLag(NamedTuple):
    """The lag of a partition."""

    rows: int
    """Unread offsets; fewer records if transactions or compaction left gaps."""
    waiting_ms: int | None = None
    """The age of the first unread record; 0 if there is none, None if unknown."""


class Lag(NamedTuple):
    """The lag of a query."""

    partitions: Mapping[TopicPartition, PartitionLag]

    @property
    def rows(self) -> int:
        """The sum over all partitions."""
        return sum(one.rows for one in self.partitions.values())

    @property
    def waiting_ms(self) -> int | None:
        """The age of the oldest unread record."""
        known = [one.waiting_ms for one in self.partitions.values() if one.waiting_ms is not None]
        return max(known, default=None)


def lag_of(progress: Mapping[str, Any] | None) -> Lag:
    """Return the lag when the last batch was planned; `progress` is `lastProgress`.

    A partition that is missing from the batch's end is new and unread.
    """
    found: dict[TopicPartition, PartitionLag] = {}
    for source in _sources(progress):
        for one, rows in (rows_behind(source) or {}).items():
            found[one] = PartitionLag(rows)
    return Lag(found)


def rows_behind(source: Mapping[str, Any]) -> dict[TopicPartition, int] | None:
    """Return the lag per partition from the progress of one source.

    None if the progress does not have it, or if the source is not Moldau's.
    """
    end, latest = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    return {one: max(0, at - end.positions.get(one, 0)) for one, at in latest.positions.items()}


def lag_now(progress: Mapping[str, Any] | None, options: Mapping[str, str]) -> Lag:
    """Ask the brokers for the current lag; `options` are those of the stream.

    Costs one request, and one fetch per partition that is behind.
    """
    read = SourceOptions.for_stream(options)
    lookup = Lookup(read)
    found: dict[TopicPartition, PartitionLag] = {}
    for source in _sources(progress):
        end = _offset(source["endOffset"])
        assert end is not None
        own = {one: at for one, at in end.positions.items() if read.subscription.matches(one.topic)}
        for one, latest in lookup.latest(own).items():
            unread = RangePartition(one, end.ids.get(one.topic, ""), own[one], latest)
            found[one] = PartitionLag(max(0, latest - own[one]), _waiting_ms(read, unread))
    return Lag(found)


def _waiting_ms(options: SourceOptions, unread: RangePartition) -> int:
    """Return how old the first record of a range is; records that are gone do not count."""
    if unread.end <= unread.start:
        return 0
    small = options._replace(
        values=ValueOptions(), include_headers=False, fail_on_data_loss=False, fetch_size=1
    )
    reading = read_range(small, unread)
    first = next(reading, None)
    if first is None:
        return 0
    # As a number: Python has no dates from 10000 on, and a time may be too far away for Spark.
    time_us: int | None = first.column("timestamp").cast(pa.int64())[0].as_py()
    return 0 if time_us is None else max(0, SystemClock().wall_ms() - time_us // 1000)


def _sources(progress: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Yield what is told of the sources that are ours and have ended a batch."""
    if progress is None:
        raise UserError("the query has told of no batch yet: its lag is known after the first")
    for source in progress["sources"]:
        if _offset(source.get("endOffset")) is not None:
            yield source


def _offset(told: Any) -> StreamOffset | None:
    """Read an offset as Spark tells it, which is JSON as text; None if it is not one of ours."""
    offset = json.loads(told) if isinstance(told, str) else told
    if not isinstance(offset, Mapping) or "moldau" not in offset:
        return None
    return StreamOffset.from_json(offset)
