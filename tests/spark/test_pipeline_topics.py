"""What pipelines send when windows are closed is there once, wherever a batch was cut short.

The steps inside of a sending have tests of their own, in `test_sink_publication.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic
from moldau.spark.pipelines.logs import start as logs
from moldau.spark.pipelines.logs.declared import LOGS
from moldau.spark.pipelines.logs.reading import read_lines
from moldau.spark.pipelines.metrics import start as metrics
from moldau.spark.pipelines.metrics.declared import METRICS
from moldau.spark.pipelines.metrics.samples import read_samples
from moldau.spark.pipelines.running.failures import PipelineFailed
from moldau.spark.pipelines.storage import LocalFiles
from spark import logs_model, metrics_kit
from spark.activity_model import rows_of
from spark.pipeline_kit import Crash, frame_of, pipeline_settings, stage_of
from spark.topic_rows import stored_rows

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
_HEADERS = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"


@pytest.fixture
def session(spark):
    with pipeline_settings(spark) as prepared:
        yield prepared


class CutShort(LocalFiles):
    """Files of a process that ends when it is about to write one of them."""

    def __init__(self, place: str) -> None:
        self._place = place

    def write(self, path: str, data: str | bytes) -> None:
        if self._place in path:
            raise Crash
        super().write(path, data)


class Sending(NamedTuple):
    """A pipeline that sends, with two batches of which the second closes windows of the first."""

    pipeline: Any
    topics: tuple[str, ...]
    """The options that name topics; all are given one."""
    options: dict[str, Any]
    batches: tuple[list[bytes], list[bytes]]
    take: Callable[[Any, Any, int], None]
    places: tuple[str, ...]
    """Where the second batch is cut short before it has sent."""
    later_places: tuple[str, ...]
    """Where it is after that."""
    filed: tuple[str, ...]
    """The tables whose rows are sent."""


def _line(text: str, at_s: int) -> bytes:
    time = NOON + timedelta(seconds=at_s)
    return f"time={time:%Y-%m-%dT%H:%M:%SZ} service=shop {text}".encode()


def _take_lines(stage, frame, number):
    lines = read_lines(frame.selectExpr("*", _HEADERS), logs.rules_of(stage))
    logs.logs(stage).take(lines, number)


def _take_samples(stage, frame, number):
    metrics.batches_of(stage).take(read_samples(frame), number)


def _sample(at_s: int) -> bytes:
    time_ms = metrics_kit.FIRST_MS + 1000 * at_s
    return metrics_kit.told("h", time_ms, kind="gauge", value=1, unit="ratio")


SENDING = (
    Sending(
        LOGS,
        ("alerts-topic", "rates-topic"),
        dict(logs_model.OPTIONS),
        ([_line("level=error msg=bad", 0)] * 9, [_line("level=info msg=fine", 60)]),
        _take_lines,
        ("/error_rates/", "/alerts/", "/alerts/_spark_metadata"),
        ("/state/1", "/state/1"),
        ("error_rates", "alerts"),
    ),
    Sending(
        METRICS,
        ("results-topic",),
        dict(metrics_kit.OPTIONS),
        ([_sample(at_s) for at_s in range(25)], [_sample(90)]),
        _take_samples,
        ("/windows/", "/anomalies/_spark_metadata"),
        ("/pasts/", "/state/1"),
        ("windows", "anomalies"),
    ),
)


@pytest.mark.long
@pytest.mark.parametrize("sending", SENDING, ids=lambda one: one.pipeline.name)
def test_a_batch_that_is_run_again_sends_nothing_twice(session, broker, tmp_path, sending):
    topic = create_topic(broker.address, fresh_topic("told"))
    options = {**sending.options, **dict.fromkeys(sending.topics, topic)}

    def take(number, files=None):
        """Bring a batch as Spark would, to a new process."""
        stage = stage_of(session, sending.pipeline, tmp_path, options, files, broker.address)
        first = len(sending.batches[0]) * number
        rows = [(None, value, first + at) for at, value in enumerate(sending.batches[number])]
        sending.take(stage, frame_of(session, rows), number)

    def sent():
        return [json.loads(row.value) for row in stored_rows(broker.address, topic)]

    take(0)
    before = len(sent())
    for place in sending.places:
        with pytest.raises(Crash):
            take(1, CutShort(place))
        assert len(sent()) == before
    for place in sending.later_places:
        with pytest.raises(Crash):
            take(1, CutShort(place))
        assert len(sent()) > before
    take(1)

    filed = [row["window_start"] for name in sending.filed for row in rows_of(tmp_path, name)]
    assert sorted(filed) == sorted(datetime.fromisoformat(one["window_start"]) for one in sent())


def test_what_was_sent_is_not_sent_anew_by_older_tables(session, broker, tmp_path):
    topic = create_topic(broker.address, fresh_topic("told"))
    stage = stage_of(session, LOGS, tmp_path, logs_model.OPTIONS, address=broker.address)
    rows = session.createDataFrame([("k", "v")], "key STRING, value STRING").coalesce(1)
    for number in (-10, 5, 5):
        stage.send(rows, topic, number)
    with pytest.raises(Exception, match=r"write 4 of .* was refused, because 5 has been") as failed:
        stage.send(rows, topic, 4)
    assert PipelineFailed("landing", str(failed.value)).is_final
    assert len(stored_rows(broker.address, topic)) == 2
