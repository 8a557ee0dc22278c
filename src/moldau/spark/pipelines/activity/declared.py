"""The options and tables of the activity pipeline."""

from __future__ import annotations

from typing import Final

from moldau.spark.pipelines.declaration import Kind, Option, Pipeline

ACTIVITY: Final = Pipeline(
    name="activity",
    text="Page views and searches: PV, UV, sessions, top pages and top searches.",
    entry="moldau.spark.pipelines.activity.start:start",
    tables=(
        "events",
        "late",
        "dead_letters",
        "pages",
        "searches",
        "users",
        "sessions",
        "top_pages",
        "top_searches",
    ),
    options=(
        Option("topic", Kind.TEXT, "activity", "The topic of the events.", pinned=True),
        Option("window", Kind.DURATION, "1m", "The window length.", pinned=True),
        Option(
            "delay",
            Kind.DURATION,
            "2m",
            "How far an event may be behind the newest one before it is late.",
            pinned=True,
            may_be_zero=True,
        ),
        Option(
            "session-gap",
            Kind.DURATION,
            "30m",
            "The inactivity that ends a session.",
            pinned=True,
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
            "How far an event may be ahead of the wall clock before it is a dead letter.",
            pinned=True,
            may_be_zero=True,
        ),
        Option("top", Kind.COUNT, "10", "The number of rows in top lists."),
        Option(
            "live-topic",
            Kind.TEXT,
            None,
            "A topic for the counts of open windows (update mode).",
        ),
        Option(
            "bad-ratio",
            Kind.RATIO,
            None,
            "Exit before writing a batch if more than this share of it cannot be parsed.",
        ),
    ),
)
