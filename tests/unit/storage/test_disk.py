"""What only the real disk has: descriptors, short writes, locks between processes, cold pages."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

from moldau.storage import disk as disk_module
from moldau.storage.disk import READ_AHEAD, READ_AHEAD_STEP, Disk

MIB = 1024 * 1024

HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "wb")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""

TAKE_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(7)
"""


@pytest.fixture
def file(tmp_path):
    opened = Disk().open(f"{tmp_path}/a.log", create=True)
    yield opened
    opened.close()


def take_lock_elsewhere(path: str) -> int:
    return subprocess.run([sys.executable, "-c", TAKE_LOCK, path], check=False).returncode


@pytest.mark.process
def test_the_lock_is_the_kind_java_takes_and_keeps_other_processes_out(tmp_path):
    path = f"{tmp_path}/.lock"
    lock = Disk().lock(path)
    assert take_lock_elsewhere(path) == 7
    lock.release()
    assert take_lock_elsewhere(path) == 0


@pytest.mark.process
def test_a_lock_held_by_another_process_is_respected(tmp_path):
    path = f"{tmp_path}/.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError, match="another process"):
            Disk().lock(path)
        holder.communicate()
    Disk().lock(path).release()


@pytest.mark.process
def test_a_refused_second_lock_does_not_drop_the_first(tmp_path):
    path = f"{tmp_path}/.lock"
    lock = Disk().lock(path)
    (tmp_path / "link").symlink_to(tmp_path)
    for name in (path, f"{tmp_path}/link/.lock"):
        with pytest.raises(BlockingIOError):
            Disk().lock(name)
    assert take_lock_elsewhere(path) == 7
    lock.release()


def test_a_short_write_is_carried_on(file, monkeypatch):
    real_writev, real_write = os.writev, os.write
    monkeypatch.setattr(os, "writev", lambda fd, parts: real_writev(fd, [b"".join(parts)[:4]]))
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, data[:3]))
    file.append([b"012", b"345", b"6789"])
    file.append([b"abcdefg"])
    assert file.read(0, 100) == b"0123456789abcdefg"


def test_a_short_read_is_carried_on(file, monkeypatch):
    file.append([b"0123456789"])
    real_pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real_pread(fd, min(size, 3), at))
    assert file.read(1, 8) == b"12345678"
    assert file.read(1, 80) == b"123456789"


@pytest.mark.parametrize(("size", "expected"), [(1, 1), (1000, 2), (300_000, 4)])
def test_residency_is_asked_at_both_ends_and_once_per_stride(file, monkeypatch, size, expected):
    asked: list[int] = []
    monkeypatch.setattr(os, "preadv", lambda fd, parts, at, flags: asked.append(at))
    assert file.resident(5, size)
    assert len(asked) == expected
    assert asked[0] == 5
    assert max(asked) == 5 + size - 1


def test_a_page_that_would_have_to_be_waited_for_is_not_resident(file, monkeypatch):
    def refuse(fd, parts, at, flags):
        if at >= disk_module.RESIDENCY_STRIDE:
            raise BlockingIOError

    monkeypatch.setattr(os, "preadv", refuse)
    assert file.resident(0, disk_module.RESIDENCY_STRIDE)
    assert not file.resident(0, disk_module.RESIDENCY_STRIDE + 2)


def test_a_file_system_that_cannot_tell_counts_as_resident(file, monkeypatch):
    def refuse(fd, parts, at, flags):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "preadv", refuse)
    assert file.resident(0, 10)


def test_warming_brings_dropped_pages_back(file):
    file.append([b"x" * 1_000_000])
    file.sync()
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    file.warm(0, 1_000_000)
    assert file.resident(0, 1_000_000)


@pytest.fixture
def asked(monkeypatch):
    """What the disk is asked to read ahead of need: position and size of each call."""
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, at, size, advice: calls.append((at, size)))
    return calls


def extent(calls):
    """Return where calls for neighbouring pieces begin and end together."""
    for (at, size), (following, _) in itertools.pairwise(calls):
        assert at + size == following
    return calls[0][0], sum(calls[-1])


def test_warming_asks_for_what_follows_in_pieces_that_the_kernel_takes(file, asked):
    file.warm(0, MIB)
    assert extent(asked) == (0, MIB + READ_AHEAD)
    assert max(size for _, size in asked) <= READ_AHEAD_STEP


def test_the_disk_reads_on_once_half_of_what_it_read_ahead_is_left(file, asked, monkeypatch):
    monkeypatch.setattr(disk_module.DiskFile, "resident", lambda self, position, size: False)
    assert file.read_ahead_from(0) is None
    file.warm(0, MIB)
    end = MIB + READ_AHEAD
    half = READ_AHEAD // 2
    assert file.read_ahead_from(end - half) is None
    assert file.read_ahead_from(end - half + 1) == end
    assert file.read_ahead_from(end - half + 1) is None, "it was told before"
    asked.clear()
    file.read_ahead(end)
    assert extent(asked) == (end, end + half)
    assert file.read_ahead_from(end + 1) == end + half


def test_a_reader_elsewhere_is_not_read_ahead_of(file, asked):
    file.warm(100 * MIB, MIB)
    assert file.read_ahead_from(99 * MIB) is None
    assert file.read_ahead_from(101 * MIB + READ_AHEAD + 1) is None


def test_reading_ahead_ends_where_all_is_in_memory(file, asked):
    file.append([bytes(READ_AHEAD + MIB)])
    file.warm(0, 10)
    start = file.read_ahead_from(READ_AHEAD)
    assert start == READ_AHEAD
    asked.clear()
    file.read_ahead(start)
    assert not asked
    assert file.read_ahead_from(READ_AHEAD + READ_AHEAD // 2) is None


def test_reading_ahead_leaves_errors_to_who_needs_the_bytes(file):
    file.close()
    file.read_ahead(0)


def test_a_full_disk_says_so():
    full = Disk().open("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        full.append([b"x"])
    full.close()


def test_reading_only_needs_no_right_to_write_and_gives_none(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"content")
    file = Disk(read_only=True).open(str(path))
    assert file.read(0, 10) == b"content"
    with pytest.raises(OSError):
        file.append([b"x"])
    file.close()


def test_descriptors_are_not_inherited_and_not_valid_after_close(tmp_path):
    file = Disk().open(f"{tmp_path}/b.log", create=True)
    assert not os.get_inheritable(file.fileno())
    file.close()
    assert file.fileno() == -1
