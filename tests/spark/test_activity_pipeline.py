"""The activity pipeline as a whole: its tables are what a plain computation over the records gives.

Also after crashes between its steps, and where batches are too large for the driver.
"""

from __future__ import annotations

import contextlib
import threading

import pytest

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from moldau.base.errors import UserError
from moldau.spark.pipelines.activity import start
from moldau.spark.pipelines.activity.declared import ACTIVITY
from moldau.spark.pipelines.activity.events import read_events
from moldau.spark.pipelines.records import gathering
from spark.activity_kit import BATCH_ROWS, OPTIONS, RULES, TestRun, activity_topic, made_up_records
from spark.activity_model import Record, check_live, check_tables, rows_of, stray_files
from spark.pipeline_kit import Crash, CrashingFiles, frame_of, pipeline_settings, stage_of
from spark.source_kit import delete_records
from spark.topic_rows import stored_rows

PATIENCE_S = 300
"""After which a run is stopped that does not come to its end."""


@pytest.fixture
def session(spark):
    with pipeline_settings(spark) as prepared:
        yield prepared


def take(session, out, records, number, files=None, **options):
    """Bring a batch as Spark would, to a new process."""
    batches = start.activity(stage_of(session, ACTIVITY, out, {**OPTIONS, **options}, files))
    rows = records[number * BATCH_ROWS : (number + 1) * BATCH_ROWS]
    frame = frame_of(session, [(None, record.value, record.offset) for record in rows])
    batches.take(read_events(frame), number)


@pytest.mark.long
def test_crashes_between_its_steps_change_nothing(session, tmp_path):
    """The second batch has some twenty steps of all kinds; it comes again until it is done."""
    records = made_up_records(batches=2)
    take(session, tmp_path, records, 0)
    crashes = 0
    while not (tmp_path / "_moldau" / "state" / "1").exists():
        crashes += 1
        with contextlib.suppress(Crash):
            take(session, tmp_path, records, 1, CrashingFiles(session, 3))
            crashes -= 1

    expected = check_tables(tmp_path, records, RULES)
    assert crashes >= 4
    assert all(expected.fates.values())
    assert expected.sessions()
    for row in rows_of(tmp_path, "late"):
        assert row["time"] < row["closed_until"]
    assert not stray_files(tmp_path, ACTIVITY.tables)


def test_sessions_are_told_apart_to_the_microsecond(session, tmp_path):
    """The gap is 15 s; the first batch closes windows until 12:00:20, the second until 12:01."""
    batches = [
        [("near", "00:05.000600"), ("far", "00:05.000600"), ("clock", "00:41")],
        [("near", "00:20.000599"), ("far", "00:20.000600"), ("clock", "01:21")],
    ]
    values = [
        b'{"event_id":"e","kind":"view","user":"%s","page":"/","time":"2026-11-16T12:%sZ"}'
        % (user.encode(), time.encode())
        for batch in batches
        for user, time in batch
    ]
    records = [Record(0, offset, value) for offset, value in enumerate(values)]
    taken = start.activity(stage_of(session, ACTIVITY, tmp_path, OPTIONS))
    for number in range(2):
        rows = records[3 * number : 3 * number + 3]
        frame = frame_of(session, [(None, record.value, record.offset) for record in rows])
        taken.take(read_events(frame), number)

    check_tables(tmp_path, records, RULES)
    users = [row["user"] for row in rows_of(tmp_path, "sessions")]
    assert sorted(users) == ["clock", "far", "far", "near"]


@pytest.mark.long
def test_what_is_too_large_for_the_driver_is_written_by_spark(session, tmp_path, monkeypatch):
    monkeypatch.setattr(gathering, "ROWS_MAX", 10)
    out = tmp_path / "with space"
    records = made_up_records(batches=2)
    for number in range(2):
        take(session, out, records, number)

    expected = check_tables(out, records, RULES)
    events = session.read.parquet(str(out / "events"))
    assert events.count() == len(expected.fates["events"])
    assert "date" in events.columns


