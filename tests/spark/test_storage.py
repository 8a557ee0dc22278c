"""Files of any file system that Spark reaches, on the one that is here."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moldau.base.errors import StorageError
from moldau.spark.pipelines.storage import LocalFiles, SparkFiles
from moldau.spark.pipelines.tables.appending import read_files


class NoSteps:
    """A file system that can neither remove nor rename, so that no file is ever missing."""

    def __init__(self, system):
        self._system = system

    def __getattr__(self, name):
        assert name not in ("delete", "rename")
        return getattr(self._system, name)


def test_a_file_is_replaced_in_one_step(spark, tmp_path, monkeypatch):
    files, path = SparkFiles(spark), f"{tmp_path}/below/note"
    at = files._at
    monkeypatch.setattr(files, "_at", lambda path: (NoSteps(at(path)[0]), at(path)[1]))
    for text in ("old", "naïve", ""):
        files.write(path, text)
        assert (files.read(path), LocalFiles().read(path)) == (text, text)
    assert [name for name in files.names(f"{tmp_path}/below") if "tmp" in name] == []


def test_a_file_system_without_such_a_step_replaces_files_too(spark, tmp_path):
    files, path = SparkFiles(spark), f"file:{tmp_path}/note"
    files._settings = spark._jvm.org.apache.hadoop.conf.Configuration(files._settings)
    files._settings.unset("fs.AbstractFileSystem.file.impl")
    for text in ("old", "new"):
        files.write(path, text)
        assert files.read(path) == text


@pytest.mark.parametrize("path", ["plum://nowhere/a", "plum:a"], ids=["scheme", "syntax"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda files, path: files.whole(path),
        lambda files, path: files.exists(path),
        lambda files, path: files.read(path),
        lambda files, path: files.write(path, b"text"),
        lambda files, path: files.move("file:/nowhere", path),
        lambda files, path: files.remove(path),
        lambda files, path: files.names(path),
        lambda files, path: files.below(path),
        lambda files, path: files.matching(path, "*"),
        lambda files, path: files.entry(path),
    ],
    ids=["whole", "exists", "read", "write", "move", "remove", "names", "below", "matching",
         "entry"],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line_about_the_path(spark, ask, path):
    with pytest.raises(StorageError, match=r"^plum:.* cannot be \w+: .*") as raised:
        ask(SparkFiles(spark), path)
    assert raised.value.path.startswith(path)
    assert "\n" not in str(raised.value)


def test_a_file_in_place_of_a_folder_is_told(spark, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"/file/note: cannot be written: .*file"):
        SparkFiles(spark).write(f"{tmp_path}/file/note", "text")
    with pytest.raises(StorageError, match=r"/none: cannot be read: .*not exist"):
        SparkFiles(spark).below(f"{tmp_path}/none")


@pytest.mark.parametrize("name", ["some * folder", "some [ab] folder"])
def test_rows_of_files_in_a_folder_named_like_a_pattern_are_read_once(spark, tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    paths = [str(folder / f"{number}.parquet") for number in range(3)]
    for number, path in enumerate(paths):
        pq.write_table(pa.table({"n": [number]}), path)
    found = [row.n for row in read_files(spark, "n BIGINT", paths).collect()]
    assert sorted(found) == [0, 1, 2]
