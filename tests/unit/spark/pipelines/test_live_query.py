"""The query of live counts beside that of the tables: what each is told, without Spark."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import MagicMock

import pytest

from moldau.spark.pipelines.activity import start
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.stage import Stage


@pytest.fixture
def stage(tmp_path, monkeypatch):
    for name in ("activity", "read_events", "with_now"):
        monkeypatch.setattr(start, name, MagicMock())
    monkeypatch.setattr(Stage, "started", lambda stage, name, writer: name)
    options = {"topic": "clicks", "live-topic": "counts", "window": 1, "skew": 9, "delay": 2}
    return Stage(MagicMock(), None, Places.of(str(tmp_path)), options, {}, {}, 10, "shop", "id")


@pytest.fixture
def live_counts(monkeypatch):
    monkeypatch.setattr(start, "live_counts", MagicMock())
    return start.live_counts


def groups(stage):
    """Return the groups to which the streams of a run commit."""
    reading = stage.spark.readStream.format.return_value.options
    return [call.kwargs.get("commitToGroup") for call in reading.call_args_list]


def test_each_query_commits_to_a_group_of_its_own(stage, live_counts):
    assert start.start(stage) == ["landing", "live"]
    assert groups(stage) == ["shop", "shop-live"]
    without = replace(stage, spark=MagicMock(), group=None)
    start.start(without)
    assert groups(without) == [None, None]


@pytest.mark.parametrize(("skew", "ahead"), [(9, 2), (1, 1)])
def test_live_counts_take_nothing_ahead_by_more_than_the_delay(stage, live_counts, skew, ahead):
    """Spark's watermark would follow it, and drop the events of right clocks."""
    start.start(replace(stage, options={**stage.options, "skew": skew}))
    assert live_counts.call_args.kwargs["skew_ms"] == ahead
