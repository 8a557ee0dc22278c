"""Events as they come in: JSON, read by Spark; what is wrong with one is said in words.

    {"event_id": "e-1", "kind": "view", "user": "u-7", "page": "/plums", "time": "2026-..."}
    {"event_id": "e-2", "kind": "search", "user": "u-7", "query": "plums", "time": "2026-..."}

Fields that are not known are passed over, so that who sends may add some.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.records.arriving import ORIGIN, RECORD_SIZE_MAX, TIME_FORM
from moldau.spark.pipelines.records.json_objects import not_an_object, read_object
from moldau.spark.pipelines.records.reasons import first_reason, too_large, unfit
from moldau.spark.pipelines.windowed.landing import PLACE_COLUMNS

_TEXTS: Final = ("event_id", "kind", "user", "page", "query")

VIEW: Final = "view"
SEARCH: Final = "search"

TEXT_SIZE_MAX: Final = 2048
"""Characters of an id, a page or a query: as long as addresses that browsers agree on. Longer ones
would be groups of their own, and every table would carry them."""

OWN_COLUMNS: Final = (
    "event_id STRING, kind STRING, user STRING, page STRING, query STRING, time TIMESTAMP"
)
EVENT_COLUMNS: Final = f"{OWN_COLUMNS}, {PLACE_COLUMNS}"
"""The columns of the tables of events, without the date they are filed under."""


def read_events(records: DataFrame) -> DataFrame:
    """Return records with the fields of their events, and `reason`: null for a good one."""
    parsed = read_object(F.col("value").cast("string"), (*_TEXTS, "time"))
    opened = records.withColumn("event", parsed)
    fields = [F.col(f"event.told.{name}").alias(name) for name in _TEXTS]
    told = F.col("event.told.time")
    time = F.when(told.rlike(TIME_FORM), told.try_cast("timestamp")).alias("time")
    read = opened.select(*ORIGIN, "size", "event", *fields, time)
    return read.withColumn("reason", _reason()).drop("size", "event")


def _reason() -> Column:
    """Say what is wrong with an event; the first thing that is."""
    kind, text = F.col("kind"), F.col("value").cast("string")
    no_page, no_page_text = unfit("page", TEXT_SIZE_MAX)
    no_query, no_query_text = unfit("query", TEXT_SIZE_MAX)
    reasons = [
        too_large(RECORD_SIZE_MAX),
        (F.col("value").isNull(), "no value"),
        (~F.is_valid_utf8(text), "not UTF-8"),
        not_an_object("event", text),
        (kind.isNull(), "no kind"),
        (~kind.isin(VIEW, SEARCH), "kind is neither view nor search"),
        unfit("event_id", TEXT_SIZE_MAX),
        unfit("user", TEXT_SIZE_MAX),
        ((kind == VIEW) & no_page, no_page_text),
        ((kind == SEARCH) & no_query, no_query_text),
        (F.col("time").isNull(), "no time such as 2026-11-16T12:00:00Z"),
    ]
    return first_reason(reasons)
