"""What a pipeline is given to run on: a session, folders, its options, and a place for figures.

Also the ways in which all pipelines read their topic, send to others and start their queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from moldau.spark.pipelines.checkpoints import Ledger, check_checkpoint
from moldau.spark.pipelines.declaration import PARQUET, Value
from moldau.spark.pipelines.identity import BATCH
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.storage import Files
from moldau.spark.pipelines.tables.appending import TableWriter
from moldau.spark.pipelines.tables.formats import table_writer
from moldau.spark.pipelines.tables.merging import Layout

POOL: Final = "spark.scheduler.pool"
LANDING: Final = "landing"
"""The query of every pipeline that files what comes."""


class PassTime(Protocol):
    """Does what is due by the clock, as nothing comes; tells whether anything was."""

    def __call__(self, now_ms: int, *, is_end: bool) -> bool:
        """`is_end` is whether the run ends, as it has read all there is."""
        ...


@dataclass(slots=True)
class Report:
    """What only the pipeline itself can tell; written by its batches, read by the frame."""

    totals: Mapping[str, int] = field(default_factory=dict)
    newest_ms: int | None = None
    """The time of the newest event."""
    watermark_ms: int | None = None
    ahead: Mapping[str, str | int] | None = None
    """The source whose clock was far ahead last: `source`, `by_ms` and `at_ms`."""


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
    id: str
    """Which pipeline it is: the same from run to run, and no other's."""
    table_format: str = PARQUET
    report: Report = field(default_factory=Report)
    clocked: list[PassTime] = field(default_factory=list)
    """What is to be told the time when nothing comes: of the queries that run, at most one."""

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

    def table(
        self, name: str, partitioned_by: Sequence[str] = ("date",), layout: Layout | None = None
    ) -> TableWriter:
        """Return a table of the pipeline; `layout` is how its merged files look."""
        return table_writer(
            self.table_format,
            self.spark,
            self.files,
            self.places.table(name),
            owner=self.id,
            partitioned_by=partitioned_by,
            layout=layout,
        )

    def place(self, name: str) -> str:
        """Return a folder for what the pipeline has to remember."""
        return self.places.memory(name)

    def ledger(self) -> Ledger:
        """Return what tells whether the batches of the landing are those of the tables."""
        return Ledger(self.files, self.place(BATCH), self.places.checkpoint(LANDING))

    def records(self, size_max: int, *, query: str = LANDING, **more: str) -> DataFrame:
        """Return the stream of records of the pipeline's topic, from the first one on.

        Larger records are cut, before Spark sees them; their `size` tells. `query` is the name of
        the one that reads them, `more` are further options of the source, `includeHeaders` say.
        """
        options = {
            **self.connection,
            "subscribe": str(self.options["topic"]),
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self.batch_rows),
            "maxRecordBytes": str(size_max),
            **more,
        }
        if self.group is not None:
            # Two queries of one group would overwrite each other's offsets.
            is_landing = query == LANDING
            options["commitToGroup"] = self.group if is_landing else f"{self.group}-{query}"
        return self.spark.readStream.format("moldau").options(**options).load()

    def send(self, records: DataFrame, topic: str, number: int) -> None:
        """Send records to a topic, once: not again what was sent under the same number.

        Numbers grow from call to call. Readers have to ask for what is committed.
        """
        options = {
            **self.connection,
            "topic": topic,
            "exactly.once": "true",
            "exactly.once.id": f"{self.id}/{topic}",
            "exactly.once.number": str(number),
        }
        records.write.format("moldau").options(**options).mode("append").save()

    def follow_clock(self, pass_time: PassTime) -> None:
        """Have something told the time when nothing comes, instead of who was told before."""
        self.clocked[:] = [pass_time]

    def started(self, name: str, writer: DataStreamWriter) -> StreamingQuery:
        """Start a query under a name, at the pace of the run.

        Each query has its own share of the cores: one that sends something every second does not
        wait for another that counts a window. UserError if its checkpoint is damaged.
        """
        checkpoint = self.places.checkpoint(name)
        check_checkpoint(self.files, checkpoint)
        writer = writer.queryName(name).option("checkpointLocation", checkpoint)
        context = self.spark.sparkContext
        context.setLocalProperty(POOL, name)
        try:
            return writer.trigger(**self.trigger).start()  # type: ignore[arg-type]
        finally:
            context.setLocalProperty(POOL, None)  # type: ignore[arg-type]
