"""Small files become large ones, and at no moment a reader misses a row or sees one twice."""

from __future__ import annotations

import itertools
import json
import random
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kits.log_tables import arrow, log_table, row
from moldau.base.errors import StorageError, UserError
from moldau.spark.pipelines.logs.search import Question, search
from moldau.spark.pipelines.storage import FileEntry, LocalFiles
from moldau.spark.pipelines.tables import merging
from moldau.spark.pipelines.tables.appending import Table
from moldau.spark.pipelines.tables.committed import files_of
from moldau.spark.pipelines.tables.file_log import COMPACT_EVERY, FileLog
from moldau.spark.pipelines.tables.merging import (
    FAN_IN,
    MERGED,
    REPLACED_KEPT_MS,
    ROWS_SIZE_MAX,
    TARGET_SIZE,
    Merger,
    plan,
)


class Hands:
    """A clock that is set by hand."""

    def __init__(self):
        self.now_ms = 1_000_000

    def wall_ms(self):
        return self.now_ms


def entry(number, size, folder="date=2026-11-15/level=INFO", merged=True):
    name = f"part-{number:010d}{MERGED if merged else '-'}0.parquet"
    return FileEntry(f"file:/t/{folder}/{name}", "", size, 0, 0, 1)


def offsets(path):
    return sorted(one["offset"] for one in search(path, Question(limit=10**6), ["offset"]).rows)


def batch(number):
    """Return ten rows of two levels and, at times, of two days."""
    return [
        row(
            offset,
            level="ERROR" if offset % 3 == 0 else "INFO",
            batch=number,
            time_us=row(offset)["time_us"] - (86_400_000_000 if offset % 50 == 7 else 0),
        )
        for offset in range(number * 10, number * 10 + 10)
    ]


# What is merged


def test_files_that_were_never_merged_are_whatever_their_size():
    small, large = entry(1, 10, merged=False), entry(2, 2 * TARGET_SIZE, merged=False)
    assert plan([small], {}) == [[small]]
    assert plan([small, large], {}) == [[small, large]]
    assert plan([large, entry(3, 10, merged=False)], {}) == [[large], [entry(3, 10, merged=False)]]


