"""What a user may say about the log pipeline."""

from __future__ import annotations

from typing import Final

from moldau.spark.pipelines.declaration import Kind, Option, Pipeline
from moldau.spark.pipelines.logs.forms.own import pattern_of
from moldau.spark.pipelines.logs.moments import zone_of

LOGS: Final = Pipeline(
    name="logs",
    text="Log lines of many formats: one table to search, error rates per service, alerts.",
    entry="moldau.spark.pipelines.logs.start:start",
    tables=("logs", "dead_letters", "error_rates", "alerts"),
    options=(
        Option("topic", Kind.TEXT, "logs", "Where the lines come from.", pinned=True),
        Option("window", Kind.DURATION, "1m", "Length of the windows of rates.", pinned=True),
        Option(
            "delay",
            Kind.DURATION,
            "2m",
            "How far behind the newest line others may be without being late.",
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
            "2m",
            "How far ahead of our clock a line's time may be; beyond, it is not believed.",
            pinned=True,
            may_be_zero=True,
        ),
        Option(
            "zone",
            Kind.TEXT,
            "UTC",
            "The zone of times that name none, as Europe/Prague.",
            pinned=True,
            check=zone_of,
        ),
        Option(
            "pattern",
            Kind.TEXT,
            None,
            "Lines of your own format: an expression of Python's with groups time, level, message,"
            " host, service; others are fields.",
            pinned=True,
            check=pattern_of,
        ),
        Option(
            "format",
            Kind.TEXT,
            None,
            "The name of your own format [own].",
            pinned=True,
            needs="pattern",
        ),
        Option(
            "max-line",
            Kind.COUNT,
            "1048576",
            "Bytes of a line; a longer one is a dead letter.",
            pinned=True,
        ),
        Option("alert-rate", Kind.RATIO, "0.2", "The share of errors from which on to alert."),
        Option("alert-factor", Kind.COUNT, "5", "Alert at so many times the usual share, too."),
        Option("alert-errors", Kind.COUNT, "10", "Errors of a window below which not to alert."),
        Option("alerts-topic", Kind.TEXT, None, "A topic for alerts."),
        Option("rates-topic", Kind.TEXT, None, "A topic for the error rates of closed windows."),
        Option(
            "bad-ratio",
            Kind.RATIO,
            None,
            "Stop, before anything is written, if more of a batch than this cannot be read.",
        ),
    ),
)
