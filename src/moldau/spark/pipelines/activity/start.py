"""Where the activity pipeline is put together."""

from __future__ import annotations

from typing import Final

from pyspark.sql.streaming.query import StreamingQuery

from moldau.spark.pipelines.activity.declared import ACTIVITY
from moldau.spark.pipelines.activity.events import OWN_COLUMNS, read_events
from moldau.spark.pipelines.activity.live import live_counts
from moldau.spark.pipelines.activity.rollups import Rollups
from moldau.spark.pipelines.activity.sessions import Sessions
from moldau.spark.pipelines.records.arriving import RECORD_SIZE_MAX, with_now
from moldau.spark.pipelines.stage import LANDING, Stage
from moldau.spark.pipelines.windowed.batches import Batches
from moldau.spark.pipelines.windowed.filing import Filing
from moldau.spark.pipelines.windowed.landing import Landing

EVENTS: Final = "events"
LIVE: Final = "live"
"""The query of live counts."""


def activity(stage: Stage) -> Batches:
    """Return what takes the batches of the pipeline."""
    window_ms = stage.whole("window")
    tables = {name: stage.table(name) for name in ACTIVITY.tables}
    filing = Filing(tables)
    landing = Landing(
        filing,
        EVENTS,
        columns=[column.split()[0] for column in OWN_COLUMNS.split(", ")],
        sources=("user",),
        bad_ratio=stage.ratio("bad-ratio"),
        skew_ms=stage.whole("skew"),
        delay_ms=stage.whole("delay"),
    )
    sessions = Sessions(
        stage.spark, stage.files, stage.place("sessions"), stage.whole("session-gap")
    )
    rollups = Rollups(
        stage.spark,
        filing,
        tables[EVENTS],
        sessions,
        window_ms=window_ms,
        top=stage.whole("top"),
    )
    return Batches(
        stage,
        landing,
        rollups.close,
        window_ms=window_ms,
        delay_ms=stage.whole("delay"),
        lasting_ms=stage.whole("session-gap"),
    )


def start(stage: Stage) -> list[StreamingQuery]:
    """Start the queries of the pipeline."""
    events = read_events(with_now(stage.records(RECORD_SIZE_MAX)))
    batches = activity(stage)
    landing = stage.started(LANDING, events.writeStream.foreachBatch(batches.take))
    stage.follow_clock(batches.pass_time)
    live_topic = stage.options["live-topic"]
    if live_topic is None:
        return [landing]
    # Counts of open windows have no use for records that were deleted while nobody wanted them.
    records = stage.records(RECORD_SIZE_MAX, query=LIVE, failOnDataLoss="false")
    live = live_counts(
        read_events(with_now(records)),
        {**stage.connection, "topic": str(live_topic)},
        window_ms=stage.whole("window"),
        delay_ms=stage.whole("delay"),
        # Spark's watermark follows the newest time. From one that is ahead by no more than the
        # delay, it stays behind the clock, and drops nothing of sources whose clocks are right.
        skew_ms=min(stage.whole("skew"), stage.whole("delay")),
    )
    return [landing, stage.started(LIVE, live)]
