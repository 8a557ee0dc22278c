"""Tables and their log, without Spark: rows once, whatever happens between two steps."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moldau.base.errors import StorageError, UserError
from moldau.spark.pipelines.activity.sessions import Sessions
from moldau.spark.pipelines.records.gathering import Chosen, Rows
from moldau.spark.pipelines.storage import LocalFiles
from moldau.spark.pipelines.tables.appending import Table
from moldau.spark.pipelines.tables.committed import LOG, files_of
from moldau.spark.pipelines.tables.file_log import FileLog
from moldau.spark.pipelines.windowed.closing import State
from moldau.spark.pipelines.windowed.filing import Filing, Share

COUNT = 31
DAYS = (date(2026, 11, 15), date(2026, 11, 16))


class Crash(Exception):  # noqa: N818 - it names the event
    """What ends a process in the middle."""


class CrashingFiles(LocalFiles):
    """Files that fail after some steps, with half of the next one done."""

    def __init__(self, survived):
        self.left = survived

    def write(self, path, data):
        self.left -= 1
        if self.left < 0:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).with_name(f".{Path(path).name}.tmp").write_bytes(b"half")
            raise Crash
        super().write(path, data)


def table_at(path, partitioned_by=("date",), files=None):
    files = files or LocalFiles()
    return Table(files, str(path), FileLog(files, str(path)), partitioned_by)


def rows(number):
    return pa.table({"n": [2 * number, 2 * number + 1], "date": list(DAYS)})


def found(table: Path, column="n"):
    """Return what a reader finds by the rules of Spark's log."""
    log = table / LOG
    names = {path.name for path in log.iterdir() if not path.name.startswith(".")}
    compact = max((int(name.partition(".")[0]) for name in names if "." in name), default=-1)
    later = sorted(int(name) for name in names if name.isdigit() and int(name) > compact)
    assert later == list(range(compact + 1, compact + 1 + len(later)))
    held = [f"{compact}.compact"] if compact >= 0 else []
    values = []
    for name in (*held, *map(str, later)):
        head, *lines = (log / name).read_text().split("\n")
        assert head == "v1"
        for line in filter(None, lines):
            path = Path(json.loads(line)["path"].removeprefix("file:"))
            values += pq.ParquetFile(path).read().column(column).to_pylist()
    return values


@pytest.mark.parametrize("survived", range(3))
def test_rows_are_appended_once_by_any_number_of_tries(tmp_path, survived):
    """An append has three steps: two files and the entry of the log.

    Every second try crashes after so many steps; each one is a process of its own.
    """
    done, tries = 0, 0
    while done < COUNT:
        tries += 1
        table = table_at(tmp_path, files=CrashingFiles(survived if tries % 2 else 99))
        try:
            for number in range(max(done - 1, 0), COUNT):
                table.append(rows(number), number)
                done = number + 1
        except Crash:
            continue
    assert sorted(found(tmp_path)) == list(range(2 * COUNT))
    assert len(list(tmp_path.glob("date=*/*.parquet"))) == 2 * COUNT
    kept = {int(path.name.partition(".")[0]) for path in (tmp_path / LOG).glob("[0-9]*")}
    assert kept == set(range(9, COUNT))  # 9.compact holds what was before it


def test_an_append_that_is_done_gives_the_paths_it_gave(tmp_path):
    for number in range(12):
        paths = table_at(tmp_path).append(rows(number), number)
        assert all(path.startswith(f"file:{tmp_path}/date=2026-11-1") for path in paths)
        assert table_at(tmp_path).append(rows(99), number) == paths


@pytest.mark.parametrize("line", ['{"path": "fil', "[]", '{"path": "file:/a"}'])
def test_a_log_that_cannot_be_read_is_told_of_by_its_name(tmp_path, line):
    table_at(tmp_path).append(rows(0), 0)
    entry = tmp_path / LOG / "0"
    entry.write_text(f"v1\n{line}")
    with pytest.raises(UserError, match=f"{entry} cannot be read: put a copy back"):
        table_at(tmp_path).append(rows(0), 0)


@pytest.mark.parametrize("data", [b"", b"\0" * 200, b"nonsense"])
def test_an_entry_that_a_crash_of_the_machine_left_empty_is_told_of_before_the_next(tmp_path, data):
    for number in range(2):
        table_at(tmp_path).append(rows(number), number)
    entry = tmp_path / LOG / "1"
    entry.write_bytes(data)
    with pytest.raises(UserError, match=f"^{entry} cannot be read: put a copy back"):
        table_at(tmp_path).append(rows(2), 2)
    assert not (tmp_path / LOG / "2").exists()


def test_rows_are_still_there_when_a_missing_part_of_the_log_is_put_back(tmp_path):
    for number in range(3):
        table_at(tmp_path).append(rows(number), number)
    kept = (tmp_path / LOG / "2").rename(tmp_path / "kept")
    with pytest.raises(UserError, match="part of the table is missing"):
        table_at(tmp_path).append(rows(3), 3)
    kept.rename(tmp_path / LOG / "2")
    table_at(tmp_path).append(rows(3), 3)
    assert sorted(found(tmp_path)) == list(range(8))


