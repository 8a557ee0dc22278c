"""Where the changelog pipeline is put together."""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from moldau.base.clock import SystemClock
from moldau.spark.pipelines.changelog.batches import Batches
from moldau.spark.pipelines.changelog.landing import RECORD_SIZE_MAX
from moldau.spark.pipelines.records.arriving import with_now
from moldau.spark.pipelines.stage import LANDING, Stage


def start(stage: Stage) -> list[StreamingQuery]:
    """Start the query of the pipeline."""
    batches = Batches(stage, SystemClock())
    records = with_now(stage.records(RECORD_SIZE_MAX))
    return [stage.started(LANDING, records.writeStream.foreachBatch(batches.take))]
