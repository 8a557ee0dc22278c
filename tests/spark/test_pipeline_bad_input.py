"""What topics bring that no pipeline should: records of a hundred megabytes, records that are gone.

Bad records of other kinds are among those that the tests of each pipeline send it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import pytest

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from moldau.base.errors import UserError
from moldau.spark.pipelines.activity.declared import ACTIVITY
from moldau.spark.pipelines.changelog.declared import CHANGELOG
from moldau.spark.pipelines.changelog.reading import current
from moldau.spark.pipelines.declaration import Pipeline
from moldau.spark.pipelines.logs.declared import LOGS
from moldau.spark.pipelines.metrics.declared import METRICS
from moldau.spark.source.cutting import KEPT_SIZE
from spark import activity_kit, logs_model, metrics_kit
from spark.activity_kit import TestRun, activity_topic
from spark.activity_model import rows_of
from spark.pipeline_kit import pipeline_settings, stage_of
from spark.source_kit import delete_records
from spark.topic_rows import FIRST_MS, TopicRow, send_rows

SIZE = 100_000_000
GOOD = 3000
SENT = {"message.max.bytes": 2 * SIZE, "compression.type": "zstd"}
"""Text of that size is small enough for every broker once it is compressed."""


@pytest.fixture
def session(spark):
    with pipeline_settings(spark) as prepared:
        yield prepared


class Fed(NamedTuple):
    """A pipeline, and what a record is to it."""

    pipeline: Pipeline
    options: dict[str, Any]
    value: Callable[[str], bytes]
    """Return a good record with a text, which is good unless it is long."""
    limit: str


def view(text: str) -> bytes:
    told = {"event_id": "e", "kind": "view", "user": "u", "page": text}
    return json.dumps({**told, "time": "2026-11-15T12:00:00Z"}).encode()


def sample(text: str) -> bytes:
    return metrics_kit.told("h", metrics_kit.FIRST_MS, kind="gauge", value=1, unit=text)


FED = (
    Fed(ACTIVITY, dict(activity_kit.OPTIONS), view, "more than 1048576"),
    Fed(LOGS, dict(logs_model.OPTIONS), str.encode, "more than a line of 1000"),
    Fed(METRICS, dict(metrics_kit.OPTIONS), sample, "more than 1048576"),
    Fed(CHANGELOG, {}, lambda text: json.dumps({"n": text}).encode(), "more than 16777216"),
)


@pytest.mark.parametrize(
    "fed",
    [*(pytest.param(one, marks=pytest.mark.long) for one in FED[:-1]), FED[-1]],
    ids=lambda one: one.pipeline.name,
)
def test_a_record_of_a_hundred_megabytes_is_a_dead_letter_among_good_ones(
    session, broker, tmp_path, fed
):
    topic = create_topic(broker.address, fresh_topic("huge"))
    good = fed.value("plum")
    values = [good] * GOOD
    values[GOOD // 2] = fed.value("x" * SIZE)
    rows = [TopicRow(b"k", value, topic, 0, at, FIRST_MS) for at, value in enumerate(values)]
    rows.append(TopicRow(b"x" * SIZE, good, topic, 0, GOOD, FIRST_MS))
    send_rows(broker.address, rows, **SENT)
    stage = stage_of(
        session, fed.pipeline, tmp_path, {**fed.options, "topic": topic}, address=broker.address
    )
    start = import_module(fed.pipeline.entry.partition(":")[0]).start
    for query in start(stage):
        query.awaitTermination()

    assert sum(stage.report.totals.values()) == GOOD + 1
    assert stage.report.totals["dead"] == 2
    by_value, by_key = sorted(rows_of(tmp_path, "dead_letters"), key=lambda row: row["offset"])
    assert (by_value["offset"], by_key["offset"]) == (GOOD // 2, GOOD)
    size = len(values[GOOD // 2]) + 1
    assert by_value["reason"] == f"{size} bytes, {fed.limit}"
    assert by_value["value"] == values[GOOD // 2][:KEPT_SIZE]
    assert by_key["reason"] == f"{SIZE + len(good)} bytes, {fed.limit}"
    assert (by_key["key"], by_key["value"]) == (b"x" * KEPT_SIZE, good)
    if fed.pipeline is CHANGELOG:
        assert current(str(tmp_path)).column("_key").to_pylist() == ["k"]


def test_records_that_were_deleted_before_they_were_read_end_a_run_with_one_line(
    session, broker, tmp_path
):
    topic, records = activity_topic(broker.address, batches=1)
    run = TestRun(session, broker.address, topic, tmp_path)
    run.run()
    send(broker.address, topic, [b"more"] * 10)
    first = len(records) + 5
    delete_records(broker, topic, 0, first)

    with pytest.raises(UserError) as failed:
        run.run(pauses_s=[60])
    told = str(failed.value)
    assert f"no records before offset {first} any more" in told
    assert told.endswith("begin with a new --out")
    assert "\n" not in told
