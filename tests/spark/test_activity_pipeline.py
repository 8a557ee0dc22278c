"""The activity pipeline as a whole: its tables are what a plain computation over the records gives.

Also after crashes between every two of its steps, and after its driver was killed in the middle.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_harness.distribution import SPARK_CONNECTOR
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kafka_harness.waiting import eventually
from moldau.base.errors import UserError
from moldau.spark.pipelines.activity.declared import ACTIVITY
from moldau.spark.pipelines.activity.events import read_events
from moldau.spark.pipelines.activity.generator import Crowd, Habits
from moldau.spark.pipelines.activity.start import Activity, start
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.session import SETTINGS
from moldau.spark.pipelines.stage import Stage
from moldau.spark.pipelines.storage import SparkFiles
from spark.activity_model import Record, Rules, check_tables, rows_of, stray_files
from spark.session import ENVIRONMENT, settings
from spark.topic_rows import stored_rows

RULES = Rules(window_s=10, delay_s=20, gap_s=15, top=3)
FIRST_MS = 1_790_000_000_000
OPTIONS = {
    "window": 10_000,
    "delay": 20_000,
    "session-gap": 15_000,
    "skew": 600_000,
    "top": 3,
    "bad-ratio": None,
    "live-topic": None,
}
BATCH_ROWS, STEP_MS = 150, 150
"""A batch spans some 22 s of events: every one of them closes windows, but for the first."""


@pytest.fixture
def session(spark):
    """Return the session with the setting of pipelines that tables show."""
    name = "spark.sql.parquet.outputTimestampType"
    spark.conf.set(name, SETTINGS[name])
    yield spark
    spark.conf.unset(name)


def made_up_records(batches):
    """Return records of one partition, with all that a pipeline must take."""
    crowd = Crowd(
        7, Habits(users=40, pages=8, late=0.1, late_by_ms=90_000, twice=0.03, broken=0.03)
    )
    values = [crowd.event(FIRST_MS + STEP_MS * n)[1] for n in range(batches * BATCH_ROWS - 1)]
    far = {
        "event_id": "far",
        "kind": "view",
        "user": "u",
        "page": "/",
        "time": "2100-01-01T00:00:00Z",
    }
    values.insert(BATCH_ROWS // 2, json.dumps(far).encode())
    return [Record(0, offset, value) for offset, value in enumerate(values)]


def activity_topic(broker, batches):
    """Fill a topic of one partition, so that batches are what they were sent as."""
    topic = create_topic(broker.address, fresh_topic("activity"))
    records = made_up_records(batches)
    send(broker.address, topic, [record.value for record in records])
    return topic, records


class Crash(Exception):  # noqa: N818 - it names the event
    """What ends a batch in the middle."""


class CrashingFiles(SparkFiles):
    """Files that fail at one of the steps that leave something behind."""

    def __init__(self, spark, survived):
        super().__init__(spark)
        self.left = survived

    def _step(self):
        self.left -= 1
        if self.left < 0:
            raise Crash

    def write(self, path, text):
        self._step()
        super().write(path, text)

    def move(self, old, new):
        self._step()
        super().move(old, new)


def stage_for(spark, out, topic, files=None, address="none:1", **more):
    return Stage(
        spark,
        files or SparkFiles(spark),
        Places.of(str(out)),
        {**OPTIONS, "topic": topic, **more},
        {"kafka.bootstrap.servers": address},
        {"availableNow": True},
        BATCH_ROWS,
        None,
    )


def finish(stage):
    for query in start(stage):
        query.awaitTermination()


def test_crashes_between_its_steps_change_nothing(session, tmp_path):
    """Batches as Spark would bring them: the same one again, to a new process, until it is done."""
    records = made_up_records(batches=2)
    crashes = 0
    steps = itertools.cycle((2, 3))
    for number in range(2):
        rows = records[number * BATCH_ROWS : (number + 1) * BATCH_ROWS]
        while not (tmp_path / "_moldau" / "state" / str(number)).exists():
            files = CrashingFiles(session, next(steps))
            activity = Activity(stage_for(session, tmp_path, "none", files))
            with contextlib.suppress(Crash):
                activity.take(read_events(as_frame(session, rows), OPTIONS["skew"]), number)
                crashes -= 1
            crashes += 1

    expected = check_tables(tmp_path, records, RULES)
    assert crashes >= 8
    assert all(expected.fates.values())
    assert expected.sessions()
    for row in rows_of(tmp_path, "late"):
        assert row["time"] < row["closed_until"]
    assert not stray_files(tmp_path, ACTIVITY.tables)
    events = session.read.parquet(str(tmp_path / "events"))
    assert events.count() == len(expected.fates["events"])
    assert "date" in events.columns


def as_frame(spark, records):
    """Return records as the source gives them, without a broker."""
    return spark.createDataFrame(
        [(None, record.value, "none", 0, record.offset, None) for record in records],
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP",
    )


def test_the_queries_of_a_run_file_records_and_send_live_counts(session, broker, tmp_path):
    topic, records = activity_topic(broker, batches=1)
    live = create_topic(broker.address, fresh_topic("live"))
    stage = stage_for(session, tmp_path, topic, None, broker.address, **{"live-topic": live})
    finish(stage)

    check_tables(tmp_path, records, RULES)
    dead = {row["value"]: row["reason"] for row in rows_of(tmp_path, "dead_letters")}
    assert dead[b"not json"] == "not a JSON object"
    assert "time lies in the future" in dead.values()
    assert sum(stage.report.totals.values()) == len(records)
    told = [json.loads(row.value) for row in stored_rows(broker.address, live)]
    assert {one["page"] for one in told} >= {row["page"] for row in rows_of(tmp_path, "pages")}


def test_too_many_bad_records_stop_the_pipeline_before_anything_is_filed(session, tmp_path):
    rows = [Record(0, offset, b"nonsense") for offset in range(30)]
    events = read_events(as_frame(session, rows), OPTIONS["skew"])
    activity = Activity(stage_for(session, tmp_path, "none", **{"bad-ratio": 0.5}))

    with pytest.raises(UserError, match="30 of 30 records cannot be read"):
        activity.take(events, 0)
    assert not rows_of(tmp_path, "dead_letters")


@pytest.mark.java(SPARK_CONNECTOR)
def test_a_killed_driver_is_followed_by_one_that_goes_on_and_ends_in_order(broker, tmp_path):
    topic, records = activity_topic(broker, batches=3)
    out = tmp_path / "out"
    status = out / "_moldau" / "status.json"

    with running(broker, topic, out, tmp_path) as first:
        eventually((out / "_moldau" / "state" / "1").exists, "two batches", 120)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    assert moldau("status", "--out", out, "-o", "json")["state"] == "died"

    with running(broker, topic, out, tmp_path) as second:
        done = len(records)
        eventually(
            lambda: sum(json.loads(status.read_text())["totals"].values()) == done,
            "all is filed",
            120,
        )
        refused = subprocess.run(
            command("run", "activity", "--out", out), capture_output=True, text=True, check=False
        )
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert f"process {second.pid}" in refused.stderr
        second.terminate()
        assert second.wait(60) == 0
    assert moldau("status", "--out", out, "-o", "json")["state"] == "stopped"
    check_tables(out, records, RULES)


def command(*words):
    return [str(Path(sys.executable).with_name("moldau")), "pipeline", *map(str, words)]


def moldau(*words):
    done = subprocess.run(command(*words), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@contextlib.contextmanager
def running(broker, topic, out, folder: Path):
    """Run the pipeline as a user does, in a group of processes of its own."""
    spark = settings(folder)
    words = command(
        "run", "activity", "-b", broker.address, "--topic", topic, "--out", out,
        "--master", "local[2]", "--window", "10s", "--delay", "20s", "--session-gap", "15s",
        "--top", "3", "--batch-rows", BATCH_ROWS, "--trigger", "0",
        *(word for name, value in spark.items() for word in ("--conf", f"{name}={value}")),
    )  # fmt: skip
    with (folder / "pipeline.txt").open("ab") as sink:
        process = subprocess.Popen(
            words, stderr=sink, start_new_session=True, env={**os.environ, **ENVIRONMENT}
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