def test_files_of_a_tier_are_merged_when_it_is_full():
    tier = [entry(number, 1000 + number) for number in range(FAN_IN)]
    others = [entry(20, TARGET_SIZE // 100), entry(21, TARGET_SIZE)]
    assert plan([*tier[1:], *others], {}) == []
    assert plan([*others, *tier], {}) == [tier]


def test_no_merge_makes_a_file_much_larger_than_large_and_folders_stay_apart():
    half = TARGET_SIZE * 5 // 8
    files = [entry(number, half) for number in range(5)]
    assert [len(part) for part in plan(files, {})] == [2, 2]
    apart = [entry(number, 9, f"date=2026-11-1{number % 2}") for number in range(2 * FAN_IN - 1)]
    assert [len(part) for part in plan(apart, {})] == [FAN_IN]


def test_a_day_of_many_appends_has_few_files():
    """A thousand appends; sizes are those of notes, so that this takes no time."""
    sizes = itertools.count(5000)
    live: list[FileEntry] = []
    for number in range(1000):
        live.append(entry(number, next(sizes), merged=False))
        if number % 10 == 9:
            for part in plan(live, {}):
                size = sum(one.size for one in part)
                live = [*(one for one in live if one not in part), entry(number + len(part), size)]
    assert len(live) <= 3 * FAN_IN
    assert max(one.size for one in live) > 1_000_000


def alike(count, rows_size, merged=True):
    """Return small files, and what their rows take."""
    files = [entry(number, 1000, merged=merged) for number in range(count)]
    return files, dict.fromkeys((one.path for one in files), rows_size)


@pytest.mark.parametrize("merged", [False, True])
def test_a_merge_holds_no_more_rows_than_memory_does(merged):
    files, sizes = alike(40, ROWS_SIZE_MAX // 5, merged)
    assert [len(part) for part in plan(files, sizes)] == [5] * 8


def test_files_of_many_rows_are_large_however_small_they_are():
    files, sizes = alike(FAN_IN, ROWS_SIZE_MAX // 2)
    assert plan(files, sizes) == []
    others = [entry(number, 1000) for number in range(50, 50 + FAN_IN)]
    assert plan([*files, *others], sizes) == [others]


def test_a_file_that_was_never_merged_is_if_memory_holds_its_rows():
    fitting, too_large, small = files = [entry(number, 9, merged=False) for number in range(3)]
    sizes = {fitting.path: ROWS_SIZE_MAX, too_large.path: ROWS_SIZE_MAX + 1, small.path: 1}
    assert plan(files, sizes) == [[fitting], [small]]


# Through the log


def test_rows_are_the_same_after_merging_and_the_log_names_few_files(tmp_path):
    table = log_table(tmp_path)
    for number in range(30):
        table.append(arrow(batch(number)), number)
        assert offsets(tmp_path) == list(range(number * 10 + 10))
    files = files_of(tmp_path)
    own = [one for one in files if one.path.name.startswith("part-0000000029-0")]
    assert all(MERGED in one.path.name for one in files if "part-0000000029" not in one.path.name)
    assert own
    assert len(files) <= 12 + 4  # three merges in four folders, and what the last append has added
    large = next(one for one in files if MERGED in one.path.name)
    times = pq.read_table(large.path, partitioning=None)["time"].to_pylist()
    assert times == sorted(times)


def test_files_that_spark_has_noted_are_merged_with_those_noted_here(tmp_path):
    table = log_table(tmp_path)
    for number in range(9):
        table.append(arrow([row(number)]), number)
        noted = tmp_path / "_spark_metadata" / str(number)
        if number % 2:
            noted.write_text(noted.read_text().replace('"file:/', '"file:///'))
    table.append(arrow([row(9)]), 9)
    assert len(files_of(tmp_path)) == 2
    assert offsets(tmp_path) == list(range(10))


def test_lines_that_are_much_the_same_are_merged_in_parts_that_fit(tmp_path, monkeypatch):
    """Ten megabytes of rows in files of some kilobytes; footers are read once."""
    monkeypatch.setattr(merging, "ROWS_SIZE_MAX", 1 << 20)
    monkeypatch.setattr(merging, "_LARGE_ROWS_SIZE", 1 << 19)
    read = []

    def rows_size(one, ask=merging._read_rows_size):
        read.append(one.path)
        return ask(one)

    def merged(tables, merge=merging.merged):
        assert sum(one.nbytes for one in tables) <= 1 << 20
        return merge(tables)

    monkeypatch.setattr(merging, "_read_rows_size", rows_size)
    monkeypatch.setattr(merging, "merged", merged)
    table = log_table(tmp_path)
    for number in range(50):
        rows = [row(offset, message=f"{offset} " + "plum" * 5000)
                for offset in range(number * 10, number * 10 + 10)]  # fmt: skip
        table.append(arrow(rows), number)
    assert offsets(tmp_path) == list(range(500))
    files = files_of(tmp_path)
    assert all(one.path.stat().st_size < 100_000 for one in files)
    assert 10 <= len(files) <= 40
    assert len(read) == len(set(read))


def test_values_that_a_file_has_once_count_for_each_row(tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "ROWS_SIZE_MAX", 200_000)
    table = plain_table(tmp_path)
    for number in range(10):
        table.append(pa.table({"n": [number] * 1000, "date": DAYS[:1] * 1000}), number)
    assert len(files_of(tmp_path)) == 10


class Crash(Exception):  # noqa: N818 - it names the event
    """What ends an append in the middle."""


class CrashingFiles(LocalFiles):
    """Files that fail at one step, before it is done or just after."""

    def __init__(self, step, after):
        self.left = step
        self.after = after

    def _stepped(self, do, *words):
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Crash
        done = do(*words)
        if self.left == 0:
            raise Crash
        return done

    def write(self, path, data):
        self._stepped(super().write, path, data)

    def remove(self, path):
        self._stepped(super().remove, path)


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_step_loses_nothing_and_doubles_nothing(tmp_path, after):
    """The twentieth append merges; it is tried with a crash at its first step, its second..."""
    clock = Hands()
    table = log_table(tmp_path, clock=clock)
    for number in range(19):
        table.append(arrow(batch(number)), number)
        clock.now_ms += REPLACED_KEPT_MS // 9  # so that it has old files to remove, too
    rows = arrow(batch(19))
    for step in itertools.count(1):
        files = CrashingFiles(step, after)
        try:
            log_table(tmp_path, files, clock).append(rows, 19)
        except Crash:
            assert offsets(tmp_path) in (list(range(190)), list(range(200)))
        else:
            break
    assert step > 15
    assert offsets(tmp_path) == list(range(200))
    log_table(tmp_path, clock=clock).append(arrow(batch(20)), 20)
    assert offsets(tmp_path) == list(range(210))


def test_a_reader_in_the_middle_of_a_merge_sees_every_row_once(tmp_path):
    """After every step of a merging append the table is read."""

    class WatchedFiles(LocalFiles):
        def write(self, path, data):
            super().write(path, data)
            assert offsets(tmp_path) in (list(range(90)), list(range(100)))

        def remove(self, path):
            super().remove(path)
            assert offsets(tmp_path) in (list(range(90)), list(range(100)))

    table = log_table(tmp_path)
    for number in range(9):
        table.append(arrow(batch(number)), number)
    log_table(tmp_path, WatchedFiles()).append(arrow(batch(9)), 9)
    assert offsets(tmp_path) == list(range(100))


def test_files_that_were_replaced_stay_for_a_while_and_then_go(tmp_path):
    clock = Hands()
    table = log_table(tmp_path, clock=clock)
    for number in range(10):
        table.append(arrow(batch(number)), number)
    raw = [path for path in tmp_path.glob("*/*/part-*.parquet") if MERGED not in path.name]
    assert len(raw) > 20
    for number in range(10, 20):
        table.append(arrow(batch(number)), number)
    assert all(path.exists() for path in raw)

    clock.now_ms += REPLACED_KEPT_MS
    for number in range(20, 30):
        table.append(arrow(batch(number)), number)
    assert not any(path.exists() for path in raw)
    assert offsets(tmp_path) == list(range(300))


def test_a_note_about_files_that_the_log_names_is_not_believed(tmp_path):
    """As a crash before the commit leaves one behind."""
    clock = Hands()
    table = log_table(tmp_path, clock=clock)
    for number in range(9):
        table.append(arrow(batch(number)), number)
    paths = [f"file:{one.path}" for one in files_of(tmp_path)]
    note = {"at_ms": clock.now_ms - 2 * REPLACED_KEPT_MS, "paths": paths}
    LocalFiles().write(f"{tmp_path}/_replaced/part-0000000009-", json.dumps(note))
    (tmp_path / "_replaced" / ".part-0000000009-.tmp").write_text('{"at_')
    table.append(arrow(batch(9)), 9)
    assert offsets(tmp_path) == list(range(100))


@pytest.mark.parametrize("text", ["", '{"at_', "[]", '{"at_ms": 1}'])
def test_a_note_that_cannot_be_read_holds_nothing_up(tmp_path, text):
    clock = Hands()
    clock.now_ms += REPLACED_KEPT_MS
    table = log_table(tmp_path, clock=clock)
    LocalFiles().write(f"{tmp_path}/_replaced/part-0000000003-", text)
    for number in range(10):
        table.append(arrow(batch(number)), number)
    assert offsets(tmp_path) == list(range(100))
    assert not (tmp_path / "_replaced" / "part-0000000003-").exists()


def test_tables_elsewhere_keep_their_files(tmp_path):
    far = [FileEntry(f"hdfs://n/t/date=1/part-{n}.parquet", "", 9, 0, 0, 1) for n in range(20)]
    assert Merger(LocalFiles(), str(tmp_path), Hands())("part-9-", far) == far


# Tables of other pipelines

DAYS = [date(2026, 11, day) for day in range(1, 8)]


def plain_table(path, files=None, clock=None):
    files = files or LocalFiles()
    merger = Merger(files, str(path), clock or Hands())
    return Table(files, str(path), FileLog(files, str(path), merger))


def numbered(number, days=1):
    return pa.table({"n": [number] * days, "date": DAYS[:days]})


def found(paths):
    values = [pq.read_table(path, partitioning=None)["n"].to_pylist() for path in paths]
    return sorted(itertools.chain.from_iterable(values))


def table_rows(path):
    return found(one.path for one in files_of(path))


def test_other_tables_are_merged_as_they_are(tmp_path):
    table = plain_table(tmp_path)
    for number in range(11):
        table.append(numbered(number), number)
    assert [found([one.path]) for one in files_of(tmp_path)] == [list(range(9)), [9], [10]]


def test_a_file_alone_is_written_again_only_for_its_layout(tmp_path):
    alone = [entry(1, 10, merged=False), entry(2, 2 * TARGET_SIZE, "date=2026-11-16", merged=False)]
    assert Merger(LocalFiles(), str(tmp_path), Hands())("part-9-", alone) == alone
    assert not list(tmp_path.iterdir())


def test_every_day_of_a_batch_with_many_is_merged_for_itself(tmp_path):
    table = plain_table(tmp_path)
    for number in range(2 * COMPACT_EVERY):
        table.append(numbered(number, len(DAYS)), number)
    files = files_of(tmp_path)
    assert len(files) == 3 * len(DAYS)  # two merges, and what the last append has added
    assert table_rows(tmp_path) == sorted([*range(2 * COMPACT_EVERY)] * len(DAYS))
    assert {one.keys["date"] for one in files} == {day.isoformat() for day in DAYS}


def test_a_table_of_hundreds_of_appends_and_many_days_has_few_files(tmp_path):
    """As a pipeline fills it that comes upon old records day by day."""
    table = plain_table(tmp_path)
    for number in range(350):
        table.append(pa.table({"n": [number], "date": [DAYS[number // 50]]}), number)
    assert len(files_of(tmp_path)) <= len(DAYS) * 2 * FAN_IN
    assert table_rows(tmp_path) == list(range(350))


def test_files_that_a_state_names_are_there_whatever_is_merged_and_however_long_it_takes(tmp_path):
    """A pipeline with windows: the files of appends are wanted until their window is closed.

    Each process is killed at some step and goes on from the state before; in between hours pass.
    """
    clock, chance = Hands(), random.Random(7)
    wanted: dict[int, list[str]] = {}
    number = 0
    while number < 120:
        files = CrashingFiles(chance.randrange(1, 60), after=chance.random() < 0.5)
        table = plain_table(tmp_path, files, clock)
        clock.now_ms += chance.choice([0, 60_000, 5 * REPLACED_KEPT_MS])
        try:
            while number < 120:
                kept = [path for paths in wanted.values() for path in paths]
                paths = table.append(numbered(number, 2), number, kept)
                wanted[number] = paths
                number += 1
                if chance.random() < 0.1:  # windows are closed
                    read = found(path.removeprefix("file:") for path in kept)
                    assert read == sorted([*(set(wanted) - {number - 1})] * 2)
                    wanted = {number - 1: paths}
        except Crash:
            pass
        named = {f"file:{one.path}" for one in files_of(tmp_path)}
        assert named >= {path for paths in wanted.values() for path in paths}
    assert table_rows(tmp_path) == sorted([*range(120)] * 2)


def test_an_append_that_is_run_again_after_its_merge_gives_its_own_files(tmp_path):
    for number in range(COMPACT_EVERY):
        paths = plain_table(tmp_path).append(numbered(number), number)
    again = plain_table(tmp_path).append(numbered(99), COMPACT_EVERY - 1)
    assert again == paths
    assert found(path.removeprefix("file:") for path in again) == [COMPACT_EVERY - 1]


@pytest.mark.parametrize("damaged", [slice(4, 60), slice(-40, None), slice(0, None)])
def test_a_damaged_file_is_named_where_it_is_to_be_merged(tmp_path, damaged):
    for number in range(COMPACT_EVERY - 1):
        (path,) = plain_table(tmp_path).append(numbered(number), number)
    place = Path(path.removeprefix("file:"))
    data = bytearray(place.read_bytes())
    data[damaged] = b"\xff" * len(data[damaged]) if damaged.start else b""
    place.write_bytes(data)
    with pytest.raises(UserError, match=f"^{place} cannot be read: "):
        plain_table(tmp_path).append(numbered(number + 1), number + 1)
    place.unlink()
    with pytest.raises(StorageError, match=f"^{place}: cannot be read: "):  # it may come back
        plain_table(tmp_path).append(numbered(number + 1), number + 1)


# Files become one


def test_files_of_spark_and_of_arrow_become_one():
    spark = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    joined = merging.merged([pa.table({"n": [1]}, schema=spark), pa.table({"n": [None, 2]})])
    assert joined["n"].to_pylist() == [1, None, 2]


def test_lists_and_structs_of_spark_and_of_arrow_become_one():
    inside = pa.struct([pa.field("bound", pa.float64(), nullable=False), ("count", pa.float64())])
    spark = pa.list_(pa.field("element", inside, nullable=False))
    arrow_type = pa.list_(pa.struct([("bound", pa.float64()), ("count", pa.float64())]))
    values = [[{"bound": 1.0, "count": 2.0}], None]
    joined = merging.merged([
        pa.table({"buckets": pa.array(values[:1], spark)}),
        pa.table({"buckets": pa.array(values, arrow_type)}),
    ])  # fmt: skip
    assert joined["buckets"].to_pylist() == [values[0], *values]


def test_columns_that_only_some_files_have_are_null_in_the_others():
    joined = merging.merged([pa.table({"n": [1]}), pa.table({"n": [2], "unit": ["s"]})])
    assert joined.to_pylist() == [{"n": 1, "unit": None}, {"n": 2, "unit": "s"}]
