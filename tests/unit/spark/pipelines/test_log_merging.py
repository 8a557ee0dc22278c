"""Small files become large ones, and at no moment a reader misses a row or sees one twice."""

from __future__ import annotations

import itertools
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_tables import arrow, log_table, row
from moldau.spark.pipelines.logs import merging
from moldau.spark.pipelines.logs.committed import files_of
from moldau.spark.pipelines.logs.merging import (
    FAN_IN,
    MERGED,
    REPLACED_KEPT_MS,
    TARGET_SIZE,
    Merger,
    plan,
    write_plainly,
)
from moldau.spark.pipelines.logs.search import Question, search
from moldau.spark.pipelines.storage import FileEntry, LocalFiles
from moldau.spark.pipelines.tables import Table


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
    assert plan([small]) == [[small]]
    assert plan([small, large]) == [[small, large]]
    assert plan([large, entry(3, 10, merged=False)]) == [[large], [entry(3, 10, merged=False)]]


def test_files_of_a_tier_are_merged_when_it_is_full():
    tier = [entry(number, 1000 + number) for number in range(FAN_IN)]
    others = [entry(20, TARGET_SIZE // 100), entry(21, TARGET_SIZE)]
    assert plan([*tier[1:], *others]) == []
    assert plan([*others, *tier]) == [tier]


def test_no_merge_makes_a_file_much_larger_than_large_and_folders_stay_apart():
    half = TARGET_SIZE * 5 // 8
    files = [entry(number, half) for number in range(5)]
    assert [len(part) for part in plan(files)] == [2, 2]
    apart = [entry(number, 9, f"date=2026-11-1{number % 2}") for number in range(2 * FAN_IN - 1)]
    assert [len(part) for part in plan(apart)] == [FAN_IN]


def test_a_day_of_many_appends_has_few_files(tmp_path, monkeypatch):
    """A thousand appends; sizes are those of notes, so that this takes no time."""
    sizes = itertools.count(5000)
    live: list[FileEntry] = []
    for number in range(1000):
        live.append(entry(number, next(sizes), merged=False))
        if number % 10 == 9:
            for part in plan(live):
                size = sum(one.size for one in part)
                live = [*(one for one in live if one not in part), entry(number + len(part), size)]
    assert len(live) <= 3 * FAN_IN
    assert max(one.size for one in live) > 1_000_000


# Through the log


def test_rows_are_the_same_after_merging_and_the_log_names_few_files(tmp_path):
    table = log_table(tmp_path)
    for number in range(30):
        table.append(arrow(batch(number)), number)
        assert offsets(tmp_path) == list(range(number * 10 + 10))
    files = files_of(tmp_path)
    assert len(files) <= 12  # three merges in four folders
    assert all(MERGED in one.path.name for one in files)
    times = pq.read_table(files[0].path, partitioning=None)["time"].to_pylist()
    assert times == sorted(times)


def test_files_that_spark_has_noted_are_merged_with_those_noted_here(tmp_path):
    table = log_table(tmp_path)
    for number in range(9):
        table.append(arrow([row(number)]), number)
        noted = tmp_path / "_spark_metadata" / str(number)
        if number % 2:
            noted.write_text(noted.read_text().replace('"file:/', '"file:///'))
    table.append(arrow([row(9)]), 9)
    assert len(files_of(tmp_path)) == 1
    assert offsets(tmp_path) == list(range(10))


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


def test_tables_elsewhere_keep_their_files(tmp_path):
    far = [FileEntry(f"hdfs://n/t/date=1/part-{n}.parquet", "", 9, 0, 0, 1) for n in range(20)]
    assert Merger(LocalFiles(), str(tmp_path), Hands(), write_plainly)("part-9-", far) == far


def test_other_tables_are_merged_as_they_are(tmp_path):
    files = LocalFiles()
    table = Table(
        files, str(tmp_path), ("date",), Merger(files, str(tmp_path), Hands(), write_plainly)
    )
    for number in range(10):
        rows = {"n": [number], "date": ["2026-11-15"]}
        table.append(pa.table(rows), number)
    (only,) = files_of(tmp_path)
    assert pq.read_table(only.path, partitioning=None)["n"].to_pylist() == list(range(10))


def test_files_of_spark_and_of_arrow_become_one():
    spark = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    joined = merging.merged([pa.table({"n": [1]}, schema=spark), pa.table({"n": [None, 2]})])
    assert joined["n"].to_pylist() == [1, None, 2]
