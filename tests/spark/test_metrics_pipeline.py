"""The metrics pipeline as a whole: its tables are what a plain computation over the records gives.

Also after crashes between its steps. What it finds goes to a topic as well.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from moldau.base.errors import UserError
from moldau.collect.metrics.access_logs import COMBINED, UNITS_US, AccessSamples, access_pattern
from moldau.collect.metrics.samples import encode
from moldau.spark.pipelines.metrics.declared import METRICS
from moldau.spark.pipelines.metrics.samples import read_samples
from moldau.spark.pipelines.metrics.start import batches_of, start
from moldau.spark.pipelines.records import gathering
from spark.activity_model import rows_of, stray_files
from spark.metrics_kit import BROKEN, OPTIONS, RULES, made_up_samples
from spark.metrics_model import check_tables
from spark.pipeline_kit import STRIDES, frame_of, pipeline_settings, stage_of, until_done
from spark.topic_rows import stored_rows


@pytest.fixture
def session(spark):
    with pipeline_settings(spark):
        yield spark


def parsed(spark, values, first):
    return read_samples(
        frame_of(spark, [(None, value, first + at) for at, value in enumerate(values)])
    )


@pytest.mark.parametrize("stride", STRIDES)
def test_crashes_between_its_steps_change_nothing_and_send_nothing_twice(
    session, broker, tmp_path, stride
):
    """Batches as Spark would bring them: the same one again, to a new process, until it is done."""
    values = [*made_up_samples(55), *BROKEN]
    size = len(values) // 2 + 1
    results = create_topic(broker.address, fresh_topic("results"))
    options = {**OPTIONS, "results-topic": results}
    crashes = 0
    for number, first in enumerate(range(0, len(values), size)):
        rows = parsed(session, values[first : first + size], first)

        def take(files, rows=rows, number=number):
            stage = stage_of(session, METRICS, tmp_path, options, files, broker.address)
            batches_of(stage).take(rows, number)

        crashes += len(list(until_done(session, 3, take, stride)))

    expected = check_tables(tmp_path, values, RULES)
    assert crashes >= 4 / stride
    assert all(expected.fates.values())
    found = {(row["host"], row["kind"]) for row in rows_of(tmp_path, "anomalies")}
    assert found >= {("a", "gauge"), ("a", "counter"), ("b", "counter"), ("b", "histogram")}
    assert not {key for key in found if key[1] == "count"} | (found & {("b", "gauge")})
    dead = {row["value"]: row["reason"] for row in rows_of(tmp_path, "dead_letters")}
    assert dead == BROKEN
    assert not stray_files(tmp_path, METRICS.tables)
    windows = session.read.parquet(str(tmp_path / "windows"))
    assert windows.count() == len(expected.windows())
    sent = [json.loads(row.value)["result"] for row in stored_rows(broker.address, results)]
    assert sent.count("window") == len(expected.windows())
    assert sent.count("anomaly") == len(rows_of(tmp_path, "anomalies"))


@pytest.mark.long
def test_a_run_sends_what_it_files_to_a_topic_also_where_rows_stay_with_spark(
    session, broker, tmp_path, monkeypatch
):
    monkeypatch.setattr(gathering, "ROWS_MAX", 2)
    values = made_up_samples(48)
    topic = create_topic(broker.address, fresh_topic("metrics"))
    results = create_topic(broker.address, fresh_topic("results"))
    send(broker.address, topic, values)
    options = {**OPTIONS, "topic": topic, "results-topic": results}
    stage = stage_of(session, METRICS, tmp_path, options, address=broker.address)
    for query in start(stage):
        query.awaitTermination()

    check_tables(tmp_path, values, RULES)
    assert sum(stage.report.totals.values()) == len(values)
    records = stored_rows(broker.address, results)
    sent = [json.loads(row.value) for row in records]
    for result in ("window", "anomaly"):
        rows = rows_of(tmp_path, {"window": "windows", "anomaly": "anomalies"}[result])
        shared = set(rows[0]) & set(sent[0]) - {"window_start", "window_end"}
        of_result = [one for one in sent if one["result"] == result]
        assert Counter(tuple(one[name] for name in shared) for one in of_result) == Counter(
            tuple(row[name] for name in shared) for row in rows
        )
    keys = {row.key.decode() for row in records}
    assert {"a host cpu.used", "b shop http.responses 2xx"} <= keys
    assert {one["window_start"] for one in sent} >= {"2026-09-21T14:13:20.000Z"}


def test_request_times_of_the_collector_are_read_as_histograms(session):
    log = AccessSamples("shop", access_pattern(COMBINED), UNITS_US["s"])
    for time in (b"0.200", b"0.050", b"0.049", b"5000"):
        log.add(b'"GET / HTTP/1.1" 200 1 "-" "-" ' + time)
    values = [encode(sample, "web-1", 1_790_000_000_000, 10.0) for sample in log.take(10.0)]
    rows = {row.metric: row for row in parsed(session, values, 0).collect()}
    assert {row.reason for row in rows.values()} == {None}
    times = rows["http.time"]
    assert (times.kind, times.reading, times.sum) == ("histogram", None, pytest.approx(5000.299))
    assert [tuple(bucket) for bucket in times.buckets] == [
        (0.045, 0), (0.05, 2), (0.18, 0), (0.2, 1), (1000, 0), (None, 1),
    ]  # fmt: skip


def test_options_that_nothing_can_satisfy_are_refused(session, tmp_path):
    stage = stage_of(session, METRICS, tmp_path, {**OPTIONS, "history-min": 7})
    with pytest.raises(UserError, match="nothing would ever stand out"):
        start(stage)
