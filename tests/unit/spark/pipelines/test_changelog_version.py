"""Versions of changelog tables: what is merged when, what it costs, and what readers find."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from kits.changelog_tables import LaidTable
from kits.cli_kit import moldau
from moldau.base.errors import UserError
from moldau.spark.pipelines.changelog.reading import Snapshot, current, first_by_key
from moldau.spark.pipelines.changelog.rows import CHANGE_SCHEMA, newest_by_key
from moldau.spark.pipelines.changelog.version import (
    CHANGES_MAX,
    ROWS_MIN,
    Part,
    Replaced,
    Totals,
    Version,
    due,
    merged,
    newest,
    with_batch,
    without_old,
)

RATIO = 0.25


def grown(version, rows):
    part = Part((f"_changes/{version.number + 1}",), rows)
    return with_batch(version, {}, part, Totals(changes=rows))


@given(
    st.integers(0, 200_000),
    st.lists(st.sampled_from([1, 10, 100, 3_000, 20_000]), min_size=1, max_size=300),
)
@settings(max_examples=50)
def test_merging_costs_a_few_times_what_changed_and_keeps_files_few(base_rows, batches):
    version = Version(base=Part(("base",), base_rows))
    written = 0
    for rows in batches:
        version = grown(version, rows)
        merge = due(version, RATIO)
        if merge is not None:
            size = sum(part.rows for part in merge.changes)
            size += version.base.rows if merge.into_base else 0
            written += size
            version = merged(version, merge, Part((f"m{version.number}",), size), 0)
        assert len(version.changes) <= CHANGES_MAX
        unmerged = sum(part.rows for part in version.changes)
        assert unmerged < max(RATIO * version.base.rows, ROWS_MIN)
    # A change goes into the base once, with four rows that did not change, and before that is
    # written again only as often as the changes it lies with double.
    assert written <= sum(batches) * (1 + 1 / RATIO + 18)


def test_a_version_reads_back_as_it_was_written_and_others_are_refused():
    version = Version(
        3, 2, {"a": "bigint"}, Part(("b",), 4), {"a": "double"}, 1, (Part(("c", "d"), 2),), 1,
        Totals(1, 2, 3), (Replaced("e", 5),),
    )  # fmt: skip
    assert Version.from_json(version.to_json(), "f") == version
    assert version.names() == {"b", "c", "d", "e"}
    for text in ("", "[]", "{}", version.to_json().replace('"names"', '"x"').replace("4", '"4')):
        with pytest.raises(UserError, match="folder/7 cannot be read"):
            Version.from_json(text, "folder/7")
    with pytest.raises(UserError, match="has form 3"):
        Version.from_json(version.to_json().replace('"form": 2', '"form": 3'), "f")


def test_a_version_with_two_columns_of_one_name_reads_back_with_the_first():
    version = Version(fields={"id": "bigint", "\u0131d": "string", "x": "double"})
    assert Version.from_json(version.to_json(), "f").fields == {"id": "bigint", "x": "double"}


def test_replaced_files_are_kept_for_a_while():
    version = grown(Version(base=Part(("base",), 1)), ROWS_MIN)
    version = merged(version, due(version, RATIO), Part(("new",), 1), 1000)
    assert version.names() == {"new", "base", "_changes/0"}
    assert without_old(version, 1000) == (version, [])
    after, old = without_old(version, 1001)
    assert (after.names(), set(old)) == ({"new"}, {"base", "_changes/0"})


def test_a_table_has_a_base_from_its_first_change_on():
    first = grown(Version(), 1)
    assert due(first, RATIO).into_base
    assert due(grown(Version(base=Part(("base",), 4)), 1), RATIO) is None
    assert due(with_batch(Version(), {}, None, Totals(dead=1)), RATIO) is None


@pytest.mark.process
def test_who_reads_without_spark_needs_none():
    program = (
        "import sys; sys.modules['pyspark'] = None;"
        "import moldau.spark.pipelines.changelog.reading, moldau.cli.table;"
        "import moldau.spark.pipelines.tables.looking"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_newest_version_is_found_among_other_names():
    assert newest(["9", "10", ".11.tmp", "x"]) == 10
    assert newest([]) is None


CHANGES = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.one_of(
                st.none(),
                st.dictionaries(
                    st.sampled_from("xyz"),
                    st.one_of(
                        st.none(),
                        st.integers(0, 9),
                        st.just(0.5),
                        st.booleans(),
                        st.text(max_size=2),
                    ),
                    max_size=3,
                ),
            ),
        ),
        max_size=5,
    ),
    min_size=1,
    max_size=5,
)


@given(CHANGES, st.sets(st.integers(0, 4)))
@settings(max_examples=30)
def test_without_spark_readers_find_the_last_value_of_each_key(tmp_path_factory, batches, merges):
    """Files are laid down as the pipeline does it, merges after some batches included."""
    out = tmp_path_factory.mktemp("out")
    table = LaidTable(out / "table")
    last = {}
    for number, changes in enumerate(batches):
        table.batch(number, changes)
        last.update(changes)
        if number in merges:
            table.merge(current(str(out)))
        found = {row["_key"]: json.loads(row["_raw"]) for row in current(str(out)).to_pylist()}
        assert found == {key: value for key, value in last.items() if value is not None}

    fields = table.version.fields
    for row in current(str(out)).to_pylist():
        value = last[row["_key"]]
        for name, kind in fields.items():
            assert fits(row[name], value.get(name), kind)
    some = current(str(out), keys=["a", "none"], columns=["_offset"])
    assert some.column_names == ["_key", "_offset"]
    assert set(some["_key"].to_pylist()) == {"a"} & set(found)


def fits(found, given, kind):
    if given is None or kind != "string" or isinstance(given, str):
        return found == given
    return json.loads(found) == given


def test_a_folder_without_a_table_and_a_column_there_is_not_are_refused(tmp_path):
    with pytest.raises(UserError, match="there is no table"):
        current(str(tmp_path))
    LaidTable(tmp_path / "table").batch(0, [("a", {"x": 1})])
    with pytest.raises(UserError, match="no column y"):
        current(str(tmp_path), columns=["y"])


def test_a_column_is_asked_for_in_any_case(tmp_path):
    LaidTable(tmp_path / "table").batch(0, [("a", {"ID": 1}), ("b", {"id": 2})])
    found = current(str(tmp_path), columns=["ID", "id", "_OFFSET"])
    assert found.to_pylist() == [
        {"_key": "a", "id": 1, "_offset": 0},
        {"_key": "b", "id": 2, "_offset": 1},
    ]


def test_a_base_from_before_spellings_were_one_column_is_read_from_its_text(tmp_path):
    table = LaidTable(tmp_path / "table")
    table.batch(0, [("a", {"ID": 1}), ("b", {"id": 2})])
    rows = current(str(tmp_path)).drop_columns("id")
    table.version = table.version._replace(fields={"ID": "bigint"})
    table.merge(rows.append_column("ID", pa.array([1, None], pa.int64())))
    place = tmp_path / "table" / "_versions" / str(table.version.number)
    place.write_text(place.read_text().replace('"form": 2', '"form": 1'))
    assert current(str(tmp_path), columns=["ID"])["ID"].to_pylist() == [1, 2]


def test_a_time_beyond_all_calendars_is_shown_as_milliseconds(tmp_path):
    """As of who sends microseconds in their place, to a broker that lets them."""
    LaidTable(tmp_path / "table").batch(0, [(key, {"x": 1}) for key in "abc"])
    place = tmp_path / "table" / "_changes" / "0.parquet"
    rows = pq.read_table(place).drop_columns("_timestamp")
    times = pa.array([1_790_000_000_000_000, 1_790_000_000_000_000_000, None])
    times = times.cast(CHANGE_SCHEMA.field("_timestamp").type)
    pq.write_table(rows.append_column("_timestamp", times), place)
    ran = moldau("table", "show", "--out", tmp_path, "-o", "json")
    told = [row["_timestamp"] for row in json.loads(ran.out)]
    assert told == ["2026-09-21T14:13:20+00:00", "1790000000000000", None]


def test_texts_may_be_more_than_arrow_can_sort():
    """The same text again and again, which takes no memory."""
    text = pa.array(["x" * 2**26])
    count = 2**31 // 2**26 + 1
    numbers = list(range(count))
    columns = {
        "_key": [str(number % 3) for number in numbers],
        "_raw": pa.chunked_array([text] * count),
        "_partition": [0] * count,
        "_offset": numbers,
        "_timestamp": [None] * count,
        "_batch": [number // 10 for number in numbers],
    }
    found = newest_by_key(pa.table(columns, CHANGE_SCHEMA))
    assert sorted(found["_offset"].to_pylist()) == numbers[-3:]
    rows = pa.table({"_key": [str(number) for number in numbers], "_raw": columns["_raw"]})
    assert first_by_key(rows, 3)["_key"].to_pylist() == ["0", "1", "10"]
    assert first_by_key(rows.slice(0, 3), 10**30)["_key"].to_pylist() == ["0", "1", "2"]


# What cannot be read


@pytest.fixture
def out(tmp_path):
    """The folder of a table with a base and a change: version 2."""
    table = LaidTable(tmp_path / "table")
    table.batch(0, [("a", {"x": 1})])
    table.merge(current(str(tmp_path)))
    table.batch(1, [("b", {"x": 2})])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "data"),
    [("0.parquet", b""), ("0.parquet", b"x" * 16), ("_changes/1.parquet", b"x" * 16),
     ("_versions/2", b"\xff"), ("_versions/2", b"{}")],
)  # fmt: skip
def test_a_damaged_file_is_one_line_that_names_it(out, name, data):
    place = out / "table" / name
    place.write_bytes(data)
    assert f"{place} cannot be read" in complaint("--out", out)


def test_damage_within_a_file_is_one_line_that_names_it(out):
    place = out / "table" / "0.parquet"
    data = place.read_bytes()
    place.write_bytes(data[:4] + bytes(60) + data[64:])
    assert f"{place} cannot be read" in complaint("--out", out)


def test_a_missing_file_is_one_line_that_names_it(out):
    place = out / "table" / "0.parquet"
    place.unlink()
    assert f"{place} is gone" in complaint("--out", out)


def test_a_folder_that_is_none_is_one_line_that_names_it(out):
    place = out / "other" / "table" / "_versions"
    place.parent.mkdir(parents=True)
    place.write_text("")
    assert f"{place} cannot be read" in complaint("--out", out / "other")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--out", "foo:bar"], "foo:bar/table cannot be read: Unrecognized filesystem type"),
        (["--out", "/\udcff"], "'/\\udcff' is not text: expected UTF-8"),
        (["--out", "/", "--key", "\udcff"], "'\\udcff' is not text: expected UTF-8"),
        (["--out", "/", "--column", "\udcff"], "'\\udcff' is not text: expected UTF-8"),
    ],
)
def test_what_cannot_be_asked_is_one_line(words, what):
    assert what in complaint(*words)


def test_of_an_error_with_many_lines_the_first_is_told(monkeypatch):
    """As Arrow's is where it finds no Java for HDFS."""

    def from_uri(uri):
        raise OSError("Unable to load libjvm\ndlopen(a) failed\ndlopen(b) failed")

    monkeypatch.setattr("pyarrow.fs.FileSystem", SimpleNamespace(from_uri=from_uri))
    told = complaint("--out", "hdfs://name/x")
    assert told == (
        "moldau: hdfs://name/x/table cannot be read: Unable to load libjvm: ask Spark, with moldau"
        " table sql\n"
    )


def complaint(*words):
    """Return the line that `moldau table show` refuses with."""
    ran = moldau("table", "show", *words)
    assert (ran.status, ran.out, ran.err.count("\n")) == (1, "", 1)
    return ran.err


def test_a_reader_that_was_too_slow_begins_again_with_the_newest_version(out, monkeypatch):
    """The files of the version it began with go away before it opens them."""
    found = Snapshot.of(str(out))
    (out / "table" / "old").mkdir()
    old = Snapshot(*fs.FileSystem.from_uri(str(out / "table" / "old")), found.version)
    versions = iter([old, found])
    monkeypatch.setattr(Snapshot, "of", lambda _: next(versions))
    assert current(str(out))["_key"].to_pylist() == ["a", "b"]
