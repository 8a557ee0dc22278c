"""The log pipeline as a whole: its tables hold what the lines mean, and a search finds them.

Also after crashes between its steps, through merges of files, and where batches are too large for
the driver.
"""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime

import pytest

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic
from kits.cli_kit import moldau
from moldau.base.errors import UserError
from moldau.spark.pipelines.logs import landing, start
from moldau.spark.pipelines.logs.declared import LOGS
from moldau.spark.pipelines.logs.reading import read_lines
from moldau.spark.pipelines.logs.search import Question, search
from moldau.spark.pipelines.records.arriving import with_now
from moldau.spark.pipelines.tables.committed import files_of
from moldau.spark.pipelines.tables.merging import MERGED
from spark.activity_model import rows_of
from spark.logs_model import BATCH_ROWS, OPTIONS, Sent, check_tables, logged, made_up
from spark.pipeline_kit import Crash, CrashingFiles, pipeline_settings, stage_of
from spark.topic_rows import stored_rows


@pytest.fixture
def session(spark):
    with pipeline_settings(spark) as prepared:
        yield prepared


def take(session, out, records, number, files=None, **options):
    """Bring a batch as Spark would, to a new process."""
    stage = stage_of(session, LOGS, out, {**OPTIONS, **options}, files)
    rows = records[number * BATCH_ROWS : (number + 1) * BATCH_ROWS]
    frame = session.createDataFrame(
        [
            (None, bytearray(one.value), "logs", 0, one.offset, one.sent,
             [("host", bytearray(one.host.encode())), ("path", bytearray(one.path.encode()))],
             len(one.value))
            for one in rows
        ],
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,"
        " headers ARRAY<STRUCT<key: STRING, value: BINARY>>, size BIGINT",
    )  # fmt: skip
    start.logs(stage).take(read_lines(with_now(frame), start.rules_of(stage)), number)


@pytest.mark.long
def test_crashes_between_its_steps_change_nothing_through_a_merge_of_files(
    session, tmp_path, monkeypatch
):
    """The tenth batch merges the files of all before it, some of Arrow's and some of Spark's."""
    records = made_up(11 * BATCH_ROWS)
    for number in range(9):
        monkeypatch.setattr(landing, "ROWS_MAX", 0 if number in (2, 5) else 10_000)
        take(session, tmp_path, records, number)
    check_tables(tmp_path, records[: 9 * BATCH_ROWS])
    crashes, survived = 0, 2
    while not (tmp_path / "_moldau" / "state" / "9").exists():
        with contextlib.suppress(Crash):
            take(session, tmp_path, records, 9, CrashingFiles(session, survived))
            break
        crashes, survived = crashes + 1, survived + 4
    take(session, tmp_path, records, 10)

    fates = check_tables(tmp_path, records)
    assert crashes >= 4
    assert min(fates.values()) > 10
    assert rows_of(tmp_path, "alerts")
    merged = [one for one in files_of(tmp_path / "logs") if MERGED in one.path.name]
    assert len(merged) == len({one.path.parent for one in merged}) >= 4
    read = session.read.parquet(str(tmp_path / "logs")).select(
        "offset", "level", "message", "fields"
    )
    assert {
        (row.offset, row.level, row.message, *sorted(row.fields.values())) for row in read.collect()
    } == {
        (row["offset"], row["level"], row["message"], *sorted(row["fields"].values()))
        for row in logged(tmp_path)
    }


APP = """\
2026-11-15 12:00:00,123 INFO shop: open
2026-11-15 12:00:01,001 ERROR shop: no plums
Traceback (most recent call last):
  File "shop.py", line 3, in <module>
NoPlums: none left
2026-11-15 12:02:00,500 INFO shop: closed
"""
ACCESS = """\
10.0.0.7 - - [15/Nov/2026:12:00:02 +0000] "GET /plums HTTP/1.1" 503 17 "-" "curl/8.0" 0.004
10.0.0.8 - - [15/Nov/2026:12:02:02 +0000] "GET /pears HTTP/1.1" 200 612 "-" "curl/8.0" 0.001
"""