def test_rows_come_to_the_driver_unless_they_are_many_or_large(session, monkeypatch):
    with gathering.gathered(session.range(5)) as rows:
        assert rows.small.num_rows == 5
    for limit in ("ROWS_MAX", "SIZE_MAX"):
        monkeypatch.setattr(gathering, limit, 4)
        with gathering.gathered(session.range(5)) as rows:
            assert (rows.small, rows.count()) == (None, 5)
        monkeypatch.undo()


def test_the_queries_of_a_run_file_records_and_send_live_counts(session, broker, tmp_path):
    topic, records = activity_topic(broker.address, batches=2)
    live = create_topic(broker.address, fresh_topic("live"))
    run = TestRun(session, broker.address, topic, tmp_path)

    run.run(**{"live-topic": live})

    check_tables(tmp_path, records, RULES, ends=[-1])
    dead = {row["value"]: row["reason"] for row in rows_of(tmp_path, "dead_letters")}
    assert dead[b"not json"] == "not one JSON object"
    assert "time lies in the future" in dead.values()
    assert "no page, or one of more than 2048 characters" in dead.values()
    assert run.states[:2] == ["starting", "running"]
    assert run.states[-1] == "stopped"
    assert sum(run.told[-1]["totals"].values()) == len(records)
    sent = [(row.key, row.value) for row in stored_rows(broker.address, live)]
    check_live(sent, records, RULES, BATCH_ROWS)
    assert session.read.parquet(str(tmp_path / "pages")).count() == len(rows_of(tmp_path, "pages"))


def test_windows_and_sessions_of_a_topic_that_falls_silent_are_closed_by_the_clock(
    session, broker, tmp_path
):
    topic, _ = activity_topic(broker.address, batches=1)
    run = TestRun(session, broker.address, topic, tmp_path)

    def counted():
        views = sum(row["pv"] for row in rows_of(tmp_path, "pages"))
        return views + sum(row["searches"] for row in rows_of(tmp_path, "searches"))

    def ended():
        return sum(row["views"] + row["searches"] for row in rows_of(tmp_path, "sessions"))

    def sent():
        return len({row["event_id"] for row in rows_of(tmp_path, "events")})

    run.is_enough = lambda status: counted() == ended() == sent() > 0
    guard = threading.Timer(PATIENCE_S, run.stop)
    guard.start()
    run.run(once=False, idle=1)
    guard.cancel()
    assert run.states[-1] == "stopped"
    assert counted() == ended() == sent()


@pytest.mark.long
def test_live_counts_go_on_after_a_pause_in_which_records_were_deleted(session, broker, tmp_path):
    topic, live = (create_topic(broker.address, fresh_topic(name)) for name in ("activity", "live"))
    records = made_up_records(batches=3)
    values = [record.value or b"" for record in records]
    run = TestRun(session, broker.address, topic, tmp_path)

    send(broker.address, topic, values[:BATCH_ROWS])
    run.run(**{"live-topic": live})
    sent = stored_rows(broker.address, live)

    send(broker.address, topic, values[BATCH_ROWS : 2 * BATCH_ROWS])
    damaged = tmp_path / "_moldau" / "checkpoint" / "live" / "offsets" / "99"
    damaged.write_text("nonsense")
    run.run()  # it does not look at what it does not go on from
    damaged.unlink()
    delete_records(broker, topic, 0, 2 * BATCH_ROWS)

    send(broker.address, topic, values[2 * BATCH_ROWS :])
    run.run(**{"live-topic": live})
    check_tables(tmp_path, records, RULES, ends=[0, 1, 2])
    assert len(stored_rows(broker.address, live)) > len(sent) > 0


def test_too_many_bad_records_stop_the_pipeline_before_anything_is_filed(session, tmp_path):
    records = [Record(0, offset, b"nonsense") for offset in range(30)]

    with pytest.raises(UserError, match="30 of 30 records cannot be read"):
        take(session, tmp_path, records, 0, **{"bad-ratio": 0.5})
    assert not rows_of(tmp_path, "dead_letters")
