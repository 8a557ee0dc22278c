"""The changelog pipeline as a whole: its table is the last value of each key, after any crash.

Readers with and without Spark see one version or the next, never something in between.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic
from moldau.base.errors import UserError
from moldau.spark.pipelines.changelog import version
from moldau.spark.pipelines.changelog.batches import Batches
from moldau.spark.pipelines.changelog.declared import CHANGELOG
from moldau.spark.pipelines.changelog.querying import current_frame
from moldau.spark.pipelines.changelog.reading import Snapshot, current
from moldau.spark.pipelines.changelog.start import start
from moldau.spark.pipelines.changelog.store import FILES_KEPT_MS
from moldau.spark.pipelines.records import gathering
from spark.activity_model import rows_of
from spark.changelog_model import (
    BROKEN,
    by_key,
    check_rows,
    last_values,
    made_up_records,
    price_of,
)
from spark.pipeline_kit import STRIDES, frame_of, pipeline_settings, stage_of, until_done
from spark.topic_rows import TopicRow, send_rows


class Noon:
    """A clock that stands still, until it is moved."""

    def __init__(self):
        self.time_ms = 1_790_000_000_000

    def monotonic(self):
        return self.time_ms / 1000

    def wall_ms(self):
        return self.time_ms


@pytest.fixture
def session(spark):
    with pipeline_settings(spark):
        yield spark


@pytest.mark.parametrize("stride", STRIDES)
def test_crashes_between_its_steps_show_no_reader_half_a_batch(
    session, tmp_path, monkeypatch, stride
):
    """Batches as Spark would bring them: the same one again, to a new process, until it is done.

    The first is merged into the base, the next two among themselves, and then all of them.
    """
    monkeypatch.setattr(version, "CHANGES_MAX", 1)
    records = made_up_records(100)
    options = {"topic": "none", "merge-ratio": 1.0}
    crashes = 0
    for number, (first, end) in enumerate(pairwise((0, 60, 70, 80, 100))):
        rows = [(*records[at], at) for at in range(first, end)]
        before, after = last_values(records[:first]), last_values(records[:end])

        def take(files, rows=rows, number=number):
            stage = stage_of(session, CHANGELOG, tmp_path, options, files)
            Batches(stage, Noon()).take(frame_of(session, rows), number)

        for _ in until_done(session, 1, take, stride):
            crashes += 1
            if (tmp_path / "table" / "_versions" / "0").exists():
                assert by_key(current(str(tmp_path)).to_pylist()) in (before, after)
        assert by_key(current(str(tmp_path)).to_pylist()) == after

    assert crashes >= 8 / stride
    found = Snapshot.of(str(tmp_path)).version
    assert (found.merges, found.number + 1) == (2, 4 + 2 + 1)
    expected = last_values(records)
    check_rows(current(str(tmp_path)).to_pylist(), expected)
    check_rows([row.asDict() for row in current_frame(session, str(tmp_path)).collect()], expected)
    dead = {(row["key"], row["value"]): row["reason"] for row in rows_of(tmp_path, "dead_letters")}
    assert dead == BROKEN


def test_a_run_keeps_up_with_a_topic_also_where_rows_stay_with_spark(
    session, broker, tmp_path, monkeypatch
):
    monkeypatch.setattr(version, "ROWS_MIN", 5)
    monkeypatch.setattr(gathering, "ROWS_MAX", 2)
    topic = create_topic(broker.address, fresh_topic("changes"))
    records = made_up_records(50)
    stage = stage_of(session, CHANGELOG, tmp_path, {"topic": topic}, address=broker.address)
    for first in (0, 25):
        part = enumerate(records[first : first + 25], first)
        send_rows(broker.address, [TopicRow(*one, topic, 0, at, at) for at, one in part])
        for query in start(stage):
            query.awaitTermination()

    check_rows(current(str(tmp_path)).to_pylist(), last_values(records))
    assert sum(stage.report.totals.values()) == len(records)
    assert stage.report.totals["dead"] == len(BROKEN)
    again = stage_of(session, CHANGELOG, tmp_path, {"topic": topic}, address=broker.address)
    Batches(again, Noon())  # which tells what was counted before a batch has come
    assert again.report.totals == stage.report.totals
    plain = session.read.parquet(str(tmp_path / "table"))
    assert by_key(plain.collect()) == last_values(records)
    key, value = max(last_values(records).items())
    some = current(str(tmp_path), keys=[key], columns=["price"]).to_pylist()
    assert some == [{"_key": key, "price": price_of(value)}]


def test_files_stay_for_readers_of_a_version_and_go_when_these_are_through(
    session, tmp_path, monkeypatch
):
    monkeypatch.setattr(version, "ROWS_MIN", 5)
    clock = Noon()
    stage = stage_of(session, CHANGELOG, tmp_path, {"topic": "none"})
    batches = Batches(stage, clock)

    def take(number, count):
        rows = [(b"k-%d" % at, b'{"a": %d}' % number, at) for at in range(count)]
        batches.take(frame_of(session, rows), number)

    take(0, 3)
    old = Snapshot.of(str(tmp_path))
    take(1, 40)
    assert len(old.rows(None, None)) == 3
    clock.time_ms += FILES_KEPT_MS + 1
    take(2, 1)
    with pytest.raises(FileNotFoundError):
        old.rows(None, None)
    kept = {path.relative_to(tmp_path / "table") for path in tmp_path.glob("table/**/*.parquet")}
    assert {str(path) for path in kept} == Snapshot.of(str(tmp_path)).version.names()


def test_a_folder_may_be_named_as_patterns_are(session, tmp_path):
    """Another one fits the pattern; the last fits not even its own."""
    for name in ("ab", "a*", "a[1]"):
        stage = stage_of(session, CHANGELOG, tmp_path / name, {"topic": "none"})
        Batches(stage, Noon()).take(frame_of(session, [(name.encode(), b"{}", 0)]), 0)
        assert [row["_key"] for row in current(str(tmp_path / name)).to_pylist()] == [name]
        assert [row["_key"] for row in current_frame(session, str(tmp_path / name)).collect()] == [
            name
        ]


def test_what_does_not_fit_the_table_is_refused(session, tmp_path):
    stage = stage_of(session, CHANGELOG, tmp_path, {"topic": "none", "bad-ratio": 0.5})
    with pytest.raises(UserError, match="30 of 30 records cannot be read"):
        Batches(stage, Noon()).take(frame_of(session, [(None, b"", at) for at in range(30)]), 0)
    assert not rows_of(tmp_path, "dead_letters")
    with pytest.raises(UserError, match="batches up to -1, and is to get 3"):
        Batches(stage, Noon()).take(frame_of(session, []), 3)
    batches = Batches(stage, Noon())
    for number in range(2):
        batches.take(frame_of(session, [(b"k", None, number)]), number)
    with pytest.raises(UserError, match="the checkpoint is an older copy"):
        batches.take(frame_of(session, []), 0)


def test_rows_are_still_there_when_a_missing_version_is_put_back(session, tmp_path):
    def take(number):
        stage = stage_of(session, CHANGELOG, tmp_path, {"topic": "none"})
        rows = frame_of(session, [(b"key-%d" % number, b"{}", number)])
        Batches(stage, Noon()).take(rows, number)

    take(0)
    take(1)
    versions = tmp_path / "table" / "_versions"
    versions.rename(tmp_path / "kept")
    with pytest.raises(UserError, match="batches up to -1, and is to get 2"):
        take(2)
    (tmp_path / "kept").rename(versions)
    take(2)
    assert len(current(str(tmp_path))) == 3
