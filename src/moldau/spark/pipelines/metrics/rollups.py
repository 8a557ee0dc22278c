"""The second step of a batch: the series of the windows it has closed, window by window.

All samples of a series and what it remembers come together in one row, sorted by time, and plain
Python makes windows of them (`folding`). What a series remembers is carried from closing to closing
in files of its own, under the number of the closing, so that a batch that is run again begins
from the same and comes to the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.arrow_functions import arrow_function
from moldau.spark.pipelines.metrics.deviation import Sense
from moldau.spark.pipelines.metrics.folding import (
    ANOMALY,
    COMPARED,
    FIGURES,
    PAST,
    PAST_COLUMNS,
    ROW_COLUMNS,
    WINDOW,
    Rules,
    folded,
)
from moldau.spark.pipelines.metrics.results import Results
from moldau.spark.pipelines.metrics.samples import SAMPLE_COLUMNS, SERIES
from moldau.spark.pipelines.records.gathering import Chosen, Rows, gathered
from moldau.spark.pipelines.stage import Stage
from moldau.spark.pipelines.tables.appending import TableWriter, parquet_bytes, read_folder
from moldau.spark.pipelines.windowed.closing import Closing, State
from moldau.spark.pipelines.windowed.reading import SPAN, rows_of

WINDOWS: Final = "windows"
ANOMALIES: Final = "anomalies"

PASTS_KEPT: Final = 3
"""Of how many closings the pasts are kept: a batch is run again from the one before it."""

_SAMPLE: Final = ("time", "partition", "offset", "reading", "interval_s", "unit", "buckets", "sum")
"""In the order by which samples are sorted: time first, then where they come from."""

_CARRIED_COLUMNS: Final = ", ".join((*(f"{name} STRING" for name in SERIES), PAST_COLUMNS))
_PAST_NAMES: Final = tuple(one.split()[0] for one in PAST_COLUMNS.split(", "))
_ROW_NAMES: Final = tuple(one.split()[0] for one in ROW_COLUMNS.split(", "))

SHARES: Final[Mapping[str, tuple[Chosen, tuple[str, ...]]]] = {
    WINDOWS: (Chosen("role", WINDOW), (*SPAN, *SERIES, "unit", *FIGURES)),
    ANOMALIES: (Chosen("role", ANOMALY), (*SPAN, *SERIES, "unit", *COMPARED)),
}
"""Which rows go to a table, and with which columns."""


class Rollups:
    """Makes windows of samples."""

    def __init__(
        self, stage: Stage, tables: Mapping[str, TableWriter], results: Results | None, sense: Sense
    ) -> None:
        self._stage = stage
        self._tables = tables
        self._results = results
        self._sense = sense
        self._window_ms = stage.whole("window")

    def close(self, state: State, closing: Closing) -> State:
        """File the windows of all series, and return the state after that.

        Every closing appends to both tables, if need be nothing. So the number of an append is that
        of its closing, and does not depend on what stands out, which an option may change.
        """
        number = state.closings
        with gathered(self._rows(closing, number)) as rows:
            for name, (chosen, columns) in SHARES.items():
                part = rows.part(chosen, {one: one for one in (*columns, "date")})
                self._tables[name].append(_one_file(part), number)
            if self._results is not None:
                self._results.send(rows, closing.until_ms)
            self._remember(rows, number + 1)
        return state

    def _rows(self, closing: Closing, number: int) -> DataFrame:
        """Return what `folding` makes of the series."""
        rules = Rules(self._window_ms, closing.until_ms, self._sense)

        def fold(kinds: pa.Array, samples: pa.Array, pasts: pa.Array) -> pa.Array:
            return folded(kinds, samples, pasts, rules)

        folding = arrow_function(fold, f"ARRAY<STRUCT<{_as_fields(ROW_COLUMNS)}>>")
        rows = self._series(closing, number).select(
            *SERIES, F.explode(folding("kind", "samples", "past")).alias("row")
        )
        flat = rows.select(*SERIES, *(F.col(f"row.{name}").alias(name) for name in _ROW_NAMES))
        return flat.withColumn("date", F.to_date("window_start"))

    def _series(self, closing: Closing, number: int) -> DataFrame:
        """Return a row per series: its samples, sorted, and its past."""
        spark = self._stage.spark
        samples = self._tables["samples"]
        fresh = rows_of(spark, samples, SAMPLE_COLUMNS, closing, self._window_ms)
        if fresh is None:
            fresh = spark.createDataFrame([], SAMPLE_COLUMNS)
        known = fresh.select(*SERIES, F.struct(*_SAMPLE).alias("sample"))
        past = self._pasts(number).select(*SERIES, F.struct(*_PAST_NAMES).alias("past"))
        together = known.unionByName(past, allowMissingColumns=True)
        return together.groupBy(*SERIES).agg(
            F.sort_array(F.collect_list("sample")).alias("samples"),
            F.first("past", ignorenulls=True).alias("past"),
        )

    def _pasts(self, number: int) -> DataFrame:
        """Return what all series remember before a closing."""
        spark, place = self._stage.spark, self._place(number)
        if number == 0:
            return spark.createDataFrame([], _CARRIED_COLUMNS)
        return read_folder(spark, self._stage.files, _CARRIED_COLUMNS, place)

    def _remember(self, rows: Rows, number: int) -> None:
        part = rows.part(Chosen("role", PAST), {name: name for name in (*SERIES, *_PAST_NAMES)})
        place = self._place(number)
        self._stage.files.remove(place)
        if isinstance(part, pa.Table):
            self._stage.files.write(f"{place}/part.parquet", parquet_bytes(part))
        else:
            part.write.parquet(place)
        self._stage.files.remove(self._place(number - PASTS_KEPT))

    def _place(self, number: int) -> str:
        return f"{self._stage.place('pasts')}/{number:010d}"


def _as_fields(columns: str) -> str:
    """Return columns as the fields of a struct."""
    return ", ".join("{}: {}".format(*one.split(" ", 1)) for one in columns.split(", "))


def _one_file(part: pa.Table | DataFrame) -> pa.Table | DataFrame:
    return part.coalesce(1) if isinstance(part, DataFrame) else part
