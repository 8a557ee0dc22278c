"""A query over what topics hold: planned once on the driver, read by tasks.

Where it begins and ends is decided when Spark plans the query, so that every task, and every retry
of one, reads the same records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from moldau.base.errors import UserError
from moldau.client.records import TopicPartition
from moldau.engine.arrow_batches import RecordBatch
from moldau.engine.settings import IsolationLevel
from moldau.spark.source.extent import EARLIEST, LATEST
from moldau.spark.source.filters import Narrowing
from moldau.spark.source.lookup import Lookup, require
from moldau.spark.source.loss import report_loss
from moldau.spark.source.offsets import Positions
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.planning import tasks_of
from moldau.spark.source.ranges import OffsetRange, later
from moldau.spark.source.tasks import RangePartition, read_range


def batch_reader(options: Mapping[str, str]) -> DataSourceReader:
    """Return what reads topics once; ConfigError if the options cannot be.

    Spark refuses a reader that takes filters unless a conf of the session allows it, so only who
    asks for that with `filterPushdown` gets one.
    """
    read = SourceOptions.for_batch(options)
    return FilteringBatchReader(read) if read.filter_pushdown else BatchReader(read)


class BatchReader(DataSourceReader):
    """Plans and reads one query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._narrowing = Narrowing()

    def partitions(self) -> list[InputPartition]:
        """Decide what is read, and by how many tasks."""
        lookup = Lookup(self._options)
        topics = lookup.topics()
        require(topics)
        starts = lookup.resolve(self._options.starting, topics)
        ends = lookup.resolve(self._options.ending, topics)
        if later(starts, ends) or self._options.ending.has_offsets:
            ends = self._checked(starts, ends)
        ranges = [OffsetRange(each, starts[each], ends[each]) for each in sorted(starts)]
        return list(tasks_of(self._narrowed(ranges, lookup), topics.ids, self._options))

    def _checked(self, starts: Positions, ends: Positions) -> dict[TopicPartition, int]:
        """Return the ends as far as there are records; what is not there is reported as lost.

        What is written counts, not what is settled: tasks wait for the end of a transaction.
        """
        options = self._options
        uncommitted = options._replace(isolation=IsolationLevel.READ_UNCOMMITTED)
        furthest = {one: max(starts[one], end) for one, end in ends.items()}
        written = Lookup(uncommitted).latest(ends, at_least=furthest)
        for bound, wanted in ((options.starting, starts), (options.ending, ends)):
            for one in later(wanted, written):
                report_loss(
                    f"{bound.option}: {one} ends at offset {written[one]}, before {wanted[one]}",
                    fail=options.fail_on_data_loss,
                )
        for one in later(starts, ends):
            if starts[one] <= written[one] and not options.ending.is_at(LATEST, one):
                self._refuse_backwards(one, starts[one], ends[one])
        return {one: min(end, written[one]) for one, end in ends.items()}

    def _refuse_backwards(self, one: TopicPartition, start: int, end: int) -> None:
        """Refuse to begin behind the end; if it was not told to, records are gone in between."""
        options = self._options
        if options.starting.is_at(EARLIEST, one):
            report_loss(
                f"{options.ending.option}: {one} begins at offset {start}, behind {end}",
                fail=options.fail_on_data_loss,
            )
        else:
            raise UserError(
                f"{one} would be read from offset {start} to {end}, which is before it: check"
                f" {options.starting.option} and {options.ending.option}"
            )

    def _narrowed(self, ranges: Iterable[OffsetRange], lookup: Lookup) -> list[OffsetRange]:
        """Leave out what no row can be made of that passes the filters."""
        wanted = [
            narrowed
            for each in ranges
            if self._narrowing.admits(each.partition)
            and (narrowed := self._narrowing.of_range(each)).size > 0
        ]
        if self._narrowing.since_ms is None or not wanted:
            return wanted
        since = lookup.at_times(
            dict.fromkeys((each.partition for each in wanted), self._narrowing.since_ms)
        )
        return [_from(each, since[each.partition]) for each in wanted]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read what one task reads; nothing, where Spark makes a task of a plan without any.

        Such a task has a partition of Spark's own, `InputPartition(None)`.
        """
        if not isinstance(partition, RangePartition):
            return iter(())
        return read_range(self._options, partition)


class FilteringBatchReader(BatchReader):
    """One that looks at the conditions of a query first."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take note of conditions; Spark applies all of them afterwards as well."""
        self._narrowing = Narrowing.of(filters)
        return filters


def _from(whole: OffsetRange, first: int | None) -> OffsetRange:
    """Return the part of a range that begins with the first record that is late enough."""
    start = whole.end if first is None else min(max(whole.start, first), whole.end)
    return whole._replace(start=start)
