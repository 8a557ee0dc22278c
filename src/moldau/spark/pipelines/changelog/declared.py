"""The options and tables of the changelog pipeline."""

from __future__ import annotations

from typing import Final

from moldau.spark.pipelines.declaration import Kind, Option, Pipeline

CHANGELOG: Final = Pipeline(
    name="changelog",
    text="A compacted topic as a table: the last value of each key, deletes included.",
    entry="moldau.spark.pipelines.changelog.start:start",
    tables=("table", "dead_letters"),
    options=(
        Option("topic", Kind.TEXT, "changelog", "The compacted topic.", pinned=True),
        Option(
            "merge-ratio",
            Kind.RATIO,
            "0.25",
            "Rewrite the table when changes reach this share of its rows.",
        ),
        Option(
            "bad-ratio",
            Kind.RATIO,
            None,
            "Exit before writing a batch if more than this share of it cannot be parsed.",
        ),
    ),
)
