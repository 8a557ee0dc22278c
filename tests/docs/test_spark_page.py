"""The pages on Spark: their tables name every option and header there is, and no other.

Its examples are run in `tests/spark/test_spark_page.py`, where there is a session.
"""

from __future__ import annotations

import re
from pathlib import Path

from moldau.client.processing import retry_topics
from moldau.spark.sink import options as sink
from moldau.spark.source import options as source

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "spark.md").read_text()
READING, WRITING = (DOCS / "spark-options.md").read_text().split("\n## Writing\n")

NOT_IN_A_TABLE = {"subscribe", "subscribePattern", "assign"}
"""What stands in the text before the table."""
WITHOUT_EFFECT = {"groupIdPrefix", "partition.metadata.cache.ttl.ms", "includeHeaders"}
"""What is taken for the sake of jobs that have it."""
OF_SPARK = {"checkpointLocation", "path"}


def named(text):
    """Return what the first cells of the tables of a text name as code."""
    cells = re.findall(r"^\| ((?:`[^`|]+`(?:, )?)+) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def options_in(text):
    rows = next(part for part in text.split("\n\n") if part.startswith("| option |"))
    return named(rows) - {"kafka.*"}


def test_every_option_of_the_source_is_described():
    known = set(source.NAMES) - NOT_IN_A_TABLE - (WITHOUT_EFFECT - {"includeHeaders"})
    assert options_in(READING) == known
    for name in NOT_IN_A_TABLE:
        assert f"`{name}`" in READING


def test_every_option_of_the_sink_is_described():
    assert options_in(WRITING) == set(sink.NAMES) - WITHOUT_EFFECT - OF_SPARK


def test_headers_of_dead_letters_are_those_that_are_written():
    shown = {name for name in named(PAGE) if name.startswith("moldau-")}
    assert shown == {
        retry_topics.ERROR_TEXT,
        retry_topics.ORIGIN_TOPIC,
        retry_topics.ORIGIN_PARTITION,
        retry_topics.ORIGIN_OFFSET,
        retry_topics.ORIGIN_TIMESTAMP,
    }
