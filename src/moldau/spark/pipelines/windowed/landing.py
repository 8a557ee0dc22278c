"""The first step of a batch: each record becomes a row on time, a late one or a dead letter, once.

All of them are filed with the topic, partition and offset they come from and the batch that brought
them, so that somebody may count: every offset stands in exactly one of the three tables.

    <name>         the pipeline's own columns, `time`, `topic`, `partition`, `offset`, `batch`
    late           the same, and `closed_until`: windows before that were closed
    dead_letters   `key`, `value`, `reason`, `topic`, `partition`, `offset`, `timestamp`, `batch`

A row whose time lies further ahead of the clock than `skew_ms` is a dead letter too: it would close
windows that have just begun. So is one from before 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.records.gathering import Chosen, Rows, gathered
from moldau.spark.pipelines.records.reasons import check_ratio, first_reason
from moldau.spark.pipelines.windowed.closing import ClosingBatch, State, Totals, landed
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
        bad_ratio: float | None,
        skew_ms: int,
    ) -> None:
        """`name` is the table of rows on time, `columns` its own ones, with `time`."""
        self._filing = filing
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
            .drop("now")
        )

    def _fate(self) -> Column:
        is_late = F.col("time") < F.col("closed_until")
        return F.when(F.col("reason").isNotNull(), DEAD).when(is_late, LATE).otherwise(self._name)

    def _look(self, rows: Rows) -> ClosingBatch:
        late, dead = (rows.count(share.chosen) for share in self._others)
        first_ms, last_ms = rows.span_ms("time", Chosen(_FATE, self._name))
        return ClosingBatch(Totals(rows.count(self._share.chosen), late, dead), first_ms, last_ms)


def _same(names: Sequence[str], **others: str) -> dict[str, str]:
    """Return columns that keep their names, and others that get one."""
    return {**{name: name for name in names}, **others}
