"""What a user may say about the metrics pipeline."""

from __future__ import annotations

from typing import Final

from moldau.spark.pipelines.declaration import Kind, Option, Pipeline

METRICS: Final = Pipeline(
    name="metrics",
    text="Measurements: rates, averages and percentiles per window, and what stands out.",
    entry="moldau.spark.pipelines.metrics.start:start",
    tables=("samples", "late", "dead_letters", "windows", "anomalies"),
    options=(
        Option("topic", Kind.TEXT, "metrics", "Where the samples come from.", pinned=True),
        Option("window", Kind.DURATION, "1m", "Length of the windows.", pinned=True),
        Option(
            "delay",
            Kind.DURATION,
            "1m",
            "How far behind the newest sample others may be without being late.",
            pinned=True,
            may_be_zero=True,
        ),
        Option(
            "idle",
            Kind.DURATION,
            "5m",
            "Close windows by the clock when nothing has come for so long.",
        ),
        Option(
            "skew",
            Kind.DURATION,
            "1m",
            "How far ahead of our clock a sample may be; beyond, it is a dead letter.",
            pinned=True,
            may_be_zero=True,
        ),
        Option("history", Kind.COUNT, "30", "With how many windows of its series one is compared."),
        Option("history-min", Kind.COUNT, "10", "How many there must be before one stands out."),
        Option(
            "deviations", Kind.COUNT, "6", "How many standard deviations make a window stand out."
        ),
        Option(
            "change",
            Kind.RATIO,
            "0.2",
            "By which part of the usual level it has to differ, too.",
        ),
        Option(
            "results-topic",
            Kind.TEXT,
            None,
            "A topic for windows and anomalies, as they are filed.",
        ),
        Option(
            "bad-ratio",
            Kind.RATIO,
            None,
            "Stop, before anything is written, if more of a batch than this cannot be read.",
        ),
    ),
)
