"""Tables of Delta Lake, written by its own library for Spark.

Delta remembers with each commit who made it, and the number he gave it (`txnAppId`, `txnVersion`):
a number that it has, it does not take again. Merging of small files is Delta's matter, too:
`OPTIMIZE`, run by whoever keeps the tables.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from moldau.spark.pipelines.declaration import DELTA
from moldau.spark.pipelines.tables.appending import check_number


class DeltaTable:
    """A table that Delta keeps."""

    def __init__(
        self, spark: SparkSession, path: str, owner: str, partitioned_by: Sequence[str] = ("date",)
    ) -> None:
        """`owner` is the id of the pipeline, under which its appends are numbered."""
        self.path = path
        self._spark = spark
        self._owner = owner
        self._partitioned_by = list(partitioned_by)
        self._count: int | None = None
        """How many appends are committed; None before anybody has looked."""

    def append(
        self, rows: DataFrame | pa.Table, number: int, wanted: Collection[str] = ()
    ) -> list[str]:
        """Append rows under a number, unless that is done; return the name of the table.

        Delta keeps what is wanted, wherever it moves it.
        """
        del wanted
        if not check_number(self.path, number, self._committed()):
            frame = self._frame(rows) if isinstance(rows, pa.Table) else rows
            told = {
                "txnAppId": self._owner,
                "txnVersion": str(number),
                # Columns that a newer Moldau adds.
                "mergeSchema": "true",
            }
            writer = frame.write.format(DELTA).mode("append").options(**told)
            writer.partitionBy(*self._partitioned_by).save(self.path)
            self._count = number + 1
        return [self.path]

    def read(self, spark: SparkSession, columns: str, names: Sequence[str]) -> DataFrame:
        """Return all rows; Delta knows which files have those that somebody then asks for."""
        del columns, names
        return spark.read.format(DELTA).load(self.path)

    def _frame(self, rows: pa.Table) -> DataFrame:
        return self._spark.createDataFrame(rows).coalesce(1)

    def _committed(self) -> int:
        if self._count is None:
            delta: Any = self._spark._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]  # noqa: SLF001 - as Delta's own Python does
            log = delta.DeltaLog.forTable(self._spark._jsparkSession, self.path)  # noqa: SLF001
            found = log.unsafeVolatileSnapshot().transactions().get(self._owner)
            self._count = 1 + int(found.get()) if found.isDefined() else 0
        return self._count
