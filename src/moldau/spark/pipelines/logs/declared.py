"""The options and tables of the log pipeline."""

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
        Option("topic", Kind.TEXT, "logs", "The topic of the lines.", pinned=True),
        Option("window", Kind.DURATION, "1m", "The window length of error rates.", pinned=True),
        Option(
            "delay",
            Kind.DURATION,
            "2m",
            "How far a line may be behind the newest one before it is late.",
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
            "2m",
            "How far the time of a line may be ahead of the wall clock before it is ignored.",
            pinned=True,
            may_be_zero=True,
        ),
        Option(
            "zone",
            Kind.TEXT,
            "UTC",
            "The zone of times without one, such as Europe/Prague.",
            pinned=True,
            check=zone_of,
        ),
        Option(
            "pattern",
            Kind.TEXT,
            None,
            "Your own format: a Python regular expression with the groups time, level, message,"
            " host, service; other groups are fields.",
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
            "The longest line in bytes; a longer one is a dead letter.",
            pinned=True,
        ),
        Option("alert-rate", Kind.RATIO, "0.2", "Alert above this share of errors."),
        Option(
            "alert-factor", Kind.COUNT, "5", "Also alert above this multiple of the usual share."
        ),
        Option("alert-errors", Kind.COUNT, "10", "No alert for a window with fewer errors."),
        Option("alerts-topic", Kind.TEXT, None, "A topic for alerts."),
        Option("rates-topic", Kind.TEXT, None, "A topic for the error rates of closed windows."),
        Option(
            "bad-ratio",
            Kind.RATIO,
            None,
            "Exit before writing a batch if more than this share of it cannot be parsed.",
        ),
    ),
)
