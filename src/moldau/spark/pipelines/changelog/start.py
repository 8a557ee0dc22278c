"""Where the changelog pipeline is put together."""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from moldau.base.clock import SystemClock
from moldau.spark.pipelines.changelog.batches import Batches
from moldau.spark.pipelines.stage import Stage
from moldau.spark.pipelines.windowed.reading import with_now


def start(stage: Stage) -> list[StreamingQuery]:
    """Start the query of the pipeline."""
    batches = Batches(stage, SystemClock())
    records = with_now(stage.records())
    return [stage.started("landing", records.writeStream.foreachBatch(batches.take))]
