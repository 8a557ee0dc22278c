"""The second step of a batch: what lies in the windows it has closed is counted, once and for all.

Nothing can come to a closed window any more, so its events, which stand in their table, are all
there will ever be. They are counted as any table is: users exactly, which no running count of
Spark's does. No state is kept from batch to batch but open sessions; what a window costs is that
its events are read once more.

An event that was sent twice is the same in every field, so both lie in one window; it is counted
once.

Counts and sessions are rows of one form, `name` and three numbers over a span of time, so that one
job finds them all:

    what           name    first     second    third
    pages          page    views     users     users, approximately
    searches       query   searches  users     users, approximately
    sessions       user    views     searches
    open           user    views     searches

What each user did in a window is a job of its own: there may be as many rows of that as events,
which would keep the others, mostly few, from coming to the driver.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.activity.events import EVENT_COLUMNS, VIEW
from moldau.spark.pipelines.activity.sessions import Sessions
from moldau.spark.pipelines.records.gathering import Chosen, gathered
from moldau.spark.pipelines.tables.appending import TableWriter
from moldau.spark.pipelines.windowed.closing import Closing, State
from moldau.spark.pipelines.windowed.filing import Filing, Share
from moldau.spark.pipelines.windowed.reading import SPAN, rows_of

PAGES: Final = "pages"
SEARCHES: Final = "searches"
USERS: Final = "users"
_TOP: Final = "top_"

_WINDOW: Final = {"window_start": "start", "window_end": "end", "date": "date"}
_OF_PAGE: Final = {**_WINDOW, "page": "name", "pv": "first", "uv": "second", "uv_approx": "third"}
_OF_SEARCH: Final = {**_WINDOW, "query": "name", "searches": "first", "users": "second"}
_OF_SESSION: Final = {
    "user": "name", "start": "start", "end": "end", "views": "first", "searches": "second",
    "date": "date",
}  # fmt: skip

SHARES: Final = (
    Share(PAGES, _OF_PAGE, Chosen("what", PAGES)),
    Share(SEARCHES, _OF_SEARCH, Chosen("what", SEARCHES)),
    Share(_TOP + PAGES, {**_OF_PAGE, "rank": "rank"}, Chosen("top", _TOP + PAGES)),
    Share(_TOP + SEARCHES, {**_OF_SEARCH, "rank": "rank"}, Chosen("top", _TOP + SEARCHES)),
    Share("sessions", _OF_SESSION, Chosen("what", "sessions")),
)

_COLUMNS_OF_USERS: Final = (*SPAN, "user", "views", "searches", "date")
OF_USERS: Final = Share(USERS, {name: name for name in _COLUMNS_OF_USERS})


class Rollups:
    """Counts what lies in closed windows."""

    def __init__(
        self,
        spark: SparkSession,
        filing: Filing,
        events: TableWriter,
        sessions: Sessions,
        *,
        window_ms: int,
        top: int,
    ) -> None:
        self._spark = spark
        self._events = events
        self._filing = filing
        self._sessions = sessions
        self._window_ms = window_ms
        self._top = top

    def close(self, state: State, closing: Closing) -> State:
        """File the counts of windows, and the sessions that end with them."""
        rows = rows_of(self._spark, self._events, EVENT_COLUMNS, closing, self._window_ms)
        events = None if rows is None else _distinct(rows)
        parts = [] if events is None else [self._counts(events)]
        parts += self._sessions.of(state, events, closing.until_ms)
        if not parts:
            return state
        found = reduce(DataFrame.unionByName, parts).withColumn("date", F.to_date("start"))
        with gathered(found) as rows_found:
            state = self._sessions.carry(state, rows_found)
            state = self._filing.file(state, rows_found, SHARES)
        return state if events is None else self._file_users(state, events)

    def _file_users(self, state: State, events: DataFrame) -> State:
        with gathered(_of_users(events)) as rows_found:
            return self._filing.file(state, rows_found, [OF_USERS])

    def _counts(self, events: DataFrame) -> DataFrame:
        of_users = events.groupBy(*SPAN, "what", "name", "user").agg(F.count("*").alias("first"))
        counts = of_users.groupBy(*SPAN, "what", "name").agg(
            F.sum("first").alias("first"),
            F.count("*").alias("second"),
            F.approx_count_distinct("user").alias("third"),
        )
        rank = F.row_number().over(_best())
        is_top = F.col("rank") <= self._top
        ranked = counts.withColumn("rank", rank)
        return ranked.select(
            "what",
            F.when(is_top, F.concat(F.lit(_TOP), "what")).alias("top"),
            F.col(SPAN[0]).alias("start"),
            F.col(SPAN[1]).alias("end"),
            *("name", "first", "second", "third", "rank"),
        )


def _of_users(events: DataFrame) -> DataFrame:
    """Count what each user did in a window."""
    is_view = F.col("what") == PAGES
    counts = events.groupBy(*SPAN, "user").agg(
        F.count_if(is_view).alias("views"), F.count_if(~is_view).alias("searches")
    )
    return counts.withColumn("date", F.to_date(SPAN[0]))


def _distinct(rows: DataFrame) -> DataFrame:
    """Return each event once. All that one user did is in one place then."""
    is_view = F.col("kind") == VIEW
    fields = ("event_id", "user", "time", *SPAN, "what", "name")
    return (
        rows.withColumn("what", F.when(is_view, PAGES).otherwise(SEARCHES))
        .withColumn("name", F.when(is_view, F.col("page")).otherwise(F.col("query")))
        .select(*fields)
        .repartition("user")
        .dropDuplicates(list(fields))
        .drop("event_id")
    )


def _best() -> WindowSpec:
    """Number the rows of a window from the largest count on; among equals names decide."""
    return Window.partitionBy(SPAN[0], "what").orderBy(F.col("first").desc(), F.col("name"))
