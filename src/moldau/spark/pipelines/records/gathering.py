"""Rows that are computed once and then used several times.

Most results are small: a batch of a second, the counts of a window. A job of Spark's costs more
than they do, so they come to the driver as one Arrow table, and what is done with them then costs
no job. What is too large for that stays with Spark, in its cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

ROWS_MAX: Final = 50_000
"""How many rows come to the driver: some ten megabytes, written in a tenth of a second. From there
on Spark's tasks are quicker."""

SIZE_MAX: Final = 32_000_000
"""How large they may be in Spark's cache: records of a megabyte are no matter for the driver."""


class Chosen(NamedTuple):
    """Which of some rows: those in which a column holds this text."""

    column: str
    value: str


class Rows:
    """Rows that are there: `small` on the driver, or None and `frame` in Spark's cache."""

    def __init__(self, frame: DataFrame, small: pa.Table | None) -> None:
        self.frame = frame
        self.small = small
        self._counts: dict[str, dict[str, int]] = {}

    def count(self, chosen: Chosen | None = None) -> int:
        """Return how many rows there are, or how many of them are chosen."""
        if chosen is not None:
            if chosen.column not in self._counts:
                self._counts[chosen.column] = self._count_by(chosen.column)
            return self._counts[chosen.column].get(chosen.value, 0)
        return self.frame.count() if self.small is None else int(self.small.num_rows)

    def _count_by(self, column: str) -> dict[str, int]:
        if self.small is None:
            return {row[0]: row[1] for row in self.frame.groupBy(column).count().collect()}
        counted = pc.value_counts(self.small.column(column))
        return {one["values"]: one["counts"] for one in counted.to_pylist()}

    def span_ms(self, column: str, chosen: Chosen) -> tuple[int | None, int | None]:
        """Return the least and the greatest time among chosen rows, in milliseconds."""
        if self.small is None:
            times = self.frame.where(F.col(chosen.column) == chosen.value)
            time_ms = F.unix_millis(column)
            found = times.agg(F.min(time_ms).alias("first"), F.max(time_ms).alias("last")).first()
            assert found is not None
            return found.first, found.last
        times = self._small(chosen).column(column).cast(pa.int64())
        first, last = pc.min_max(times).as_py().values()
        return (None, None) if first is None else (first // 1000, last // 1000)

    def first(self, column: str) -> Any:
        """Return what a column holds in the first row; None without rows."""
        if self.small is None:
            found = self.frame.select(column).first()
            return None if found is None else found[0]
        return self.small.column(column)[0].as_py() if self.small.num_rows else None

    def greatest(self, column: str, other: str) -> tuple[int | None, Any]:
        """Return the greatest number of a column, and what another column holds beside it."""
        if self.small is None:
            found = self.frame.agg(F.max(column), F.max_by(other, column)).first()
            assert found is not None
            return found[0], found[1]
        numbers = self.small.column(column)
        greatest = pc.max(numbers)
        if not greatest.is_valid:
            return None, None
        place = pc.index(numbers, greatest).as_py()
        return greatest.as_py(), self.small.column(other)[place].as_py()

    def part(self, chosen: Chosen | None, columns: Mapping[str, str]) -> pa.Table | DataFrame:
        """Return chosen rows with some columns, by their new names."""
        if self.small is None:
            frame = self.frame
            if chosen is not None:
                frame = frame.where(F.col(chosen.column) == chosen.value)
            return frame.select(*(F.col(old).alias(new) for new, old in columns.items()))
        rows = self.small if chosen is None else self._small(chosen)
        return pa.table([rows.column(old) for old in columns.values()], list(columns))

    def _small(self, chosen: Chosen) -> pa.Table:
        assert self.small is not None
        return self.small.filter(pc.equal(self.small.column(chosen.column), chosen.value))


@contextmanager
def gathered(frame: DataFrame) -> Iterator[Rows]:
    """Compute rows; they are there until the end of the block."""
    frame = frame.persist()
    try:
        yield Rows(frame, frame.toArrow() if _is_small(frame) else None)
    finally:
        frame.unpersist()


def _is_small(frame: DataFrame) -> bool:
    """Compute rows, and tell whether the driver can have them."""
    if _plan(frame).toRdd().count() > ROWS_MAX:
        return False
    size = _plan(frame).optimizedPlan().stats().sizeInBytes()  # the cache knows it by now
    return int(str(size)) <= SIZE_MAX


def _plan(frame: DataFrame) -> Any:
    """Return Spark's own plan: PySpark has no count without a shuffle, and no size of a cache."""
    return frame.select("*")._jdf.queryExecution()  # noqa: SLF001
