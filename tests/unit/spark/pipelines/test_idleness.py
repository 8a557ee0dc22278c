"""When a query counts as idle, and what a run does then."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from moldau.base.errors import UserError
from moldau.spark.pipelines.declaration import Pipeline
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.running import frame
from moldau.spark.pipelines.running.failures import PipelineFailed
from moldau.spark.pipelines.running.frame import Order, Run
from moldau.spark.pipelines.running.idleness import Idleness

WAITING = {"message": "Waiting for data to arrive", "isDataAvailable": False,
           "isTriggerActive": False}  # fmt: skip
ASKING = {**WAITING, "message": "Getting offsets from moldau", "isTriggerActive": True}
READING = {**ASKING, "message": "Processing new data", "isDataAvailable": True}


def idle_at(*observed):
    """Return the times at which a query is idle, given its batch and status at each."""
    idleness = Idleness(10)
    return [now for now, batch, status in observed if idleness.observe(batch, status, now)]


def test_a_query_is_idle_once_it_has_found_nothing_for_long_enough():
    observed = [(now, 3, WAITING) for now in range(5, 20, 3)]
    assert idle_at(*observed) == [17]


def test_a_batch_and_data_begin_the_time_anew():
    assert idle_at((0, 3, WAITING), (9, 4, WAITING), (18, 4, WAITING), (19, 4, WAITING)) == [19]
    assert idle_at((0, 3, WAITING), (9, 3, READING), (18, 3, WAITING), (19, 3, WAITING)) == [19]


def test_a_query_that_waits_for_brokers_is_not_idle():
    assert idle_at((0, 3, ASKING), (100, 3, ASKING), (101, 3, WAITING)) == [101]


class Query:
    """A query that has read all there is, and ends after so many looks."""

    name = "landing"
    status = WAITING

    def __init__(self, looks):
        self._looks = looks
        self.lastProgress = SimpleNamespace(json=json.dumps({"name": "landing", "batchId": 0}))

    @property
    def isActive(self):  # noqa: N802 - Spark's name
        self._looks -= 1
        return self._looks > 0

    def stop(self):
        pass

    def exception(self):
        return None


def run(monkeypatch, tmp_path, pass_time, **order):
    """Run a pipeline without Spark; return the statuses it has told."""
    told = []

    def start(stage):
        stage.follow_clock(pass_time)
        stage.report.watermark_ms = 7
        return [Query(5)]

    monkeypatch.setitem(sys.modules, "made_up", SimpleNamespace(start=start))
    monkeypatch.setattr(frame, "LOOK_S", 0.001)
    pipeline = Pipeline("p", "", "made_up:start", (), ())
    given = Order(pipeline, Places.of(str(tmp_path)), {"idle": 0}, {}, **order)
    spark = SimpleNamespace(
        sparkContext=SimpleNamespace(master="none"), streams=SimpleNamespace(active=())
    )
    Run(given, told.append, session=lambda: nullcontext(spark), pauses_s=()).run()
    return told


def test_a_run_tells_the_time_while_it_is_idle(monkeypatch, tmp_path):
    calls = []
    run(monkeypatch, tmp_path, lambda now_ms, *, is_end: calls.append(is_end))
    assert calls
    assert not any(calls)


def test_a_run_that_has_read_all_there_is_tells_the_time_once_at_its_end(monkeypatch, tmp_path):
    calls = []

    def pass_time(now_ms, *, is_end):
        calls.append(is_end)
        return True

    told = run(monkeypatch, tmp_path, pass_time, once=True)
    assert calls == [True]
    assert (told[-1]["state"], told[-1]["watermark_ms"]) == ("stopped", 7)


@pytest.mark.parametrize("once", [True, False])
def test_what_fails_by_the_clock_ends_a_run_with_one_line(monkeypatch, tmp_path, once):
    def pass_time(now_ms, *, is_end):
        raise UserError("no table")

    with pytest.raises(PipelineFailed, match="the query landing has failed: no table"):
        run(monkeypatch, tmp_path, pass_time, once=once)
