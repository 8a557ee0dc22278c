"""What a user may say about the changelog pipeline."""

from __future__ import annotations

from typing import Final

from moldau.spark.pipelines.declaration import Kind, Option, Pipeline

CHANGELOG: Final = Pipeline(
    name="changelog",
    text="A compacted topic as a table: the last value of each key, deletes included.",
    entry="moldau.spark.pipelines.changelog.start:start",
    tables=("table", "dead_letters"),
    options=(
        Option("topic", Kind.TEXT, "changelog", "Where the changes come from.", pinned=True),
        Option(
            "merge-ratio",
            Kind.RATIO,
            "0.25",
            "Write the table anew when changes come up to this part of its rows.",
        ),
        Option(
            "bad-ratio",
            Kind.RATIO,
            None,
            "Stop, before anything is written, if more of a batch than this cannot be read.",
        ),
    ),
)
