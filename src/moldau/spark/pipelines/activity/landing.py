"""The first step of a batch: each record becomes an event, a late event or a dead letter, once.

All of them are filed with the topic, partition and offset they come from and the batch that brought
them, so that somebody may count: every offset stands in exactly one of the three tables.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.base.errors import UserError
from moldau.spark.pipelines.activity.closing import Batch, State, Totals, landed
from moldau.spark.pipelines.activity.events import EVENT_COLUMNS
from moldau.spark.pipelines.tables import Table

EVENTS: Final = "events"
LATE: Final = "late"
DEAD: Final = "dead_letters"

ROWS_PER_FILE: Final = 500_000
"""What a file holds at least, if a batch has as much: files that are too small make tables slow."""

BAD_COUNT_MIN: Final = 20
"""Below this many bad records their ratio says nothing."""

_COLUMNS: Final = [column.split()[0] for column in EVENT_COLUMNS.split(", ")]


class Landing:
    """Files the records of batches."""

    def __init__(self, tables: dict[str, Table], bad_ratio: float | None) -> None:
        self._tables = tables
        self._bad_ratio = bad_ratio

    def land(self, state: State, events: DataFrame, number: int) -> State:
        """File what a batch brought, and return the state after it."""
        sorted_out = events.withColumn("batch", F.lit(number)).withColumn("fate", _fate(state))
        sorted_out.persist()
        try:
            batch = _look(sorted_out)
            self._check(batch)
            paths: list[str] = []
            if batch.counts.events:
                on_time = sorted_out.where(F.col("fate") == EVENTS).select(*_COLUMNS, _date("time"))
                paths = self._append(EVENTS, on_time, state, batch.counts.events)
                state = state.with_append(EVENTS)
            if batch.counts.late:
                self._append(LATE, _late(sorted_out, state), state, batch.counts.late)
                state = state.with_append(LATE)
            if batch.counts.dead:
                self._append(DEAD, _dead(sorted_out), state, batch.counts.dead)
                state = state.with_append(DEAD)
            return landed(state, batch, paths)
        finally:
            sorted_out.unpersist()

    def _append(self, name: str, rows: DataFrame, state: State, count: int) -> list[str]:
        files = max(1, count // ROWS_PER_FILE)
        return self._tables[name].append(rows.coalesce(files), state.next_append(name))

    def _check(self, batch: Batch) -> None:
        """Stop where so much is bad that somebody should look, before anything is filed."""
        counts = batch.counts
        if self._bad_ratio is None or counts.dead < BAD_COUNT_MIN:
            return
        ratio = counts.dead / sum(counts)
        if ratio > self._bad_ratio:
            raise UserError(
                f"{counts.dead} of {sum(counts)} records cannot be read, more than"
                f" --bad-ratio {self._bad_ratio:g} allows: look at what is sent, or go on with a"
                " higher one to have them filed as dead letters"
            )


def _fate(state: State) -> Column:
    """Say to which table a record goes."""
    is_dead = F.col("reason").isNotNull()
    fate = F.when(is_dead, DEAD)
    if state.closed_until_ms is not None:
        is_late = F.col("time") < F.timestamp_millis(F.lit(state.closed_until_ms))
        fate = fate.when(is_late, LATE)
    return fate.otherwise(EVENTS)


def _look(rows: DataFrame) -> Batch:
    """Count what a batch holds, and find its first and last event that is not late."""
    time = F.unix_millis(F.when(F.col("fate") == EVENTS, F.col("time")))
    found = rows.agg(
        *(F.count_if(F.col("fate") == fate).alias(fate) for fate in (EVENTS, LATE, DEAD)),
        F.min(time).alias("first_ms"),
        F.max(time).alias("last_ms"),
    ).first()
    assert found is not None
    return Batch(Totals(found[EVENTS], found[LATE], found[DEAD]), found.first_ms, found.last_ms)


def _late(rows: DataFrame, state: State) -> DataFrame:
    closed_until = F.timestamp_millis(F.lit(state.closed_until_ms)).alias("closed_until")
    late = rows.where(F.col("fate") == LATE)
    return late.select(*_COLUMNS, closed_until, _date("time"))


def _dead(rows: DataFrame) -> DataFrame:
    """Return dead letters as they came; their date is that of the batch, as they may have none."""
    dead = rows.where(F.col("fate") == DEAD)
    return dead.select(
        "key", "value", "reason", "topic", "partition", "offset", "timestamp", "batch", _date("now")
    )


def _date(column: str) -> Column:
    return F.to_date(F.col(column)).alias("date")
