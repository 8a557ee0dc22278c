"""The first step of a batch: each record becomes a row on time, a late one or a dead letter, once.

All of them are filed with the topic, partition and offset they come from and the batch that brought
them, so that somebody may count: every offset stands in exactly one of the three tables.

    <name>         the pipeline's own columns, `time`, `topic`, `partition`, `offset`, `batch`
    late           the same, and `closed_until`: windows before that were closed
    dead_letters   `key`, `value`, `reason`, `topic`, `partition`, `offset`, `timestamp`, `batch`

A row whose time lies further ahead of the clock than `skew_ms` is a dead letter too. So is one from
before 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.records.gathering import Chosen, Rows, gathered
from moldau.spark.pipelines.records.reasons import check_ratio, first_reason
from moldau.spark.pipelines.windowed.closing import Ahead, ClosingBatch, State, Totals, landed
from moldau.spark.pipelines.windowed.filing import Filing, Share
from moldau.spark.pipelines.windowed.reading import is_too_old, moment

LATE: Final = "late"
DEAD: Final = "dead_letters"
FUTURE: Final = "time lies in the future"
TOO_OLD: Final = "time lies before 1970"
NO_TIME: Final = "no time"

PLACE: Final = ("topic", "partition", "offset", "batch")
PLACE_COLUMNS: Final = "topic STRING, partition INT, offset BIGINT, batch BIGINT"
"""Where a row comes from: the last columns of every table that holds records."""

NOW: Final = "now_ms"
"""When the batch was planned, in milliseconds."""
SOURCE: Final = "source"
"""Who sent a row, for people."""
AHEAD: Final = "ahead_ms"
"""How far ahead of the batch the time of a row is."""

FAR_MS_MIN: Final = 1000
"""Clocks that differ by less are as good as equal."""

_FATE: Final = "fate"
_DEAD_COLUMNS: Final = ("key", "value", "reason", "timestamp")


class Landing:
    """Files the records of batches."""

    def __init__(
        self,
        filing: Filing,
        name: str,
        *,
        columns: Sequence[str],
        sources: Sequence[str],
        bad_ratio: float | None,
        skew_ms: int,
        delay_ms: int,
    ) -> None:
        """`name` is the table of rows on time, `columns` its own ones, with `time`.

        `sources` are those that say who sent a row; the first that has a value is taken.
        """
        self._filing = filing
        self._sources = sources
        self._far_ms = max(min(skew_ms, delay_ms), FAR_MS_MIN)
        self._name = name
        self._bad_ratio = bad_ratio
        self._skew_ms = skew_ms
        kept = [*columns, *PLACE]
        on_time = _same(kept, date="date")
        late = _same([*kept, "closed_until"], date="date")
        dead = _same([*_DEAD_COLUMNS, *PLACE], date="batch_date")
        self._share = Share(name, on_time, Chosen(_FATE, name))
        self._others = (
            Share(LATE, late, Chosen(_FATE, LATE)),
            Share(DEAD, dead, Chosen(_FATE, DEAD)),
        )

    def land(self, state: State, rows: DataFrame, number: int) -> State:
        """File what a batch brought, and return the state after it."""
        with gathered(self._sorted_out(state, rows, number)) as found:
            batch = self._look(found)
            if batch is None:
                return state
            check_ratio(batch.counts.dead, sum(batch.counts), self._bad_ratio)
            after, paths = self._filing.append(state, found, self._share)
            return landed(self._filing.file(after, found, self._others), batch, paths)

    def _sorted_out(self, state: State, rows: DataFrame, number: int) -> DataFrame:
        """Say to which table each row goes, and add what the tables want."""
        latest = F.col("now").cast("timestamp") + F.make_dt_interval(
            secs=F.lit(self._skew_ms / 1000)
        )
        reasons = [
            (F.col("time").isNull(), NO_TIME),
            (F.col("time") > latest, FUTURE),
            (is_too_old(), TOO_OLD),
        ]
        until = state.closed_until_ms
        closed_until = F.lit(None).cast("timestamp") if until is None else moment(until)
        return (
            rows.withColumn("reason", F.coalesce("reason", first_reason(reasons)))
            .withColumn("batch", F.lit(number).cast("long"))
            .withColumn("closed_until", closed_until)
            .withColumn(_FATE, self._fate())
            .withColumn("date", F.to_date("time"))
            .withColumn("batch_date", F.to_date("now"))
            .withColumn(NOW, F.unix_millis(F.col("now").cast("timestamp")))
            .withColumn(AHEAD, self._ahead())
            .withColumn(SOURCE, F.coalesce(*self._sources, F.concat_ws("-", "topic", "partition")))
            .drop("now")
        )

    def _ahead(self) -> Column:
        """Return how far ahead rows are; null for those that are dead letters for another cause."""
        reason = F.coalesce("reason", F.lit(FUTURE))
        return F.when(reason == FUTURE, self._claimed_ms() - F.col(NOW))

    def _claimed_ms(self) -> Column:
        """Return the time that the clock of a row's source has told."""
        return F.unix_millis("time")

    def _fate(self) -> Column:
        is_late = F.col("time") < F.col("closed_until")
        return F.when(F.col("reason").isNotNull(), DEAD).when(is_late, LATE).otherwise(self._name)

    def _look(self, rows: Rows) -> ClosingBatch | None:
        now_ms = rows.first(NOW)
        if now_ms is None:
            return None
        late, dead = (rows.count(share.chosen) for share in self._others)
        first_ms, last_ms = rows.span_ms("time", Chosen(_FATE, self._name))
        counts = Totals(rows.count(self._share.chosen), late, dead)
        furthest = self._far_ahead(*rows.greatest(AHEAD, SOURCE), now_ms)
        return ClosingBatch(counts, first_ms, last_ms, now_ms, furthest)

    def _far_ahead(self, by_ms: int | None, source: str | None, now_ms: int) -> Ahead | None:
        """Return the source that is furthest ahead, if that is far."""
        if by_ms is None or source is None or by_ms <= self._far_ms:
            return None
        return Ahead(source, by_ms, now_ms)


def _same(names: Sequence[str], **others: str) -> dict[str, str]:
    """Return columns that keep their names, and others that get one."""
    return {**{name: name for name in names}, **others}
