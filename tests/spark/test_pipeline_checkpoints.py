"""Checkpoints that are not those of the tables: an older copy leaves nothing out without a word."""

from __future__ import annotations

import contextlib

import pytest

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic
from moldau.base.errors import UserError
from moldau.spark.pipelines.changelog.declared import CHANGELOG
from moldau.spark.pipelines.changelog.reading import current
from moldau.spark.pipelines.logs.declared import LOGS
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.running.frame import Order, Run
from spark.activity_model import rows_of
from spark.logs_model import OPTIONS
from spark.pipeline_kit import pipeline_settings, stage_of
from spark.topic_rows import FIRST_MS, TopicRow, send_rows


@pytest.fixture
def session(spark):
    with pipeline_settings(spark) as prepared:
        yield prepared


class Runs:
    """Runs of a pipeline until all there is has been read."""

    def __init__(self, session, broker, pipeline, out):
        self._session = session
        self._address = broker.address
        self._pipeline = pipeline
        self._topic = create_topic(broker.address, fresh_topic(pipeline.name))
        self._out = out
        self._sent = 0

    def run(self, count=0):
        """Send some records, and run."""
        rows = [
            TopicRow(b"k-%d" % at, b'{"n": %d}' % at, self._topic, 0, at, FIRST_MS)
            for at in range(self._sent, self._sent + count)
        ]
        send_rows(self._address, rows)
        self._sent += count
        given = {**(OPTIONS if self._pipeline is LOGS else {}), "topic": self._topic}
        order = Order(
            self._pipeline,
            Places.of(str(self._out)),
            stage_of(self._session, self._pipeline, self._out, given).options,
            {"kafka.bootstrap.servers": self._address},
            once=True,
        )
        Run(order, lambda _: None, session=self._given).run()

    def _given(self):
        return contextlib.nullcontext(self._session)

    def take_back(self):
        """Have the checkpoint as it was before its last batch was planned."""
        for log in ("offsets", "commits"):
            entries = self._out / "_moldau" / "checkpoint" / "landing" / log
            newest = max(entries.glob("[0-9]*"), key=lambda path: int(path.name))
            newest.unlink()
            newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


def filed(pipeline, out):
    """Return how many records are in the tables."""
    return len(current(str(out))) if pipeline is CHANGELOG else len(rows_of(out, "logs"))


@pytest.mark.parametrize(
    "pipeline",
    [LOGS, pytest.param(CHANGELOG, marks=pytest.mark.long)],
    ids=lambda one: one.name,
)
def test_a_copy_that_is_one_batch_older_is_refused_if_that_batch_has_become_another(
    session, broker, tmp_path, pipeline
):
    runs = Runs(session, broker, pipeline, tmp_path)
    runs.run(5)
    runs.run(5)
    runs.take_back()
    runs.run()  # the same records under the same number: nothing is lost, and nothing twice
    assert filed(pipeline, tmp_path) == 10

    runs.take_back()
    with pytest.raises(UserError) as refused:
        runs.run(5)
    told = str(refused.value)
    assert "has another batch 1: the checkpoint is an older copy" in told
    assert "\n" not in told
    assert filed(pipeline, tmp_path) == 10
