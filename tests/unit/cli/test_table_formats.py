"""`moldau table` on tables of Delta and Iceberg: what their logs name, without their libraries."""

from __future__ import annotations

import gzip
import json
import sys
from datetime import date

import pyarrow as pa
import pytest

from kits.cli_kit import moldau
from kits.foreign_tables import LaidDelta, LaidIceberg

DAYS = ("2026-11-14", "2026-11-15")


def rows(*offsets):
    return pa.table({"offset": list(offsets), "batch": [one // 10 for one in offsets]})


@pytest.fixture
def out(tmp_path):
    """The folder of an activity pipeline."""
    (tmp_path / "_moldau").mkdir()
    told = {"id": "x", "pipeline": "activity", "pinned": {"topic": "t"}}
    (tmp_path / "_moldau" / "moldau-pipeline.json").write_text(json.dumps(told))
    return tmp_path


def shown(out, *words):
    found = moldau("table", *(words or ("show",)), "late", "--out", out, "-o", "json").data
    return [(row["offset"], row["date"]) for row in found]


def refused(out):
    ran = moldau("table", "show", "late", "--out", out)
    assert (ran.status, ran.out, ran.err.count("\n")) == (1, "", 1)
    return ran.err


EVERYTHING = [(1, DAYS[0]), (2, DAYS[0]), (21, DAYS[1]), (31, None)]


@pytest.fixture
def delta(out):
    """A table from which a file was removed, with one that no entry names."""
    table = LaidDelta(out / "late")
    dates = pa.array([date.fromisoformat(DAYS[0])] * 2)  # Delta's own writer has them in files too
    table.append("a b.parquet", rows(2, 1).append_column("date", dates), DAYS[0])
    table.append("c.parquet", rows(11), DAYS[0])
    table.remove(f"date={DAYS[0]}/c.parquet")
    table.added("killed.parquet", rows(99), DAYS[0])
    table.append("d.parquet", rows(21), DAYS[1])
    table.append("e.parquet", rows(31), None)
    return table


def test_the_files_that_deltas_log_names_are_read(out, delta):
    assert shown(out) == EVERYTHING
    assert shown(out, "tail", "-n", 2) == EVERYTHING[-2:]
    assert moldau("table", "count", "late", "--out", out, "-o", "json").data[0]["rows"] == 4


@pytest.mark.parametrize("parts", [1, 2])
def test_a_checkpoint_stands_for_the_entries_before_it(out, delta, parts):
    delta.checkpoint(parts)
    assert shown(out) == EVERYTHING
    delta.append("f.parquet", rows(41), DAYS[1])
    assert shown(out) == [*EVERYTHING, (41, DAYS[1])]


def test_a_checkpoint_that_lacks_a_part_does_not_count(out, delta):
    delta.checkpoint()
    delta.append("f.parquet", rows(41), DAYS[1])
    (delta.log / f"{6:020d}.checkpoint.{1:010d}.{2:010d}.parquet").write_bytes(b"begun")
    assert shown(out) == [*EVERYTHING, (41, DAYS[1])]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ({"protocol": {"minReaderVersion": 3, "readerFeatures": ["v2Checkpoint"]}}, "v2Checkpoint"),
        ({"protocol": {"minReaderVersion": 4}}, "version 4 of readers"),
        ({"metaData": {"configuration": {"delta.columnMapping.mode": "name"}}}, "columnMapping"),
    ],
)
def test_what_delta_must_be_understood_for_is_refused(out, delta, line, what):
    delta.commit(line)
    assert f"needs {what} of Delta's" in refused(out)
    assert "--conf spark.jars.packages=io.delta:delta-spark" in refused(out)


def test_rows_deleted_by_a_vector_are_not_shown_as_if_they_were_there(out, delta):
    delta.commit({"protocol": {"minReaderVersion": 3, "readerFeatures": ["deletionVectors"]}})
    assert shown(out) == EVERYTHING
    delta.append("f.parquet", rows(41), DAYS[1], deletionVector={"storageType": "u"})
    assert f"rows of date={DAYS[1]}/f.parquet were deleted by a vector" in refused(out)


@pytest.mark.parametrize(
    ("text", "name"),
    [("{", f"{6:020d}.json"), ("[]\n", f"{6:020d}.json"), ('{"add": {}}\n', f"{6:020d}.json"),
     ('{"add": {"path": 5}}\n', "_delta_log")],
)  # fmt: skip
def test_a_damaged_entry_is_named(out, delta, text, name):
    (delta.log / f"{6:020d}.json").write_text(text)
    assert f"{name} cannot be read: it names the files of the table" in refused(out)


def test_an_entry_that_is_missing_is_told(out, delta):
    (delta.log / f"{3:020d}.json").unlink()
    told = f"{3:020d}.json is gone, though the log of {out / 'late'} names it: put a copy back"
    assert told in refused(out)


@pytest.fixture
def iceberg(out):
    """A table from which a file was removed, with one that no manifest names."""
    table = LaidIceberg(out / "late")
    table.append("a.parquet", rows(2, 1), DAYS[0])
    table.append("c.parquet", rows(11), DAYS[0])
    table.remove(1)
    table.append("d.parquet", rows(21), DAYS[1])
    return table


def test_the_files_that_icebergs_manifests_name_are_read(out, iceberg):
    assert shown(out) == EVERYTHING[:3]
    assert shown(out, "tail", "-n", 1) == [(21, DAYS[1])]


def test_a_table_of_iceberg_is_read_where_it_was_moved(out, iceberg):
    moved = out.with_name("moved")
    out.rename(moved)
    assert shown(moved) == EVERYTHING[:3]


def test_metadata_of_iceberg_may_be_compressed(out, iceberg):
    newest = iceberg.metadata / "v4.metadata.json"
    data = gzip.compress(newest.read_bytes())
    newest.with_name("v5.gz.metadata.json").write_bytes(data)
    newest.unlink()
    assert shown(out) == EVERYTHING[:3]


def test_rows_that_iceberg_deletes_by_files_are_not_shown_as_if_they_were_there(out, iceberg):
    iceberg.append("e.parquet", rows(1), DAYS[0], content=1)
    assert "were deleted by a file of their own" in refused(out)


def test_another_version_of_icebergs_format_is_refused(out, iceberg):
    iceberg.commit(version=3)
    assert "has version 3 of Iceberg's format: this reads 2" in refused(out)


@pytest.mark.parametrize("name", ["v4.metadata.json", "snap-4.avro", "4-m0.avro"])
def test_damaged_metadata_of_iceberg_is_named(out, iceberg, name):
    (iceberg.metadata / name).write_bytes(b"{")
    assert f"metadata/{name} cannot be read" in refused(out)


def test_iceberg_without_fastavro_says_what_to_install(out, iceberg, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    assert "pip install 'moldau[avro]'" in refused(out)


def test_tables_that_have_no_rows_yet_are_empty(out):
    LaidDelta(out / "late")
    LaidIceberg(out / "events")
    counts = moldau("table", "count", "--out", out, "-o", "json").data
    assert {row["rows"] for row in counts} == {0}


@pytest.mark.parametrize("verb", ["show", "tail", "count"])
def test_a_folder_of_another_system_is_for_sql(verb):
    for name in ((), ("late",)):
        ran = moldau("table", verb, *name, "--out", "hdfs://name/x")
        assert (ran.status, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert "moldau table sql" in ran.err
