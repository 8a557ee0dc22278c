"""Spark's entry point for `format("moldau")`.

Spark creates this object, its readers and its writers many times: for the schema, for each plan,
for each batch of a stream and for each commit. So constructors have no effects, and readers and
writers start to work on first use. Source and sink are imported on first use: a session that looks
for another format also imports this module, and must not pay for them or fail because of them.
"""

from __future__ import annotations

from typing import TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from moldau.base.errors import UserError
from moldau.spark.shipping import check_packages, checked_on_arrival

T = TypeVar("T")


@checked_on_arrival
class MoldauDataSource(DataSource):
    """The data source `moldau`: topics of Moldau and Apache Kafka as tables and streams."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "moldau"

    def schema(self) -> StructType:
        """Return the columns of a topic, which the options decide."""
        check_packages()
        from moldau.spark.source.columns import spark_schema

        return spark_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what plans and runs one read of topics as they are."""
        self._refuse_other(schema)
        from moldau.spark.source.batch import batch_reader

        return _sent(batch_reader(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what follows topics from batch to batch."""
        self._refuse_other(schema)
        from moldau.spark.source.stream import stream_reader

        return _sent(stream_reader(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return what writes the rows of one query."""
        check_packages()
        from moldau.spark.sink.batch import batch_writer

        return _sent(batch_writer(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return what writes the batches of a stream."""
        check_packages()
        from moldau.spark.sink.stream import stream_writer

        return _sent(stream_writer(self.options, schema, overwrite))

    def _refuse_other(self, schema: StructType) -> None:
        """Refuse a schema of the user's: Spark would take bytes for what they are not.

        Only names and types are compared, because Spark makes every column nullable on its way.
        """
        own = self.schema()
        if schema.simpleString() != own.simpleString():
            raise UserError(
                f'format("moldau") has the columns {own.simpleString()}: leave .schema(...) out '
                "and select from them"
            )


def _sent(part: T) -> T:
    """Return a reader or writer that Spark may pickle: it is looked after on its way."""
    checked_on_arrival(type(part))
    return part
