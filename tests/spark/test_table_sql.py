"""`moldau table sql`: questions about all tables of a pipeline, in the session of the suite."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from kits.changelog_tables import LaidTable
from kits.cli_kit import moldau
from kits.foreign_tables import LaidDelta, LaidIceberg
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


@pytest.mark.parametrize("laid", [LaidDelta, LaidIceberg])
def test_tables_of_other_formats_need_no_library(tmp_path, laid):
    """A file from before a column was added, and one that was removed; `*` is no pattern."""
    out = tmp_path / "some * folder"
    out.mkdir()
    claim(out, "activity", "clicks")
    table = laid(out / "pages")
    table.append("a.parquet", pa.table({"page": ["/a"]}), "2026-11-14")
    table.append("b.parquet", pa.table({"page": ["/b"], "pv": [2]}), "2026-11-15")
    table.append("c.parquet", pa.table({"page": ["/gone"]}), "2026-11-15")
    table.remove("date=2026-11-15/c.parquet" if laid is LaidDelta else 2)
    laid(out / "events")
    question = "SELECT date, page, pv FROM pages WHERE date >= DATE '2026-11-14' ORDER BY page"
    assert moldau("table", "sql", question, "--out", out, "-o", "json").data == [
        {"date": "2026-11-14", "page": "/a", "pv": None},
        {"date": "2026-11-15", "page": "/b", "pv": 2},
    ]


@pytest.fixture
def far(session, tmp_path):
    """The address of a folder, as of another file system."""
    hadoop = session._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.far.link./data", tmp_path.as_uri())
    yield "viewfs://far/data"
    hadoop.unset("fs.viewfs.mounttable.far.link./data")


def test_tables_of_another_file_system_are_asked_by_their_names(tmp_path, far):
    claim(tmp_path, "activity", "clicks")
    append(tmp_path, "pages", page=["/a", "/b"], pv=[1, 2])
    question = "SELECT sum(pv) AS pv FROM pages"
    assert moldau("table", "sql", question, "--out", far, "-o", "json").data == [{"pv": 3}]
    for laid, what in (
        (LaidDelta, "give --conf spark.jars.packages=io.delta:delta-spark"),
        (LaidIceberg, f"{far}/events is a table of Iceberg: ask an engine that reads these"),
    ):
        table = laid(tmp_path / "events")
        table.append("a.parquet", pa.table({"page": ["/a"]}), "2026-11-14")
        ran = moldau("table", "sql", question, "--out", far)
        assert (ran.status, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert what in ran.err
        table.folder.rename(tmp_path / f"_{laid.__name__}")


def test_a_pipeline_that_this_moldau_does_not_know_is_named(tmp_path):
    claim(tmp_path, "plums", "clicks")
    ran = moldau("table", "sql", "SELECT 1", "--out", tmp_path)
    assert (ran.status, ran.err.count("\n")) == (1, 1)
    assert "names a pipeline plums, which this Moldau does not know" in ran.err
