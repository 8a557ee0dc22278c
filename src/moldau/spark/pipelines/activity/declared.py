"""What a user may say about the activity pipeline."""

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
        Option("topic", Kind.TEXT, "activity", "Where the events come from.", pinned=True),
        Option("window", Kind.DURATION, "1m", "Length of the windows.", pinned=True),
        Option(
            "delay",
            Kind.DURATION,
            "2m",
            "How far behind the newest event others may be without being late.",
            pinned=True,
            may_be_zero=True,
        ),
        Option(
            "session-gap",
            Kind.DURATION,
            "30m",
            "How long a user does nothing between two sessions.",
            pinned=True,
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
            "How far ahead of our clock an event may be; beyond, it is a dead letter.",
            pinned=True,
            may_be_zero=True,
        ),
        Option("top", Kind.COUNT, "10", "How many pages and searches the tops of a window have."),
        Option(
            "live-topic",
            Kind.TEXT,
            None,
            "A topic for the counts of open windows, as they grow (update mode).",
        ),
        Option(
            "bad-ratio",
            Kind.RATIO,
            None,
            "Stop, before anything is written, if more of a batch than this cannot be read.",
        ),
    ),
)
