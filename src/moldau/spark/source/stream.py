"""A query that follows topics, batch by batch: how far each goes is decided on the driver.

Spark asks how far a batch may go (`latestOffset`), writes the answer down, has the batch planned
(`partitions`) and read by tasks, and asks again. Offsets are what `offsets` says; how the first one
survives a crash is told there too.

Spark calls from one thread, in a process of the query's own, and ends it without a word: nothing is
left to be done at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from moldau.base.clock import SystemClock
from moldau.client.records import TopicPartition
from moldau.engine.arrow_batches import RecordBatch
from moldau.spark.source.connections import connection_to
from moldau.spark.source.group_commit import GroupCommit
from moldau.spark.source.lookup import Lookup, Topics, require
from moldau.spark.source.loss import report_loss
from moldau.spark.source.offsets import Positions, StreamOffset
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.planning import places_of, stream_ranges, tasks_of
from moldau.spark.source.ranges import backlog, limited
from moldau.spark.source.tasks import RangePartition, read_range

_LOOK_AGAIN_S: Final = 1.0
"""While nothing is written, how often it is looked for partitions that came, went or moved: as late
as that they are noticed. It costs five times what waiting for a record does."""


def stream_reader(options: Mapping[str, str]) -> DataSourceStreamReader:
    """Return what follows topics; ConfigError if the options cannot be."""
    return StreamReader(SourceOptions.for_stream(options))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads the batches of one query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._initial: StreamOffset | None = None
        self._target: Positions | None = None
        """With a trigger that reads what is there and ends: where that ends."""
        self._latest: StreamOffset | None = None
        self._looked_at = 0.0
        """When it was last looked which partitions there are and where they end."""
        self._idle_at: dict[str, Any] | None = None
        """Where the query stood if there was nothing to read when that was last asked."""
        self._last_batch_at: float | None = None
        self._missing: frozenset[str] = frozenset()
        """What was named and not there when it was last looked: of that it was warned already."""
        group = options.commit_to_group
        self._group_commit = None if group is None else GroupCommit(group)

    # Where it begins

    def initialOffset(self) -> dict[str, Any]:
        """Find where a query begins that has no checkpoint; once, however often Spark asks."""
        if self._initial is None:
            lookup = Lookup(self._options)
            topics = lookup.topics()
            require(topics)
            positions = lookup.resolve(self._options.starting, topics)
            self._initial = StreamOffset(positions, topics.ids, initial=True)
        return self._initial.to_json()

    # How far it goes

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return what a trigger without limits of its own asks with."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where everything ends now; what is written later is for the next run."""
        lookup = Lookup(self._options)
        topics = lookup.topics()
        self._target = lookup.latest(topics.partitions)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Decide how far the next batch goes; the start as it is if there is nothing to read.

        Everything before the start has been processed when Spark asks, so that it is committed
        here: Spark's own `commit` comes a batch later, and for the last batch of a run never.
        """
        began = StreamOffset.from_json(start)
        if not began.initial:
            self.commit(start)
        if began.initial:
            end = self._end(began, limit)
            self._last_batch_at = SystemClock().monotonic()
            return end._replace(began=began.positions).to_json()
        end = began if self._is_idle(start) else self._end(began, limit)
        if _is_same(end, began) and self._waited_for_news():
            end = self._end(began, limit)
        if _is_same(end, began):
            self._idle_at = start
            return start
        self._last_batch_at = SystemClock().monotonic()
        return end.to_json()

    def _is_idle(self, start: dict[str, Any]) -> bool:
        """Tell whether nothing was to be read from here on a moment ago.

        To wait for the next record is enough then: an idle query asks one question a trigger.
        """
        if self._idle_at != start or not self._waits:
            return False
        return SystemClock().monotonic() - self._looked_at < _LOOK_AGAIN_S

    @property
    def _waits(self) -> bool:
        return self._target is None and self._options.idle_wait_ms > 0

    def _waited_for_news(self) -> bool:
        """Wait for a record, if this query does; tell whether one came."""
        if not self._waits:
            return False
        assert self._latest is not None
        return Lookup(self._options).news(self._latest.positions, self._options.idle_wait_ms)

    def _end(self, began: StreamOffset, limit: ReadLimit) -> StreamOffset:
        """Return how far a batch from here may go now."""
        lookup = Lookup(self._options)
        topics = self._topics(lookup, began)
        latest = lookup.latest(topics.partitions, at_least=_same_topics(began, topics))
        self._latest = StreamOffset(latest, topics.ids)
        self._looked_at = SystemClock().monotonic()
        ends = self._within_target(latest, began.positions)
        places = places_of(began, StreamOffset(ends, topics.ids), lookup)
        if isinstance(limit, ReadMaxRows):
            admitted = limited(places, ends, limit.max_rows)
        else:
            admitted = dict(ends)
        if self._is_too_little(limit, places, ends):
            return began._replace(initial=False, began=None)
        return StreamOffset(admitted, topics.ids)

    def _topics(self, lookup: Lookup, began: StreamOffset) -> Topics:
        """Find the partitions there are; topics that were read and are gone are lost.

        A query that may lose records goes on without them, and with whatever else is not there: at
        the next trigger it does not know any more that a topic was ever read.
        """
        topics = lookup.topics()
        known = {str(one) for one in began.positions} | {one.topic for one in began.positions}
        fail = self._options.fail_on_data_loss
        for gone in sorted(topics.missing & known if fail else topics.missing - self._missing):
            what = "was deleted" if gone in known else "is not in the cluster"
            report_loss(f"{gone} {what}", fail=fail)
        if fail:
            require(topics)
        self._missing = topics.missing
        return topics

    def _within_target(self, latest: Positions, began: Positions) -> Positions:
        """Return the ends as far as this run goes.

        Of partitions that are newer than its target it knows those with which it begins, which
        stay where they are: to be left out would mean that they are gone.
        """
        if self._target is None:
            return latest
        target = {**began, **self._target}
        return {one: min(end, target[one]) for one, end in latest.items() if one in target}

    def _is_too_little(self, limit: ReadLimit, places: Positions, ends: Positions) -> bool:
        """Tell whether a batch is put off until there is more to read, or long enough has passed.

        `minOffsetsPerTrigger` counts beside `maxOffsetsPerTrigger` too, though Spark can carry only
        one limit; a trigger that asks for everything gets it.
        """
        least = limit.min_rows if isinstance(limit, ReadMinRows) else None
        if isinstance(limit, ReadMaxRows):
            least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None or self._last_batch_at is None:
            return False
        waited_ms = (SystemClock().monotonic() - self._last_batch_at) * 1000
        return backlog(places, ends) < least and waited_ms < self._options.max_trigger_delay_ms

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the partitions ended when that was last looked up, for Spark's progress."""
        return None if self._latest is None else self._latest.to_json()

    # Reading

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Decide by how many tasks a batch is read."""
        until = StreamOffset.from_json(end)
        since = StreamOffset.from_json(start).beginning(until)
        fail = self._options.fail_on_data_loss
        ranges = stream_ranges(since, until, Lookup(self._options), fail=fail)
        return list(tasks_of(ranges, until.ids, self._options))

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read what one task reads."""
        assert isinstance(partition, RangePartition)
        return read_range(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Show lag tools how far the query is, if they shall see it."""
        if self._group_commit is not None:
            connection = connection_to(self._options.connection)
            self._group_commit.commit(connection, StreamOffset.from_json(end).positions)


def _is_same(end: StreamOffset, began: StreamOffset) -> bool:
    return end.positions == began.positions and end.ids == began.ids


def _same_topics(began: StreamOffset, topics: Topics) -> dict[TopicPartition, int]:
    """Return positions in topics that have not been made anew since."""
    return {
        one: offset
        for one, offset in began.positions.items()
        if began.ids.get(one.topic) in (None, topics.ids.get(one.topic))
    }
