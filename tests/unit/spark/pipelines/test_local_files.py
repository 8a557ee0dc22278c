"""Files of this machine that cannot be looked at are told of as those of Spark's are."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.base.errors import StorageError
from moldau.spark.pipelines.storage import LocalFiles


def test_what_is_not_there_does_not_exist(tmp_path):
    (tmp_path / "file").touch()
    files = LocalFiles()
    assert files.exists(f"file:{tmp_path}/file")
    assert not files.exists(f"{tmp_path}/none/none")
    assert not files.exists(f"{tmp_path}/file/below")


def test_a_place_that_cannot_be_looked_at_is_not_taken_for_a_missing_one(tmp_path):
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(StorageError, match=r"circle.*cannot be read"):
        LocalFiles().exists(f"{circle}/note")


def test_a_file_that_goes_while_a_folder_is_listed_is_told_by_the_folder(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    monkeypatch.setattr(Path, "glob", lambda _folder, _pattern: [gone])
    monkeypatch.setattr(Path, "is_file", lambda _place: True)
    with pytest.raises(StorageError, match=f"{tmp_path}.*cannot be read"):
        LocalFiles().below(str(tmp_path))