@pytest.mark.parametrize("gone", ["0", "1", "9.compact", "11"])
def test_without_spark_readers_are_told_of_an_entry_that_is_gone(tmp_path, gone):
    table = table_at(tmp_path)
    for number in range(13 if int(gone.partition(".")[0]) > 8 else 3):
        table.append(rows(number), number)
    place = tmp_path / LOG / gone
    place.unlink()
    if gone == "9.compact":
        place = tmp_path / LOG / "9"
    with pytest.raises(UserError, match=f"cannot be followed: {place} is missing$"):
        files_of(tmp_path)


@pytest.mark.parametrize(
    ("number", "said"),
    [(3, "has 2 appends and is to get number 3: part of the table is missing"),
     (0, "has 2 appends and is to get number 0 again: the state or the checkpoint is an older")],
)  # fmt: skip
def test_an_append_that_is_neither_the_last_nor_the_next_is_refused(tmp_path, number, said):
    for done in range(2):
        table_at(tmp_path).append(rows(done), done)
    with pytest.raises(UserError, match=said):
        table_at(tmp_path).append(rows(0), number)
    assert sorted(found(tmp_path)) == list(range(4))


def test_rows_are_filed_under_the_names_that_spark_gives_to_folders(tmp_path):
    table = table_at(tmp_path / "a b", ["date", "level"])
    told = {"n": [1, 2], "date": [DAYS[0], DAYS[0]], "level": ["a/b=c %", None]}
    paths = table.append(pa.table(told), 0)

    names = {path.partition("/date=2026-11-15/")[2].partition("/")[0] for path in paths}
    assert names == {"level=a%2Fb%3Dc %25", "level=__HIVE_DEFAULT_PARTITION__"}
    assert all(Path(path.removeprefix("file:")).exists() for path in paths)
    line = json.loads((tmp_path / "a b" / LOG / "0").read_text().split("\n")[1])
    assert "/a%20b/" in line["path"]
    assert table_at(tmp_path / "a b", ["date", "level"]).append(None, 0) == paths


def test_shares_go_to_their_tables_under_the_next_numbers(tmp_path):
    filing = Filing({name: table_at(tmp_path / name) for name in ("a", "b", "c")})
    kinds = pa.table({"kind": ["a", "b", "a"], "n": [1, 2, 3], "date": [DAYS[0]] * 3})
    shares = [Share(name, {"number": "n", "date": "date"}, Chosen("kind", name)) for name in "abc"]

    state = filing.file(State(appended={}), Rows(None, kinds), shares)

    assert state.appended == {"a": 1, "b": 1}  # without rows there is no append
    assert found(tmp_path / "a", "number") == [1, 3]
    assert filing.file(State(), Rows(None, kinds), shares) == state
    assert found(tmp_path / "a", "number") == [1, 3]


@pytest.mark.parametrize("is_there", [False, True])
def test_what_goes_on_from_window_to_window_is_not_taken_for_nothing(tmp_path, is_there):
    folder = tmp_path / "0000000004"
    if is_there:
        folder.mkdir()
        (folder / "_SUCCESS").touch()
    sessions = Sessions(None, LocalFiles(), str(tmp_path), gap_ms=1)
    with pytest.raises(UserError, match=f"^{folder} is missing or empty, .* restore it"):
        sessions.of(State(notes={"sessions": str(folder)}), None, 0)


# Files


def test_files_are_written_moved_listed_and_removed(tmp_path):
    files, folder = LocalFiles(), str(tmp_path / "f")
    assert files.names(folder) == []
    assert files.read(f"{folder}/a") is None
    files.write(f"{folder}/a", "one")
    files.write(f"file:{folder}/a", "two")
    files.move(f"{folder}/a", f"{folder}/deep/b")
    assert files.names(folder) == ["deep"]
    assert files.read(f"{folder}/deep/b") == "two"
    (entry,) = files.below(folder)
    assert entry == files.entry(f"{folder}/deep/b")
    assert (entry.name, entry.size, entry.path) == ("b", 3, f"file:{folder}/deep/b")
    assert files.matching(folder, "*/b*") == [entry]
    files.remove(folder)
    files.remove(folder)
    assert not files.exists(folder)


def test_a_checksum_of_what_was_there_before_does_not_stay(tmp_path):
    files, old = LocalFiles(), tmp_path / ".a.crc"
    for change in (
        lambda: files.write(str(tmp_path / "a"), "x"),
        lambda: files.remove(str(tmp_path / "a")),
        lambda: files.move(str(tmp_path / "b"), str(tmp_path / "a")),
    ):
        old.write_bytes(b"crc")
        (tmp_path / "b").touch()
        change()
        assert not old.exists()


def test_what_a_disk_refuses_is_said_with_the_path(tmp_path):
    (tmp_path / "file").touch()
    place = str(tmp_path / "file" / "a")
    for attempt in (
        lambda: LocalFiles().write(place, "x"),
        lambda: LocalFiles().move(str(tmp_path / "none"), str(tmp_path / "a")),
        lambda: LocalFiles().entry(str(tmp_path / "none")),
    ):
        with pytest.raises(StorageError, match=f"^{tmp_path}.* cannot be "):
            attempt()
