"""Pipelines whose tables merge their files all the time, and remove the old ones at once.

What a window needs must be there when it is closed, whichever way the files went in between.
"""

from __future__ import annotations

import pytest

from moldau.spark.pipelines.activity import start as activity
from moldau.spark.pipelines.activity.declared import ACTIVITY
from moldau.spark.pipelines.activity.events import read_events
from moldau.spark.pipelines.changelog.batches import Batches
from moldau.spark.pipelines.changelog.declared import CHANGELOG
from moldau.spark.pipelines.metrics.declared import METRICS
from moldau.spark.pipelines.metrics.samples import read_samples
from moldau.spark.pipelines.metrics.start import batches_of
from moldau.spark.pipelines.records import gathering
from moldau.spark.pipelines.tables import file_log, merging
from moldau.spark.pipelines.tables.merging import MERGED
from spark import activity_kit, activity_model, metrics_kit, metrics_model
from spark.activity_model import committed_files, rows_of
from spark.pipeline_kit import frame_of, pipeline_settings, stage_of, until_done


@pytest.fixture
def session(spark, monkeypatch):
    """Return the session, with tables that merge at every second append and keep nothing old."""
    monkeypatch.setattr(file_log, "COMPACT_EVERY", 2)
    monkeypatch.setattr(merging, "REPLACED_KEPT_MS", 0)
    with pipeline_settings(spark) as prepared:
        yield prepared


def merged(table):
    return [path for path in committed_files(table) if MERGED in path.name]


@pytest.mark.long
def test_windows_find_their_events_through_merges_and_crashes(session, tmp_path):
    """The fourth batch merges; it comes again, to a new process, until it is done."""
    records = activity_kit.made_up_records(batches=5)
    size = activity_kit.BATCH_ROWS
    options = {**activity_kit.OPTIONS, "delay": 5_000}  # so that batches let files go soon

    def take(number, files=None):
        stage = stage_of(session, ACTIVITY, tmp_path, options, files)
        part = records[number * size : (number + 1) * size]
        frame = frame_of(session, [(None, one.value, one.offset) for one in part])
        activity.activity(stage).take(read_events(frame), number)

    for number in range(3):
        take(number)
    crashes = len(list(until_done(session, 8, lambda files: take(3, files))))
    take(4)

    activity_model.check_tables(tmp_path, records, activity_kit.RULES._replace(delay_s=5))
    assert crashes >= 2
    for name in ("events", "pages"):
        assert merged(tmp_path / name), name
    events = session.read.parquet(str(tmp_path / "events"))
    assert events.count() == len(rows_of(tmp_path, "events"))


@pytest.mark.long
def test_samples_of_tasks_and_of_the_driver_are_merged(session, tmp_path, monkeypatch):
    """Every second batch is written by Spark, which says more of the lists in its files."""
    values = metrics_kit.made_up_samples(48)
    size = len(values) // 4 + 1
    for number, first in enumerate(range(0, len(values), size)):
        monkeypatch.setattr(gathering, "ROWS_MAX", 2 if number % 2 else 50_000)
        part = enumerate(values[first : first + size], first)
        rows = read_samples(frame_of(session, [(None, value, at) for at, value in part]))
        stage = stage_of(session, METRICS, tmp_path, metrics_kit.OPTIONS)
        batches_of(stage).take(rows, number)

    metrics_model.check_tables(tmp_path, values, metrics_kit.RULES)
    assert merged(tmp_path / "samples")
    samples = session.read.parquet(str(tmp_path / "samples"))
    assert samples.where("buckets IS NOT NULL").count() == sum(
        row["buckets"] is not None for row in rows_of(tmp_path, "samples")
    )


def test_dead_letters_of_a_changelog_are_merged(session, tmp_path):
    class Noon:
        def wall_ms(self):
            return 1_794_744_000_000

    for number in range(4):
        batches = Batches(stage_of(session, CHANGELOG, tmp_path, {"topic": "none"}), Noon())
        batches.take(frame_of(session, [(None, b"%d" % number, number)]), number)
    assert merged(tmp_path / "dead_letters")
    assert sorted(row["offset"] for row in rows_of(tmp_path, "dead_letters")) == [0, 1, 2, 3]
