"""What storage may rely on, whatever disk is below: the real one and the simulated one alike."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.base.files import File, Files, read_whole, replace_in, write_atomically
from moldau.sim.disk import SimDisk
from moldau.storage.disk import Disk


@pytest.fixture(params=["real", "simulated"])
def files(request: pytest.FixtureRequest) -> Files:
    return Disk() if request.param == "real" else SimDisk(random.Random(1))


@pytest.fixture
def folder(files: Files, tmp_path: Path) -> str:
    path = f"{tmp_path}/logs"
    files.make_folder(path)
    return path


@pytest.fixture
def file(files: Files, folder: str) -> Iterator[File]:
    opened = files.open(f"{folder}/a.log", create=True)
    yield opened
    opened.close()


def test_appended_parts_are_read_back_in_order(file):
    file.append([b"one", bytearray(b"two"), memoryview(b"three")])
    file.append([b"four"])
    assert file.read(0, 100) == b"onetwothreefour"
    assert file.read(3, 3) == b"two"
    assert file.size() == 15


def test_a_piece_is_appended_as_one_part_would_be(file):
    file.append([b"one"])
    file.append((b"two",))
    file.append((b"",))
    file.append([b"three"])
    assert file.read(0, 100) == b"onetwothree"


def test_more_parts_than_one_system_call_takes_are_all_written(file):
    parts = [index.to_bytes(4) for index in range(3000)]
    file.append(parts)
    assert file.read(0, file.size()) == b"".join(parts)


def test_appending_nothing_changes_nothing(file):
    file.append([])
    file.append([b""])
    assert file.size() == 0


def test_reading_stops_at_the_end(file):
    file.append([b"0123456789"])
    assert file.read(8, 100) == b"89"
    assert file.read(10, 5) == b""
    assert file.read(1000, 5) == b""
    assert file.read(4, 0) == b""


@pytest.mark.parametrize(("position", "size"), [(-1, 5), (0, -1)])
def test_reading_at_an_impossible_place_is_refused(file, position, size):
    file.append([b"0123456789"])
    with pytest.raises(OSError):
        file.read(position, size)


def test_truncating_cuts_and_appends_go_on_from_there(file):
    file.append([b"0123456789"])
    file.truncate(4)
    file.append([b"ab"])
    assert file.read(0, 100) == b"0123ab"


def test_truncating_never_grows_a_file(file):
    file.append([b"0123"])
    file.truncate(10)
    assert file.size() == 4


def test_truncating_below_zero_is_refused(file):
    with pytest.raises(OSError):
        file.truncate(-1)


def test_a_second_handle_sees_appends_and_truncations_at_once(files, file):
    other = files.open(file.path)
    file.append([b"0123456789"])
    assert (other.size(), other.read(0, 100)) == (10, b"0123456789")
    other.append([b"x"])
    assert file.read(0, 100) == b"0123456789x"
    file.truncate(2)
    assert other.size() == 2
    other.close()


def test_opening_again_keeps_the_content(files, file):
    file.append([b"kept"])
    file.sync()
    again = files.open(file.path, create=True)
    assert again.read(0, 100) == b"kept"
    again.close()


def test_opening_what_is_missing_is_file_not_found(files, folder):
    with pytest.raises(FileNotFoundError):
        files.open(f"{folder}/missing")
    with pytest.raises(FileNotFoundError):
        files.open(f"{folder}/no/such/folder", create=True)
    with pytest.raises(FileNotFoundError):
        files.size(f"{folder}/missing")
    with pytest.raises(FileNotFoundError):
        files.names(f"{folder}/missing")
    with pytest.raises(FileNotFoundError):
        files.sync_folder(f"{folder}/missing")


def test_opening_a_folder_is_refused(files, folder):
    with pytest.raises(IsADirectoryError):
        files.open(folder)


def test_a_closed_handle_is_of_no_more_use_and_closes_twice(files, folder):
    file = files.open(f"{folder}/b.log", create=True)
    file.close()
    file.close()
    uses = (
        lambda: file.read(0, 1),
        lambda: file.append([b"x"]),
        file.sync,
        file.size,
    )
    for use in uses:
        with pytest.raises(OSError):
            use()


def test_what_was_just_written_is_resident_and_warming_it_is_harmless(file):
    file.append([b"x" * 300_000])
    assert file.resident(0, 300_000)
    assert file.resident(299_999, 1)
    assert file.resident(0, 0)
    file.warm(100, 250_000)
    file.warm(0, 0)
    file.warm(299_000, 50_000)
    assert file.resident(100, 250_000)


def test_names_are_sorted_and_know_folders_from_files(files, folder, file):
    files.make_folder(f"{folder}/topic-0")
    files.open(f"{folder}/Z", create=True).close()
    assert files.names(folder) == ["Z", "a.log", "topic-0"]
    assert files.is_folder(f"{folder}/topic-0")
    assert not files.is_folder(f"{folder}/Z")
    assert not files.is_folder(f"{folder}/missing")
    assert files.exists(f"{folder}/topic-0")
    assert files.exists(f"{folder}/Z")
    assert not files.exists(f"{folder}/missing")


def test_size_by_path_is_the_files(files, file):
    file.append([b"12345"])
    assert files.size(file.path) == 5


def test_making_a_folder_makes_its_parents_and_may_be_repeated(files, folder):
    files.make_folder(f"{folder}/x/y/z")
    files.make_folder(f"{folder}/x/y/z")
    assert files.names(f"{folder}/x/y") == ["z"]


def test_making_a_folder_where_a_file_is_is_refused(files, file):
    with pytest.raises(FileExistsError):
        files.make_folder(file.path)
    with pytest.raises(NotADirectoryError):
        files.make_folder(f"{file.path}/below")


def test_renaming_replaces_a_file(files, folder, file):
    file.append([b"new"])
    old = files.open(f"{folder}/old", create=True)
    old.append([b"old"])
    files.rename(file.path, f"{folder}/old")
    assert read_whole(files, f"{folder}/old") == b"new"
    assert old.read(0, 10) == b"old"
    assert files.names(folder) == ["old"]
    assert file.read(0, 10) == b"new"
    old.close()


def test_renaming_a_folder_takes_its_content_along(files, folder):
    files.make_folder(f"{folder}/topic-0")
    write_atomically(files, f"{folder}/topic-0/x", b"content")
    files.rename(f"{folder}/topic-0", f"{folder}/topic-0-delete")
    assert read_whole(files, f"{folder}/topic-0-delete/x") == b"content"
    assert not files.exists(f"{folder}/topic-0")


def test_renaming_onto_itself_changes_nothing(files, folder, file):
    files.rename(file.path, file.path)
    assert files.names(folder) == ["a.log"]


def test_renames_that_cannot_be_are_refused(files, folder, file):
    files.make_folder(f"{folder}/full/inner")
    files.make_folder(f"{folder}/other")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{folder}/missing", f"{folder}/x")
    with pytest.raises(OSError):
        files.rename(f"{folder}/other", f"{folder}/full")
    with pytest.raises(IsADirectoryError):
        files.rename(file.path, f"{folder}/other")
    with pytest.raises(NotADirectoryError):
        files.rename(f"{folder}/other", file.path)
    with pytest.raises(OSError):
        files.rename(f"{folder}/full", f"{folder}/full/inner/deeper")
    assert files.names(folder) == ["a.log", "full", "other"]


def test_a_removed_file_is_gone_but_open_handles_go_on(files, folder, file):
    file.append([b"still here"])
    files.remove(file.path)
    assert files.names(folder) == []
    assert file.read(0, 100) == b"still here"
    files.remove(file.path)


def test_a_folder_is_not_removed_as_a_file_nor_a_file_as_a_folder(files, folder, file):
    with pytest.raises(IsADirectoryError):
        files.remove(folder)
    with pytest.raises(NotADirectoryError):
        files.remove_folder(file.path)
    assert files.exists(file.path)


def test_removing_a_folder_removes_all_below_it(files, folder):
    files.make_folder(f"{folder}/topic-0/deep")
    write_atomically(files, f"{folder}/topic-0/deep/x", b"1")
    write_atomically(files, f"{folder}/topic-0/y", b"2")
    files.remove_folder(f"{folder}/topic-0")
    assert files.names(folder) == []
    files.remove_folder(f"{folder}/topic-0")


def test_syncing_a_file_that_is_no_folder_is_refused(files, file):
    with pytest.raises(NotADirectoryError):
        files.sync_folder(file.path)


def test_writing_atomically_replaces_the_content_and_leaves_nothing_beside(files, folder):
    path = f"{folder}/checkpoint"
    write_atomically(files, f"{path}.tmp", b"left over from a crash")
    write_atomically(files, path, b"first")
    write_atomically(files, path, b"2nd")
    assert read_whole(files, path) == b"2nd"
    assert files.names(folder) == ["checkpoint"]


def test_an_open_folder_stays_the_same_when_another_gets_its_path(files, folder):
    files.make_folder(f"{folder}/topic-0")
    held = files.open_folder(f"{folder}/topic-0")
    files.rename(f"{folder}/topic-0", f"{folder}/aside")
    files.make_folder(f"{folder}/topic-0")
    replace_in(held, "x", b"first")
    replace_in(held, "x", b"2nd")
    assert read_whole(files, f"{folder}/aside/x") == b"2nd"
    assert files.names(f"{folder}/aside") == ["x"]
    assert files.names(f"{folder}/topic-0") == []
    held.remove("x")
    held.remove("x")
    assert files.names(f"{folder}/aside") == []
    held.close()
    held.close()


def test_in_a_removed_folder_no_file_can_be_made(files, folder):
    files.make_folder(f"{folder}/topic-0")
    held = files.open_folder(f"{folder}/topic-0")
    files.remove_folder(f"{folder}/topic-0")
    files.make_folder(f"{folder}/topic-0")
    with pytest.raises(FileNotFoundError):
        held.open("x", create=True)
    held.remove("x")
    held.sync()
    assert files.names(f"{folder}/topic-0") == []
    held.close()


def test_what_an_open_folder_does_not_hold_is_not_found_there(files, folder):
    held = files.open_folder(folder)
    with pytest.raises(FileNotFoundError):
        held.open("missing")
    with pytest.raises(FileNotFoundError):
        held.rename("missing", "x")
    held.close()


def test_only_a_folder_can_be_opened_as_one(files, folder, file):
    with pytest.raises(NotADirectoryError):
        files.open_folder(file.path)
    with pytest.raises(FileNotFoundError):
        files.open_folder(f"{folder}/missing")


def test_a_lock_is_held_by_one_and_free_after_release(files, folder):
    path = f"{folder}/.lock"
    first = files.lock(path)
    with pytest.raises(BlockingIOError):
        files.lock(path)
    with pytest.raises(BlockingIOError):
        files.lock(f"{folder}//.lock")
    first.release()
    second = files.lock(path)
    first.release()
    with pytest.raises(BlockingIOError):
        files.lock(path)
    second.release()
    assert files.names(folder) == [".lock"]
