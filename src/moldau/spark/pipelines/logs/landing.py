"""The first step of a batch: lines are filed whenever they come, and counted if they are on time.

A line that comes after its window was closed is a line all the same. It goes to the table `logs`
as the others do, with `late` set, and only the counts of windows do without it: those were told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.logs import rates
from moldau.spark.pipelines.logs.levels import ERRORS
from moldau.spark.pipelines.logs.parsing import CLAIMED
from moldau.spark.pipelines.logs.rates import Count, Part
from moldau.spark.pipelines.logs.reading import OWN_COLUMNS, SIZE
from moldau.spark.pipelines.records.gathering import ROWS_MAX, Rows
from moldau.spark.pipelines.records.reasons import check_ratio
from moldau.spark.pipelines.windowed.closing import ClosingBatch, State, Totals, landed
from moldau.spark.pipelines.windowed.filing import Filing
from moldau.spark.pipelines.windowed.landing import AHEAD, DEAD, LATE, NOW, SOURCE, Landing

LOGS: Final = "logs"
WINDOWS: Final = "windows"
"""The note of the state that holds the counts of open windows."""

BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of lines that come to the driver; larger batches are filed by Spark's tasks."""


class _Group(NamedTuple):
    """What rows of one kind, service and window are together."""

    is_dead: bool
    is_late: bool
    part: Part
    size: int
    first_ms: int
    last_ms: int
    now_ms: int
    ahead_ms: int | None
    source: str | None
    """Who is furthest ahead."""


class LogLanding(Landing):
    """Files the lines of batches, and counts them."""

    def __init__(
        self,
        filing: Filing,
        *,
        window_ms: int,
        bad_ratio: float | None,
        skew_ms: int,
        delay_ms: int,
    ) -> None:
        super().__init__(
            filing,
            LOGS,
            columns=[*OWN_COLUMNS, LATE],
            sources=("host", "service", "path"),
            bad_ratio=bad_ratio,
            skew_ms=skew_ms,
            delay_ms=delay_ms,
        )
        self._window_ms = window_ms

    def land(self, state: State, rows: DataFrame, number: int) -> State:
        """File what a batch brought, and return the state after it."""
        frame = self._sorted_out(state, rows, number).withColumn(
            LATE, F.coalesce(F.col("time") < F.col("closed_until"), F.lit(False))
        )
        with _persisted(frame) as kept:
            groups = [_group(row) for row in self._groups(kept).collect()]
            if not groups:
                return state
            batch = self._batch(groups)
            check_ratio(batch.counts.dead, sum(batch.counts), self._bad_ratio)
            whole = Rows(kept, kept.toArrow() if _is_small(batch, groups) else None)
            for share in (self._share, *self._others[1:]):
                state, _ = self._filing.append(state, whole, share)
        counted = (group.part for group in groups if not group.is_dead and not group.is_late)
        windows = rates.added(rates.from_note(state.notes.get(WINDOWS)), counted)
        return landed(state.with_note(WINDOWS, rates.to_note(windows)), batch, (LOGS,))

    def _fate(self) -> Column:
        return F.when(F.col("reason").isNotNull(), DEAD).otherwise(LOGS)

    def _claimed_ms(self) -> Column:
        claimed_us = F.col("fields")[CLAIMED].try_cast("bigint")
        return F.coalesce(F.floor(claimed_us / 1000), super()._claimed_ms())

    def _groups(self, rows: DataFrame) -> DataFrame:
        """Count rows by all that matters of them, in one pass."""
        time_ms = F.unix_millis("time")
        window_ms = F.floor(time_ms / self._window_ms) * self._window_ms
        return rows.groupBy(
            (F.col("fate") == DEAD).alias("dead"), LATE, window_ms.alias("window_ms"), "service"
        ).agg(
            F.count("*").alias("rows"),
            F.count_if(F.col("level").isin(*sorted(ERRORS))).alias("errors"),
            F.sum(SIZE).alias(SIZE),
            F.min(time_ms).alias("first_ms"),
            F.max(time_ms).alias("last_ms"),
            F.max(NOW).alias(NOW),
            F.max(AHEAD).alias(AHEAD),
            F.max_by(SOURCE, AHEAD).alias(SOURCE),
        )

    def _batch(self, groups: list[_Group]) -> ClosingBatch:
        dead = sum(one.part.counted.rows for one in groups if one.is_dead)
        late = sum(one.part.counted.rows for one in groups if one.is_late and not one.is_dead)
        on_time = [one for one in groups if not one.is_dead and not one.is_late]
        furthest = max(groups, key=lambda one: -math.inf if one.ahead_ms is None else one.ahead_ms)
        now_ms = groups[0].now_ms
        return ClosingBatch(
            Totals(sum(one.part.counted.rows for one in on_time), late, dead),
            min((one.first_ms for one in on_time), default=None),
            max((one.last_ms for one in on_time), default=None),
            now_ms,
            self._far_ahead(furthest.ahead_ms, furthest.source, now_ms),
        )


def _group(row: Row) -> _Group:
    part = Part(row["window_ms"], row["service"], Count(row["rows"], row["errors"]))
    span = (row["first_ms"], row["last_ms"])
    return _Group(row["dead"], row[LATE], part, row[SIZE], *span, row[NOW], row[AHEAD], row[SOURCE])


def _is_small(batch: ClosingBatch, groups: list[_Group]) -> bool:
    return sum(batch.counts) <= ROWS_MAX and sum(group.size for group in groups) <= BYTES_MAX


@contextmanager
def _persisted(frame: DataFrame) -> Iterator[DataFrame]:
    kept = frame.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
