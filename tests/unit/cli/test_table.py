"""`moldau table` on the tables of every pipeline: rows, the last ones, counts."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest

from kits.changelog_tables import LaidTable
from kits.cli_kit import moldau
from moldau.base.errors import UserError
from moldau.cli import table as command
from moldau.spark.pipelines.catalog import PIPELINES
from moldau.spark.pipelines.declaration import PARQUET
from moldau.spark.pipelines.storage import LocalFiles
from moldau.spark.pipelines.tables import looking
from moldau.spark.pipelines.tables.formats import table_writer
from moldau.spark.pipelines.tables.looking import AppendedTable

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def writer(out, name):
    place = str(out / name)
    return table_writer(
        PARQUET, None, LocalFiles(), place, owner="x", partitioned_by=["date"], layout=None
    )


def dead_letters(batch, count):
    """Return the dead letters of a batch, as the pipeline files them."""
    offsets = [batch * 100 + number for number in range(count)]
    return pa.table({
        "key": pa.array([None] * count, pa.binary()),
        "value": pa.array([b"bad \xff %d" % one for one in offsets]),
        "reason": ["not JSON"] * count,
        "topic": ["t"] * count,
        "partition": pa.array([0] * count, pa.int32()),
        "offset": offsets,
        "timestamp": pa.array([NOON] * count, pa.timestamp("us", "UTC")),
        "batch": [batch] * count,
        "date": pa.array([date(2026, 11, 15 - batch % 2)] * count),
    })  # fmt: skip


def claim(out, pipeline, topic="t"):
    (out / "_moldau").mkdir(parents=True)
    told = {"id": "x", "pipeline": pipeline, "pinned": {"topic": topic}}
    (out / "_moldau" / "moldau-pipeline.json").write_text(json.dumps(told))


@pytest.fixture
def out(tmp_path):
    """The folder of an activity pipeline: 25 batches of dead letters, merged now and then."""
    claim(tmp_path, "activity")
    table = writer(tmp_path, "dead_letters")
    for batch in range(25):
        table.append(dead_letters(batch, 3), batch)
    return tmp_path


def offsets(*words):
    return [row["offset"] for row in moldau("table", *words, "-o", "json").data]


def test_rows_are_shown_in_the_order_of_their_appends_through_merges(out):
    everything = [batch * 100 + number for batch in range(25) for number in range(3)]
    assert offsets("show", "dead_letters", "--out", out, "-n", 1000) == everything
    assert offsets("show", "dead_letters", "--out", out, "-n", 4) == everything[:4]
    assert offsets("tail", "dead_letters", "--out", out, "-n", 4) == everything[-4:]
    assert offsets("tail", "dead_letters", "--out", out) == everything[-10:]


def test_only_the_files_that_hold_the_rows_are_read(out, monkeypatch):
    read = []
    whole = looking._read
    monkeypatch.setattr(looking, "_read", lambda file: read.append(file) or whole(file))
    AppendedTable(out / "dead_letters").last(3)
    assert len(read) <= 2


def test_a_table_is_shown_for_people_and_the_rest_is_told(out):
    ran = moldau("table", "show", "dead_letters", "--out", out, "-n", 2)
    head, *rows = ran.out.splitlines()
    assert head.split() == ["KEY", "VALUE", "REASON", "TIMESTAMP"]
    assert "bad \\xff 0" in rows[0]
    assert ran.err == "moldau: 2 of 75 rows; --limit shows more\n"
    wide = moldau("table", "show", "dead_letters", "--out", out, "-n", 1, "-o", "wide").out
    assert wide.split()[:9][-4:] == ["OFFSET", "TIMESTAMP", "BATCH", "DATE"]
    some = moldau("table", "show", "dead_letters", "--out", out, "-n", 1, "-c", "batch").out
    assert some.split() == ["BATCH", "0"]


def test_windows_and_sessions_are_in_the_order_of_their_ends(tmp_path):
    claim(tmp_path, "activity")
    starts = [NOON + timedelta(minutes=number) for number in range(12)]
    for name, column in (("pages", "window_end"), ("sessions", "end")):
        table = writer(tmp_path, name)
        for number, start in enumerate(starts):
            time_type = pa.timestamp("us", "UTC")
            table.append(
                pa.table({column: pa.array([start], time_type), "n": [number],
                          "date": pa.array([start.date()])}),
                number,
            )  # fmt: skip
        last = moldau("table", "tail", name, "--out", tmp_path, "-n", 2, "-o", "json").data
        assert [row["n"] for row in last] == [10, 11]
        assert last[1][column] == "2026-11-15T12:11:00+00:00"


def test_every_table_is_counted(out):
    rows = moldau("table", "count", "--out", out, "-o", "json").data
    counts = {row["table"]: row["rows"] for row in rows}
    assert counts == {**dict.fromkeys(PIPELINES["activity"].tables, 0), "dead_letters": 75}
    one = moldau("table", "count", "late", "--out", out, "-o", "json").data
    assert one == [{"table": "late", "rows": 0}]


def test_a_table_without_rows_is_shown_empty(out):
    assert moldau("table", "show", "events", "--out", out, "-o", "json").data == []
    assert moldau("table", "tail", "events", "--out", out, "-o", "json").data == []


def test_a_changelog_needs_no_name_and_has_dead_letters_too(tmp_path):
    claim(tmp_path, "changelog")
    LaidTable(tmp_path / "table").batch(0, [("b", {"x": 1}), ("a", {"x": 2})])
    writer(tmp_path, "dead_letters").append(dead_letters(0, 1), 0)
    shown = moldau("table", "show", "--out", tmp_path, "-o", "json").data
    assert [row["_key"] for row in shown] == ["a", "b"]
    last = moldau("table", "tail", "--out", tmp_path, "-n", 1, "-c", "x", "-o", "json").data
    assert last == [{"_key": "a", "x": 2}]
    counts = moldau("table", "count", "--out", tmp_path, "-o", "json").data
    assert counts == [{"table": "table", "rows": 2}, {"table": "dead_letters", "rows": 1}]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["show"], "name a table: events, late, dead_letters, pages"),
        (["show", "plums"], "there is no table plums in"),
        (["show", "late", "--key", "a"], "--key works for changelogs only"),
        (["show", "dead_letters", "-c", "plums"], "the table dead_letters has no column plums"),
        (["tail", "late", "-f", "-o", "csv"], "--follow works for append-only tables"),
    ],
)
def test_what_cannot_be_asked_is_one_line(out, words, what):
    ran = moldau("table", *words, "--out", out)
    assert (ran.status, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert what in ran.err


def test_a_folder_that_no_pipeline_has_written_is_one_line(tmp_path):
    assert "there is no table" in moldau("table", "show", "events", "--out", tmp_path).err


def test_rows_are_followed_as_they_come(out, monkeypatch):
    """A batch comes while it waits; then it is interrupted."""
    table = writer(out, "dead_letters")
    batches = iter([25, 26])

    def sleep(_):
        batch = next(batches, None)
        if batch is None:
            raise UserError("enough")
        table.append(dead_letters(batch, 2), batch)

    monkeypatch.setattr(command, "time", SimpleNamespace(sleep=sleep))
    ran = moldau("table", "tail", "dead_letters", "--out", out, "-n", 1, "-f", "-o", "json")
    found = [json.loads(line)["offset"] for line in ran.out.splitlines()]
    assert found == [2402, 2500, 2501, 2600, 2601]