def test_lines_of_files_come_through_the_collector_and_are_found(session, broker, tmp_path):
    topic = create_topic(broker.address, fresh_topic("logs"))
    alerts = create_topic(broker.address, fresh_topic("alerts"))
    (tmp_path / "shop.log").write_text(APP)
    (tmp_path / "nginx").mkdir()
    (tmp_path / "nginx" / "access.log").write_text(ACCESS)
    collect(broker, tmp_path, topic, "shop.log", "--multiline", "python", "--lines-wait", "0s")
    collect(broker, tmp_path, topic, "nginx/access.log")
    given = {**OPTIONS, "topic": topic, "alerts-topic": alerts, "alert-errors": 1}
    stage = stage_of(session, LOGS, tmp_path / "out", given, address=broker.address)
    for query in start.start(stage):
        query.awaitTermination()

    assert stage.report.totals == {"events": 5, "late": 0, "dead": 0}
    ran = moldau("logs", "search", "--out", tmp_path / "out", "--level", "error", "-o", "json")
    assert [(row["time"], row["service"], row["message"], row["host"]) for row in ran.data] == [
        ("2026-11-15T12:00:02.000000Z", "nginx", "GET /plums HTTP/1.1 503", "web-1"),
        ("2026-11-15T12:00:01.001000Z", "shop", "no plums", "web-1"),
    ]
    assert ran.data[1]["stack"].endswith("NoPlums: none left")
    assert ran.data[1]["path"] == str(tmp_path / "shop.log")
    for words in (["--text", "NoPlums:"], ["--field", "logger=shop", "-n", "2", "--level", "warn"]):
        ran = moldau("logs", "search", "--out", tmp_path / "out", *words, "-o", "json")
        assert [row["message"] for row in ran.data] == ["no plums"]
    told = [json.loads(row.value) for row in stored_rows(broker.address, alerts)]
    assert [(one["service"], one["kind"], one["rate"]) for one in told] == [
        ("nginx", "raised", 1.0),
        ("shop", "raised", 0.5),
        ("nginx", "over", 0.0),
        ("shop", "over", 0.0),
    ]
    starts = ["2026-11-15T12:00:00Z"] * 2 + ["2026-11-15T12:00:10Z"] * 2
    assert [one["window_start"] for one in told] == starts


def collect(broker, folder, topic, name, *words):
    ran = moldau(
        "collect", "files", folder / name, "-t", topic, "--host", "web-1", "--once",
        "--state", folder / f"{name.replace('/', '-')}.json", *words,
        environ={"MOLDAU_BOOTSTRAP_SERVERS": broker.address},
    )  # fmt: skip
    assert ran.status == 0, ran.err


def test_what_is_no_line_is_a_dead_letter_and_too_many_stop_the_pipeline(session, tmp_path):
    sent = datetime(2026, 11, 15, 12, tzinfo=UTC)
    values = [b"\xff"] * 15 + [b"x" * 1001] * 15 + [b"2100-01-01 00:00:00 INFO a: hi"] * 10
    records = [Sent(n, value, "h", "/p", sent, None) for n, value in enumerate(values)]
    with pytest.raises(UserError, match="30 of 40 records cannot be read"):
        take(session, tmp_path, records, 0, **{"bad-ratio": 0.5})
    assert not files_of(tmp_path / "logs")

    take(session, tmp_path, records, 0)
    reasons = {row["reason"] for row in rows_of(tmp_path, "dead_letters")}
    assert reasons == {
        "not UTF-8: invalid start byte at byte 0",
        "1001 bytes, more than a line of 1000",
    }
    found = search(tmp_path / "logs", Question(fields={"claimed_time_us": "4102444800000000"})).rows
    assert [row["time"] for row in found] == ["2026-11-15T12:00:00.000000Z"] * 10
