"""The metrics pipeline as a whole: its tables are what a plain computation over the records gives.

Also after crashes between its steps. What it finds goes to a topic as well.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

import pytest

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from moldau.base.errors import UserError
from moldau.collect.metrics.samples import Sample, encode
from moldau.spark.pipelines.metrics.declared import METRICS
from moldau.spark.pipelines.metrics.deviation import LEAST_CHANGES
from moldau.spark.pipelines.metrics.samples import read_samples
from moldau.spark.pipelines.metrics.start import batches_of, start
from moldau.spark.pipelines.windowed import gathering
from spark.activity_model import rows_of, stray_files
from spark.metrics_model import Rules, check_tables
from spark.pipeline_kit import frame_of, pipeline_settings, stage_of, until_done
from spark.topic_rows import stored_rows

RULES = Rules(10, 20, 6, 3, 6, 0.2, dict(LEAST_CHANGES))
OPTIONS = {
    "topic": "none", "window": 10_000, "delay": 20_000, "skew": 600_000, "history": 6,
    "history-min": 3,
}  # fmt: skip
FIRST_MS = 1_790_000_000_000
STEP_MS = 2_000
BROKEN = {
    b"not json": "not a JSON object",
    b'{"metric": "m"}': "no host, or one of more than 512 characters",
    b'{"host": "h", "service": "s", "metric": "m", "value": "much"}': "value is no number",
    b'{"host": "h", "service": "s", "metric": "m", "value": 1, "kind": "sum"}': (
        "kind is none of gauge, count, counter, histogram"
    ),
    b'{"host": "h", "service": "s", "metric": "m", "kind": "histogram", "buckets": [[1]]}': (
        "buckets are no pairs of a bound and a count"
    ),
    b'{"host": "h", "service": "s", "metric": "m", "value": 1, "interval_s": 0}': (
        "interval_s is no time above zero"
    ),
    b'{"host": "h", "service": "s", "metric": "m", "value": 1}': (
        "no time such as 2026-11-16T12:00:00Z"
    ),
    b'{"host":"h","service":"s","metric":"m","value":1,"time":"2100-01-01T00:00:00Z"}': (
        "time lies in the future"
    ),
}


@pytest.fixture
def session(spark):
    with pipeline_settings(spark):
        yield spark


def made_up_samples(ticks):
    """Return what two hosts send, tick by tick: all kinds, and one thing that stands out in each.

    A counter is reset, some samples come twice and some late.
    """
    chance = random.Random(3)
    values, totals = [], {"a": 0, "b": 500}
    for tick in range(ticks):
        time_ms = FIRST_MS + STEP_MS * tick
        wild = 30 <= tick < 35
        for host in ("a", "b"):
            cpu = 0.95 if wild and host == "a" else 0.2 + 0.01 * chance.random()
            requests = 2 + chance.randrange(3)
            values.append(encode(Sample("host", "cpu.used", cpu, "ratio"), host, time_ms, 2.0))
            sample = Sample("shop", "http.responses", requests, "count", "2xx")
            values.append(encode(sample, host, time_ms, 2.0))
            totals[host] = 3 if tick == 17 else totals[host] + (900 if wild else 10)
            values.append(told(host, time_ms, kind="counter", value=totals[host], unit="count"))
            times = [[0.1, 400], [0.5, 900 if wild else 2], [None, tick % 3]]
            values.append(
                told(host, time_ms, kind="histogram", buckets=times, sum=4.5, unit="seconds")
            )
        if tick % 10 == 9:
            values += [values[-2], told("a", time_ms - 90_000, kind="gauge", value=1)]
    return values


def told(host, time_ms, **more):
    time = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
    return json.dumps(
        {"time": time, "host": host, "service": "shop", "metric": "sent", **more}
    ).encode()


def parsed(spark, values, first):
    return read_samples(
        frame_of(spark, [(None, value, first + at) for at, value in enumerate(values)])
    )


def test_crashes_between_its_steps_change_nothing(session, tmp_path):
    """Batches as Spark would bring them: the same one again, to a new process, until it is done."""
    values = [*made_up_samples(55), *BROKEN]
    size = len(values) // 2 + 1
    crashes = 0
    for number, first in enumerate(range(0, len(values), size)):
        rows = parsed(session, values[first : first + size], first)

        def take(files, rows=rows, number=number):
            batches_of(stage_of(session, METRICS, tmp_path, OPTIONS, files)).take(rows, number)

        crashes += len(list(until_done(session, 3, take)))

    expected = check_tables(tmp_path, values, RULES)
    assert crashes >= 4
    assert all(expected.fates.values())
    found = {(row["host"], row["kind"]) for row in rows_of(tmp_path, "anomalies")}
    assert found >= {("a", "gauge"), ("a", "counter"), ("b", "counter"), ("b", "histogram")}
    assert not {key for key in found if key[1] == "count"} | (found & {("b", "gauge")})
    dead = {row["value"]: row["reason"] for row in rows_of(tmp_path, "dead_letters")}
    assert dead == BROKEN
    assert not stray_files(tmp_path, METRICS.tables)
    windows = session.read.parquet(str(tmp_path / "windows"))
    assert windows.count() == len(expected.windows())


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
        assert {tuple(one[name] for name in shared) for one in sent if one["result"] == result} == {
            tuple(row[name] for name in shared) for row in rows
        }
    keys = {row.key.decode() for row in records}
    assert {"a host cpu.used", "b shop http.responses 2xx"} <= keys
    assert {one["window_start"] for one in sent} >= {"2026-09-21T14:13:20.000Z"}


def test_options_that_nothing_can_satisfy_are_refused(session, tmp_path):
    stage = stage_of(session, METRICS, tmp_path, {**OPTIONS, "history-min": 7})
    with pytest.raises(UserError, match="nothing would ever stand out"):
        start(stage)
