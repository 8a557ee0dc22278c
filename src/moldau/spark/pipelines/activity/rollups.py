"""The second step of a batch: what lies in the windows it has closed is counted, once and for all.

Nothing can come to a closed window any more, so its events, which stand in their table, are all
there will ever be. They are counted as any table is: users exactly, which no running count of
Spark's does. No state is kept from batch to batch but open sessions; what a window costs is that
its events are read once more.

An event that was sent twice has the same id and the same time, so both lie in one window; it is
counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.activity.closing import Closing, State, closed
from moldau.spark.pipelines.activity.events import EVENT_COLUMNS, SEARCH, VIEW
from moldau.spark.pipelines.activity.sessions import Sessions
from moldau.spark.pipelines.tables import Table

PAGES: Final = "pages"
SEARCHES: Final = "searches"
TOP_PAGES: Final = "top_pages"
TOP_SEARCHES: Final = "top_searches"
SESSIONS: Final = "sessions"

_SPAN: Final = ("window_start", "window_end")


class Rollups:
    """Counts what lies in closed windows."""

    def __init__(
        self,
        spark: SparkSession,
        tables: Mapping[str, Table],
        sessions: Sessions,
        *,
        window_ms: int,
        top: int,
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._sessions = sessions
        self._window_ms = window_ms
        self._top = top

    def close(self, state: State, closing: Closing) -> State:
        """File the counts of windows, and return the state after they are closed."""
        events = self._events(closing)
        if events is not None:
            events.persist()
        try:
            if events is not None:
                state = self._count(state, events)
            state = self._end_sessions(state, events, closing)
        finally:
            if events is not None:
                events.unpersist()
        return closed(state, closing)

    def _events(self, closing: Closing) -> DataFrame | None:
        """Return the events of the windows, each once; None if there are none."""
        if not closing.paths:
            return None
        rows = self._spark.read.schema(EVENT_COLUMNS).parquet(*closing.paths)
        rows = rows.where(F.col("time") < _time(closing.until_ms))
        if closing.since_ms is not None:
            rows = rows.where(F.col("time") >= _time(closing.since_ms))
        begin_ms = F.floor(F.unix_millis("time") / self._window_ms) * self._window_ms
        start = F.timestamp_millis(begin_ms)
        end = F.timestamp_millis(begin_ms + self._window_ms)
        spans = rows.withColumn("window_start", start).withColumn("window_end", end)
        return spans.dropDuplicates(["event_id"])

    def _count(self, state: State, events: DataFrame) -> State:
        users = F.countDistinct("user")
        pages = (
            events.where(F.col("kind") == VIEW)
            .groupBy(*_SPAN, "page")
            .agg(F.count("*").alias("pv"), users.alias("uv"),
                 F.approx_count_distinct("user").alias("uv_approx"))
        )  # fmt: skip
        searches = (
            events.where(F.col("kind") == SEARCH)
            .groupBy(*_SPAN, "query")
            .agg(F.count("*").alias("searches"), users.alias("users"))
        )
        state = self._file(state, PAGES, TOP_PAGES, pages, _best("pv", "page"))
        return self._file(state, SEARCHES, TOP_SEARCHES, searches, _best("searches", "query"))

    def _file(
        self, state: State, name: str, top_name: str, counts: DataFrame, rank: Column
    ) -> State:
        """Append counts, and the best of each window."""
        counts = counts.withColumn("date", F.to_date("window_start"))
        counts.persist()
        try:
            state = self._append(state, name, counts)
            ranked = counts.withColumn("rank", rank)
            return self._append(state, top_name, ranked.where(F.col("rank") <= self._top))
        finally:
            counts.unpersist()

    def _end_sessions(self, state: State, events: DataFrame | None, closing: Closing) -> State:
        with self._sessions.ended(events, state.closings, closing.until_ms) as ended:
            return state if ended is None else self._append(state, SESSIONS, ended)

    def _append(self, state: State, name: str, rows: DataFrame) -> State:
        self._tables[name].append(rows.coalesce(1), state.next_append(name))
        return state.with_append(name)


def _best(count: str, name: str) -> Column:
    """Number the rows of a window from the largest count on; among equals names decide."""
    order = Window.partitionBy(*_SPAN).orderBy(F.col(count).desc(), F.col(name))
    return F.row_number().over(order)


def _time(time_ms: int) -> Column:
    return F.timestamp_millis(F.lit(time_ms))
