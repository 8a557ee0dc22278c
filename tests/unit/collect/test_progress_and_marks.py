"""What may be marked as done, how a file is known again, and how that is written down."""

from __future__ import annotations

import json

import pytest

from kits.collect_kit import OnItsWay
from moldau.base.errors import UserError
from moldau.base.files import write_atomically
from moldau.collect.framing import Piece
from moldau.collect.marks import BEGINNING, FileIdentity, Mark, is_alike
from moldau.collect.progress import Progress
from moldau.collect.state import ASIDE, CorruptState, Entry, StateFile, decode, encode
from moldau.storage.disk import Disk


def mark(position):
    return BEGINNING._replace(position=position)


def sent(count=1):
    return [OnItsWay("log", Piece(b"", 0, 1)) for _ in range(count)]


def never(_error):
    return False


# Progress


def test_only_what_everything_before_was_delivered_of_is_done():
    progress = Progress(mark(0))
    spans = [sent(2), sent(2), sent(1)]
    for number, span in enumerate(spans, 1):
        progress.add(mark(number), span)
    for one in (spans[0][0], *spans[1], *spans[2]):
        one.settle()
    assert progress.settle(never).delivered_count == 0
    assert progress.done == mark(0)
    spans[0][1].settle()
    assert progress.settle(never).delivered_count == 5
    assert progress.done == mark(3)
    assert progress.is_idle


def test_a_record_that_failed_stops_it_and_is_sent_again_from_there():
    progress = Progress(mark(0))
    spans = [sent(), sent(2), sent()]
    for number, span in enumerate(spans, 1):
        progress.add(mark(number), span)
    spans[0][0].settle()
    spans[1][0].settle()
    spans[1][1].settle(OSError("away"))
    progress.settle(never)
    assert (progress.done, str(progress.failure)) == (mark(1), "away")
    assert not progress.is_settled
    spans[2][0].settle()
    assert progress.is_settled
    assert progress.begin_again() == mark(1)
    assert progress.is_idle
    assert progress.failure is None


def test_a_record_that_can_never_be_delivered_is_left_behind():
    progress = Progress(mark(0))
    span = sent(3)
    progress.add(mark(1), span)
    for one in span:
        one.settle(ValueError("too large") if one is span[1] else None)
    settled = progress.settle(lambda error: isinstance(error, ValueError))
    assert settled.delivered_count == 2
    assert [str(error) for error in settled.refused] == ["too large"]
    assert progress.done == mark(1)


def test_records_that_share_a_delivery_become_one_span():
    progress = Progress(mark(0))
    (shared,), (other,) = sent(), sent()
    progress.add(mark(1), [shared, shared])
    progress.add(mark(2), [shared])
    progress.add(mark(3), [other])
    shared.settle()
    assert progress.settle(never).delivered_count == 1
    assert progress.done == mark(2)
    other.settle()
    progress.settle(never)
    assert progress.done == mark(3)


# Marks


def reader(data):
    return lambda position, size: data[position : position + size]


def test_a_mark_fits_the_file_and_its_copies_and_nothing_else():
    data = b"".join(b"line %d of a log\n" % number for number in range(100))
    position = 1_000
    there = Mark.at(position, data[:256], data[position - 256 : position])
    assert there.fits(len(data), reader(data))
    assert there.fits(position, reader(data[:position]))
    assert not there.fits(position - 1, reader(data[: position - 1]))
    other = data.replace(b"line 0", b"line O", 1)
    assert not there.fits(len(other), reader(other))
    grown_anew = data[:256] + data[300:] + data
    assert not there.fits(len(grown_anew), reader(grown_anew))


def test_the_mark_of_a_beginning_fits_everything():
    assert BEGINNING.fits(0, reader(b""))
    assert BEGINNING.fits(3, reader(b"abc"))


def test_files_are_alike_as_far_as_the_shorter_one_goes():
    data = b"x" * 300 + b"y" * 300
    assert is_alike(600, reader(data), 400, reader(data[:400]))
    assert not is_alike(600, reader(data), 400, reader(data[:399] + b"z"))
    assert not is_alike(600, reader(data), 0, reader(b""))


# The file of positions

ENTRIES = [
    Entry("/logs/a.log", FileIdentity(3, 4), Mark.at(9, b"123456789", b"56789")),
    Entry("/logs/\udcff.log", FileIdentity(3, 2**63), BEGINNING, 17),
    Entry("/logs/access.log", FileIdentity(3, 5), BEGINNING, service="shop"),
]


def test_entries_are_read_as_they_were_written():
    assert decode(encode(ENTRIES)) == ENTRIES
    assert decode(encode([])) == []


def test_nothing_of_what_was_collected_is_in_the_file():
    assert b"56789" not in encode(ENTRIES)


def damaged():
    good = json.loads(encode(ENTRIES))
    yield b""
    yield b"\x00" * 100
    yield encode(ENTRIES)[:-20]
    yield b"[]"
    yield b'{"version": 1}'
    yield json.dumps(good | {"version": 2}).encode()
    for key, value in (("position", -1), ("position", "1"), ("path", 1), ("head", [1]),
                       ("device", True), ("position", 3), ("service", None)):  # fmt: skip
        files = [good["files"][0] | {key: value}]
        yield json.dumps(good | {"files": files}).encode()


@pytest.mark.parametrize("content", list(damaged()))
def test_a_damaged_file_is_found_out(content):
    with pytest.raises(CorruptState):
        decode(content)


def test_a_damaged_file_is_put_aside_and_another_takes_its_place(tmp_path):
    path = tmp_path / "deep" / "state.json"
    state = StateFile(Disk(), str(path))
    assert state.load() is None
    path.write_bytes(b"nonsense")
    with pytest.raises(CorruptState):
        state.load()
    assert path.with_name(path.name + ASIDE).read_bytes() == b"nonsense"
    state.save(ENTRIES)
    assert state.load() == ENTRIES
    state.close()


def test_a_second_collector_is_kept_out(tmp_path):
    first = StateFile(Disk(), str(tmp_path / "state.json"))
    with pytest.raises(UserError, match="in use by another collector"):
        StateFile(Disk(), str(tmp_path / "state.json"))
    first.close()
    StateFile(Disk(), str(tmp_path / "state.json")).close()


def test_a_state_file_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot use"):
        StateFile(Disk(), str(tmp_path / "file" / "state.json"))
    (tmp_path / "folder").mkdir()
    state = StateFile(Disk(), str(tmp_path / "folder"))
    with pytest.raises(UserError, match="cannot read"):
        state.load()
    state.close()


def test_what_is_there_already_is_not_written_again(tmp_path):
    path = tmp_path / "state.json"
    state = StateFile(Disk(), str(path))
    state.save(ENTRIES)
    before = path.stat().st_mtime_ns
    state.save(list(ENTRIES))
    assert path.stat().st_mtime_ns == before
    state.save([])
    assert state.load() == []
    state.close()


def test_the_file_may_lie_in_the_root_folder(tmp_path):
    class Chroot(Disk):
        def open_folder(self, path):
            assert path == "/"
            return super().open_folder(str(tmp_path))

    write_atomically(Chroot(), "/state.json", encode(ENTRIES))
    assert decode((tmp_path / "state.json").read_bytes()) == ENTRIES
