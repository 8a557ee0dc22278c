"""What a pipeline is given to run on: a session, folders, its options, and a place for figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from moldau.spark.pipelines.declaration import Value
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.storage import Files
from moldau.spark.pipelines.tables import Table

POOL: Final = "spark.scheduler.pool"


@dataclass(slots=True)
class Report:
    """What only the pipeline itself can tell; written by its batches, read by the frame."""

    totals: Mapping[str, int] = field(default_factory=dict)
    newest_ms: int | None = None
    """The time of the newest event."""
    watermark_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of a pipeline."""

    spark: SparkSession
    files: Files
    places: Places
    options: Mapping[str, Value]
    """Those that the pipeline declares, by name."""
    connection: Mapping[str, str]
    """How brokers are reached: options of the format, `kafka.` in front."""
    trigger: Mapping[str, str | bool]
    batch_rows: int
    """How many records a batch may have."""
    group: str | None
    """A group under whose name lag tools see how far the pipeline is."""
    report: Report = field(default_factory=Report)

    def whole(self, name: str) -> int:
        """Return an option that is a whole number, or a time in milliseconds."""
        value = self.options[name]
        assert isinstance(value, int)
        return value

    def ratio(self, name: str) -> float | None:
        """Return an option that is a ratio; None if it was not given."""
        value = self.options[name]
        assert value is None or isinstance(value, float)
        return value

    def table(self, name: str, partitioned_by: Sequence[str] = ("date",)) -> Table:
        """Return a table of the pipeline."""
        return Table(self.files, self.places.table(name), partitioned_by)

    def place(self, name: str) -> str:
        """Return a folder for what the pipeline has to remember."""
        return self.places.memory(name)

    def records(self, **more: str) -> DataFrame:
        """Return the stream of records of the pipeline's topic, from the first one on.

        `more` are further options of the source, `includeHeaders` say.
        """
        options = {
            **self.connection,
            "subscribe": str(self.options["topic"]),
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self.batch_rows),
            **more,
        }
        if self.group is not None:
            options["commitToGroup"] = self.group
        return self.spark.readStream.format("moldau").options(**options).load()

    def started(self, name: str, writer: DataStreamWriter) -> StreamingQuery:
        """Start a query under a name, at the pace of the run.

        Each query has its own share of the cores: one that sends something every second does not
        wait for another that counts a window.
        """
        writer = writer.queryName(name).option("checkpointLocation", self.places.checkpoint(name))
        context = self.spark.sparkContext
        context.setLocalProperty(POOL, name)
        try:
            return writer.trigger(**self.trigger).start()  # type: ignore[arg-type]
        finally:
            context.setLocalProperty(POOL, None)  # type: ignore[arg-type]
