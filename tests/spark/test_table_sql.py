"""`moldau table sql`: questions about all tables of a pipeline, in the session of the suite."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from kits.changelog_tables import LaidTable
from kits.cli_kit import moldau
from moldau.spark.pipelines import sql
from moldau.spark.pipelines.storage import LocalFiles
from moldau.spark.pipelines.tables.appending import Table
from moldau.spark.pipelines.tables.file_log import FileLog


@pytest.fixture(autouse=True)
def session(spark, monkeypatch):
    monkeypatch.setattr(sql, "running_session", lambda *_, **__: nullcontext(spark))
    return spark


def claim(out, pipeline, topic):
    (out / "_moldau").mkdir()
    told = {"id": "x", "pipeline": pipeline, "pinned": {"topic": topic}}
    (out / "_moldau" / "moldau-pipeline.json").write_text(json.dumps(told))


def append(out, name, **columns):
    place, files = str(out / name), LocalFiles()
    day = pa.array([date(2026, 11, 15)] * len(next(iter(columns.values()))))
    table = Table(files, place, FileLog(files, place), ["date"])
    table.append(pa.table({**columns, "date": day}), 0)


def test_tables_of_a_pipeline_are_asked_together(tmp_path):
    claim(tmp_path, "activity", "clicks")
    time = pa.array([datetime(2026, 11, 15, 12, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC"))
    append(tmp_path, "pages", page=["/a", "/b", "/a"], pv=[1, 2, 3], window_end=time)
    append(tmp_path, "dead_letters", reason=["not JSON"], value=[b"x"])
    question = (
        "SELECT page, sum(pv) AS pv, max(window_end) AS last, (SELECT count(*) FROM dead_letters)"
        " AS dead, CAST(1.5 AS DECIMAL(3, 1)) AS part FROM pages GROUP BY page ORDER BY page"
    )
    ran = moldau("table", "sql", question, "--out", tmp_path, "-n", 1, "-o", "json")
    assert ran.data == [
        {"page": "/a", "pv": 4, "last": "2026-11-15T12:00:00+00:00", "dead": 1, "part": "1.5"}
    ]
    assert ran.err == "moldau: the first 1 rows; --limit shows more\n"
    ran = moldau("table", "sql", "SELECT plums FROM pages", "--out", tmp_path)
    assert (ran.status, ran.err.count("\n")) == (1, 1)
    assert "UNRESOLVED_COLUMN" in ran.err


def test_a_changelog_has_the_name_of_its_topic(tmp_path):
    claim(tmp_path, "changelog", "shop.customers")
    LaidTable(tmp_path / "table").batch(0, [("a", {"x": 1}), ("b", {"x": 2})])
    question = "SELECT _key, x FROM shop_customers WHERE x > 1"
    assert moldau("table", "sql", question, "--out", tmp_path, "-o", "json").data == [
        {"_key": "b", "x": 2}
    ]
