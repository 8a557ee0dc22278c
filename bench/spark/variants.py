"""The source without one of the things that it does for its speed, as formats of their own.

Spark's workers import this module, so the checkout is on their path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from moldau.engine.arrow_batches import RecordBatch
from moldau.spark.provider import MoldauDataSource
from moldau.spark.source.batch import BatchReader
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.tasks import Pace, RangePartition, read_range

NO_PREFETCH: Final = "moldau-no-prefetch"
NOT_COALESCED: Final = "moldau-not-coalesced"
ROWS_10K: Final = "moldau-10k-rows"
ROWS_1K: Final = "moldau-1k-rows"

PACES: Final = {
    NO_PREFETCH: Pace(ahead=0),
    NOT_COALESCED: Pace(rows=1),
    ROWS_10K: Pace(rows=10_000),
    ROWS_1K: Pace(rows=1_000),
}


class VariantReader(BatchReader):
    """Reads at another pace."""

    def __init__(self, options: SourceOptions, pace: Pace) -> None:
        super().__init__(options)
        self._pace = pace

    def read(self, partition: InputPartition | None) -> Iterator[RecordBatch]:
        """Read what one task reads."""
        assert isinstance(partition, RangePartition)
        return read_range(self._options, partition, self._pace)


class _Variant(MoldauDataSource):
    """A source whose name says what it does without."""

    format_name: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return cls.format_name

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Return what reads at the pace of this variant."""
        return VariantReader(SourceOptions.for_batch(self.options), PACES[self.format_name])


class WithoutPrefetch(_Variant):
    """Asks for the next answer when the last one has been handed over."""

    format_name = NO_PREFETCH


class NotCoalesced(_Variant):
    """Makes one Arrow batch of each batch of the log."""

    format_name = NOT_COALESCED


class Rows10k(_Variant):
    """Makes Arrow batches as large as Spark's own."""

    format_name = ROWS_10K


class Rows1k(_Variant):
    """Makes small Arrow batches."""

    format_name = ROWS_1K


def register_variants(session: SparkSession) -> None:
    """Have a session know the variants."""
    for variant in (WithoutPrefetch, NotCoalesced, Rows10k, Rows1k):
        session.dataSource.register(variant)
