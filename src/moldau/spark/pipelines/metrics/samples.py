"""Samples as they come in: JSON, as `moldau collect metrics` sends it; what is wrong is said.

    {"time": "2026-...", "host": "web-1", "service": "host", "metric": "cpu.used", "target": null,
     "value": 0.25, "unit": "ratio", "interval_s": 10.0}

Others may send some fields more: `kind`, and of a histogram `buckets` instead of a value, each a
bound (null for the last) and how many values lie below it and above the one before:

    {..., "kind": "histogram", "buckets": [[0.1, 40], [0.5, 3], [null, 1]], "sum": 3.75}

Fields that are not known are passed over, so that who sends may add some.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.metrics.series import COUNT, GAUGE, HISTOGRAM, KINDS
from moldau.spark.pipelines.records.arriving import ORIGIN, RECORD_SIZE_MAX, TIME_FORM
from moldau.spark.pipelines.records.json_objects import not_an_object, read_object
from moldau.spark.pipelines.records.reasons import Reason, first_reason, too_large, unfit
from moldau.spark.pipelines.windowed.landing import PLACE_COLUMNS

SERIES: Final = ("host", "service", "metric", "target", "kind")
"""What tells one series from another."""

_TEXTS: Final = ("host", "service", "metric", "target", "kind", "unit", "time")
_NUMBERS: Final = ("value", "interval_s", "sum")
_PAIRS: Final = "ARRAY<ARRAY<DOUBLE>>"

TEXT_SIZE_MAX: Final = 512
"""Characters of a name: paths of devices and command lines fit, and every row carries them."""

NUMBER_MAX: Final = 1e100
"""Beyond it sums of a window would be no numbers any more. Nobody measures as much."""

COUNT_MAX: Final = 2**53
"""Of the values of a bucket: above it doubles do not count one by one any more."""

BUCKET_COUNT_MAX: Final = 1000
"""Histograms that are exact to a percent have fewer."""

OWN_COLUMNS: Final = (
    "time TIMESTAMP, host STRING, service STRING, metric STRING, target STRING, kind STRING,"
    " reading DOUBLE, unit STRING, interval_s DOUBLE, buckets ARRAY<STRUCT<bound DOUBLE,"
    " count DOUBLE>>, sum DOUBLE"
)
"""`reading` is the sample's `value`; the record has one too."""
SAMPLE_COLUMNS: Final = f"{OWN_COLUMNS}, {PLACE_COLUMNS}"
"""The columns of the tables of samples, on time and late, without the date they are filed under."""

NAMES: Final = ("time", *SERIES, "reading", "unit", "interval_s", "buckets", "sum")
"""The columns of `OWN_COLUMNS`, by name."""


def read_samples(records: DataFrame) -> DataFrame:
    """Return records with the fields of their samples, and `reason`: null for a good one."""
    # Numbers are read as text first: one that is none must not make the whole record unreadable.
    names = (*_TEXTS, *_NUMBERS, "buckets")
    parsed = read_object(F.col("value").cast("string"), names)
    opened = records.select(*ORIGIN, "size", parsed.alias("sample"))
    pairs = F.from_json(_field("buckets"), _PAIRS)
    time = F.when(_field("time").rlike(TIME_FORM), _field("time").try_cast("timestamp"))
    columns = [
        *(_field(name).alias(name) for name in ("host", "service", "metric", "target", "unit")),
        F.coalesce(_field("kind"), _usual_kind()).alias("kind"),
        time.alias("time"),
        _field("value").try_cast("double").alias("reading"),
        *(_field(name).try_cast("double").alias(name) for name in ("interval_s", "sum")),
        pairs.alias("_pairs"),
        F.transform(pairs, _bucket).alias("buckets"),
    ]
    read = opened.select("*", *columns).withColumn("reason", _reason())
    return read.select(*ORIGIN, "reason", *NAMES)


def _field(name: str) -> Column:
    return F.col(f"sample.told.{name}")


def _usual_kind() -> Column:
    """Say what a sample is whose sender does not: the collector's counts are told by their unit."""
    return F.when(_field("unit") == "count", COUNT).otherwise(GAUGE)


def _bucket(pair: Column) -> Column:
    return F.struct(F.get(pair, 0).alias("bound"), F.get(pair, 1).alias("count"))


def _reason() -> Column:
    """Say what is wrong with a sample; the first thing that is."""
    is_histogram, text = F.col("kind") == HISTOGRAM, F.col("value").cast("string")
    reasons = [
        too_large(RECORD_SIZE_MAX),
        (F.col("value").isNull(), "no value"),
        (~F.is_valid_utf8(text), "not UTF-8"),
        not_an_object("sample", text),
        *(unfit(name, TEXT_SIZE_MAX) for name in ("host", "service", "metric")),
        *(_too_long(name) for name in ("target", "unit")),
        (~F.col("kind").isin(*KINDS), f"kind is none of {', '.join(KINDS)}"),
        (~is_histogram & ~_is_number("reading"), "value is no number"),
        (is_histogram & ~_are_buckets(), "buckets are no pairs of a bound and a count"),
        (is_histogram & _have_large_counts(), f"a bucket counts more than {COUNT_MAX}"),
        (_field("sum").isNotNull() & ~_is_number("sum"), "sum is no number"),
        (_is_wrong_interval(), "interval_s is no time above zero"),
        (F.col("time").isNull(), "no time such as 2026-11-16T12:00:00Z"),
    ]
    return first_reason(reasons)


def _too_long(name: str) -> Reason:
    return F.length(name) > TEXT_SIZE_MAX, f"{name} of more than {TEXT_SIZE_MAX} characters"


def _is_number(name: str) -> Column:
    """Tell whether a number can be reckoned with; Spark's NaN is larger than all others."""
    return F.coalesce(F.abs(F.col(name)) <= NUMBER_MAX, F.lit(False))


def _is_wrong_interval() -> Column:
    interval_s = F.col("interval_s")
    given = _field("interval_s").isNotNull()
    return given & ~F.coalesce((interval_s > 0) & (interval_s <= NUMBER_MAX), F.lit(False))


def _are_buckets() -> Column:
    """Tell whether there are pairs, and all are bounds and counts."""
    pairs, size = F.col("_pairs"), F.size("_pairs")
    fit = F.forall(pairs, lambda pair: (F.size(pair) == 2) & (F.get(pair, 1) >= 0))
    finite = F.forall(
        F.col("buckets"),
        lambda one: F.coalesce(F.abs(one["bound"]) <= NUMBER_MAX, F.lit(True)),
    )
    given = (size > 0) & (size <= BUCKET_COUNT_MAX)
    return F.coalesce(given & fit & finite, F.lit(False))


def _have_large_counts() -> Column:
    return F.exists(F.col("buckets"), lambda one: one["count"] > COUNT_MAX)
