"""The options and tables of the metrics pipeline."""

from __future__ import annotations

from typing import Final

from moldau.spark.pipelines.declaration import Kind, Option, Pipeline

METRICS: Final = Pipeline(
    name="metrics",
    text="Measurements: rates, averages and percentiles per window, and anomalies.",
    entry="moldau.spark.pipelines.metrics.start:start",
    tables=("samples", "late", "dead_letters", "windows", "anomalies"),
    options=(
        Option("topic", Kind.TEXT, "metrics", "The topic of the samples.", pinned=True),
        Option("window", Kind.DURATION, "1m", "The window length.", pinned=True),
        Option(
            "delay",
            Kind.DURATION,
            "1m",
            "How far a sample may be behind the newest one before it is late.",
            pinned=True,
            may_be_zero=True,
        ),
        Option(
            "idle",
            Kind.DURATION,
            "5m",
            "Close windows by the wall clock after this time without records.",
        ),
        Option(
            "skew",
            Kind.DURATION,
            "1m",
            "How far a sample may be ahead of the wall clock before it is a dead letter.",
            pinned=True,
            may_be_zero=True,
        ),
        Option("history", Kind.COUNT, "30", "The number of earlier windows to compare with."),
        Option(
            "history-min",
            Kind.COUNT,
            "10",
            "The windows a series needs before it can have an anomaly.",
        ),
        Option("deviations", Kind.COUNT, "6", "The standard deviations that make an anomaly."),
        Option(
            "change",
            Kind.RATIO,
            "0.2",
            "The least relative change from the usual level.",
        ),
        Option(
            "results-topic",
            Kind.TEXT,
            None,
            "A topic for windows and anomalies.",
        ),
        Option(
            "bad-ratio",
            Kind.RATIO,
            None,
            "Exit before writing a batch if more than this share of it cannot be parsed.",
        ),
    ),
)
