"""Where the metrics pipeline is put together."""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from moldau.base.errors import UserError
from moldau.spark.pipelines.metrics.declared import METRICS
from moldau.spark.pipelines.metrics.deviation import Sense
from moldau.spark.pipelines.metrics.results import Results
from moldau.spark.pipelines.metrics.rollups import Rollups
from moldau.spark.pipelines.metrics.samples import NAMES, read_samples
from moldau.spark.pipelines.records.arriving import RECORD_SIZE_MAX, with_now
from moldau.spark.pipelines.stage import LANDING, Stage
from moldau.spark.pipelines.windowed.batches import Batches
from moldau.spark.pipelines.windowed.filing import Filing
from moldau.spark.pipelines.windowed.landing import Landing


def batches_of(stage: Stage) -> Batches:
    """Return what takes the batches of samples."""
    tables = {name: stage.table(name) for name in METRICS.tables}
    landing = Landing(
        Filing(tables),
        "samples",
        columns=NAMES,
        sources=("host", "service"),
        bad_ratio=stage.ratio("bad-ratio"),
        skew_ms=stage.whole("skew"),
        delay_ms=stage.whole("delay"),
    )
    topic = stage.options["results-topic"]
    results = None if topic is None else Results(stage, str(topic))
    rollups = Rollups(stage, tables, results, sense_of(stage))
    return Batches(
        stage,
        landing,
        rollups.close,
        window_ms=stage.whole("window"),
        delay_ms=stage.whole("delay"),
    )


def sense_of(stage: Stage) -> Sense:
    """Read how easily something stands out; UserError if nothing ever could."""
    history, least = stage.whole("history"), stage.whole("history-min")
    if least > history:
        raise UserError(
            f"--history-min {least} is more than --history {history}: nothing would ever stand out"
        )
    return Sense(history, least, stage.whole("deviations"), stage.ratio("change") or 0.0)


def start(stage: Stage) -> list[StreamingQuery]:
    """Start the query of the pipeline."""
    batches = batches_of(stage)
    samples = read_samples(with_now(stage.records(RECORD_SIZE_MAX)))
    landing = stage.started(LANDING, samples.writeStream.foreachBatch(batches.take))
    stage.follow_clock(batches.pass_time)
    return [landing]
