"""The disk of a test broker: nothing of a life that was killed changes a file any more."""

from __future__ import annotations

import pytest

from moldau.testing.disk import Killed, MortalDisk


@pytest.fixture
def disk(tmp_path):
    made = MortalDisk()
    made.make_folder(f"{tmp_path}/logs")
    return made


def test_what_was_written_before_a_kill_stays_and_nothing_is_written_after(disk, tmp_path):
    path = f"{tmp_path}/logs/a.log"
    folder = disk.open_folder(f"{tmp_path}/logs")
    files = [disk.open(path, create=True), folder.open("a.log")]
    for file in files:
        file.append([b"be", b"fore"])
        file.sync()
    disk.kill()
    attempts = [
        lambda: disk.open(path),
        lambda: disk.open_folder(f"{tmp_path}/logs"),
        lambda: disk.make_folder(f"{tmp_path}/other"),
        lambda: disk.rename(path, f"{path}.deleted"),
        lambda: disk.remove(path),
        lambda: disk.remove_folder(f"{tmp_path}/logs"),
        lambda: disk.sync_folder(f"{tmp_path}/logs"),
        lambda: disk.lock(f"{tmp_path}/logs/.lock"),
        lambda: folder.open("b.log", create=True),
        lambda: folder.rename("a.log", "b.log"),
        lambda: folder.remove("a.log"),
        folder.sync,
    ]
    for file in files:
        attempts += [lambda f=file: f.append([b"x"]), lambda f=file: f.truncate(0), file.sync]
    for attempt in attempts:
        with pytest.raises(Killed):
            attempt()
    folder.close()
    assert [one.read(0, 100) for one in files] == [b"beforebefore"] * 2
    assert sorted(one.name for one in (tmp_path / "logs").iterdir()) == ["a.log"]


def test_a_kill_lets_the_next_life_in(disk, tmp_path):
    path = f"{tmp_path}/logs/.lock"
    disk.lock(path)
    with pytest.raises(BlockingIOError):
        MortalDisk().lock(path)
    disk.kill()
    MortalDisk().lock(path).release()


def test_no_failure_handler_survives_a_kill():
    assert not issubclass(Killed, Exception)
