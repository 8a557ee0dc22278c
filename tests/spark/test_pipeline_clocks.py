"""One source whose clock is ahead: the others stay on time, and the status names it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from moldau.spark.pipelines.activity.declared import ACTIVITY
from moldau.spark.pipelines.activity.events import read_events
from moldau.spark.pipelines.activity.start import activity
from moldau.spark.pipelines.logs.declared import LOGS
from moldau.spark.pipelines.logs.reading import read_lines
from moldau.spark.pipelines.logs.start import logs, rules_of
from moldau.spark.pipelines.metrics.declared import METRICS
from moldau.spark.pipelines.metrics.samples import read_samples
from moldau.spark.pipelines.metrics.start import batches_of
from moldau.spark.pipelines.records import gathering
from spark import activity_kit, logs_model, metrics_kit
from spark.pipeline_kit import frame_of, pipeline_settings, stage_of

HOUR_MS = 3_600_000
"""Clocks differ by hours here, so that a slow machine is as good as a fast one."""
NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def session(spark):
    with pipeline_settings(spark) as prepared:
        yield prepared


def time_of(ahead_h):
    return (NOW + timedelta(hours=ahead_h)).isoformat().replace("+00:00", "Z")


def event(number, name, ahead_h):
    time = time_of(ahead_h)
    return {"event_id": f"e-{number}", "kind": "view", "user": name, "page": "/", "time": time}


def sample(number, name, ahead_h):
    time = time_of(ahead_h)
    return {"time": time, "host": name, "service": "s", "metric": "m", "value": number}


def line(number, name, ahead_h):
    return {"time": time_of(ahead_h), "host": name, "msg": number}


def take_activity(stage, frame, number):
    activity(stage).take(read_events(frame), number)


def take_metrics(stage, frame, number):
    batches_of(stage).take(read_samples(frame), number)


def take_logs(stage, frame, number):
    headers = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"
    logs(stage).take(read_lines(frame.selectExpr("*", headers), rules_of(stage)), number)


ACTIVITY_CASE = (ACTIVITY, activity_kit.OPTIONS, take_activity, event)


@pytest.mark.parametrize(
    ("pipeline", "options", "take", "made", "rows_max"),
    [
        pytest.param(*ACTIVITY_CASE, 50_000, id="activity"),
        pytest.param(*ACTIVITY_CASE, 1, id="large batches"),
        pytest.param(
            *(METRICS, metrics_kit.OPTIONS, take_metrics, sample, 50_000),
            id="metrics",
            marks=pytest.mark.long,
        ),
        pytest.param(
            *(LOGS, logs_model.OPTIONS, take_logs, line, 50_000), id="logs", marks=pytest.mark.long
        ),
    ],
)
def test_a_clock_that_is_ahead_makes_nothing_late(
    session, tmp_path, monkeypatch, pipeline, options, take, made, rows_max
):
    """The first batch has a source that is ahead within --skew, and one beyond it."""
    monkeypatch.setattr(gathering, "ROWS_MAX", rows_max)
    options = {**options, "topic": "none", "skew": 10 * HOUR_MS, "delay": 2 * HOUR_MS}
    batches = [
        [made(0, "right", 0), made(1, "ahead", 9), made(2, "lost", 60)],
        [made(number, "right", 0) for number in range(3, 10)],
    ]
    for number, told in enumerate(batches):
        stage = stage_of(session, pipeline, tmp_path, options)
        rows = [(None, json.dumps(one).encode(), number * 10 + at) for at, one in enumerate(told)]
        take(stage, frame_of(session, rows), number)
        assert stage.report.totals["late"] == 0
        assert stage.report.ahead["source"] == "lost"
        assert stage.report.ahead["by_ms"] > 50 * HOUR_MS
    now_ms = datetime.now(UTC).timestamp() * 1000
    assert NOW.timestamp() * 1000 <= stage.report.newest_ms <= now_ms
