"""The offline check finds nothing in a sound folder and every kind of damage in others."""

import struct

import pytest

from kits import dump_samples
from kits.dump_samples import DAMAGED, MISLED, OLD, SOUND, STEM, TIME, built
from moldau.records.control import EndTransactionMarker, end_transaction_batch
from moldau.storage.disk import Disk
from moldau.storage.indexes import AbortedTransaction, encode_aborted
from moldau.storage.verify import Finding, verify_partition


@pytest.fixture(autouse=True)
def samples(tmp_path):
    dump_samples.write_samples(tmp_path)


def found(folder, **options):
    """Return (file name, position, message) of each finding."""
    return [
        (finding.path.removeprefix(f"{folder}/"), *finding[1:])
        for finding in verify_partition(Disk(), str(folder), **options)
    ]


@pytest.fixture
def folder(tmp_path):
    """A plain partition of two segments."""
    made = tmp_path / "plain-0"
    made.mkdir()
    first = [built(n, (n, b"k", b"v"), (n, b"k", b"v")) for n in (0, 2)]
    second = [built(4, (4, b"k", b"v"), leader_epoch=1), built(5, (2, b"k", b"v"), leader_epoch=1)]
    (made / f"{0:020d}.log").write_bytes(b"".join(first))
    (made / f"{4:020d}.log").write_bytes(b"".join(second))
    (made / f"{0:020d}.index").write_bytes(struct.pack(">ii", 3, len(first[0])))
    (made / f"{4:020d}.timeindex").write_bytes(struct.pack(">qi", TIME + 4, 0))
    (made / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 4\n")
    return made


def test_a_sound_folder_has_no_findings(folder):
    assert found(folder) == []


def test_a_segment_that_begins_before_the_log_has_no_epochs_there(folder):
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 2\n1 4\n")
    assert found(folder) == []


def test_a_compacted_folder_may_have_holes(tmp_path):
    assert found(tmp_path / SOUND, compacted=True) == []
    messages = [message for _, _, message in found(tmp_path / SOUND)]
    assert messages == ["offset 11 where 10 is next", "offset 18 where 16 is next"]


def test_old_messages_are_read(tmp_path):
    assert found(tmp_path / OLD) == []


def test_an_empty_folder_is_sound(tmp_path):
    (tmp_path / "empty-0").mkdir()
    assert found(tmp_path / "empty-0") == []


def test_a_damaged_log_and_snapshot_are_found(tmp_path):
    (tmp_path / DAMAGED / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    assert found(tmp_path / DAMAGED) == [
        (f"{STEM}.log", 73, "the CRC does not match"),
        (f"{STEM}.log", 211, "24 bytes are no whole batch"),
        (f"{3:020d}.snapshot", None, "a producer snapshot of 9 bytes is too short"),
    ]


def test_indexes_that_point_elsewhere_are_found(tmp_path):
    (tmp_path / MISLED / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n3 1\n4 14\n")
    assert found(tmp_path / MISLED, compacted=True) == [
        (f"{STEM}.index", 0, "offset 4 for a batch up to 3"),
        (f"{STEM}.index", 8, "offset 10 for a batch up to 9"),
        (f"{STEM}.timeindex", 0, "timestamp 1700000000004 is not the newest up to 3"),
        (f"{STEM}.timeindex", 12, "timestamp 1700000000003 is not the newest up to 5"),
        (f"{STEM}.timeindex", 12, "timestamp 1700000000003 after 1700000000004"),
        (f"{STEM}.timeindex", 24, "timestamp 1700000009999 is not the newest up to 6"),
    ]


def test_an_index_entry_between_batches_is_found(folder):
    (folder / f"{0:020d}.index").write_bytes(struct.pack(">iiii", 3, 5, 2, 0) + b"x")
    assert found(folder) == [
        (f"{0:020d}.index", None, "17 bytes end in half an entry"),
        (f"{0:020d}.index", 0, "no batch begins at 5"),
        (f"{0:020d}.index", 8, "offset 2 for a batch up to 1"),
        (f"{0:020d}.index", 8, "offset 2 after 3"),
    ]


def test_segments_that_overlap_are_found(folder):
    (folder / f"{4:020d}.log").rename(folder / f"{3:020d}.log")
    assert found(folder)[0] == (f"{3:020d}.log", None, "begins below offset 4 of the one before")


def test_a_missing_segment_is_found(folder):
    (folder / f"{6:020d}.log").write_bytes(built(8, (0, b"k", b"v"), leader_epoch=1))
    assert found(folder) == [(f"{6:020d}.log", 0, "offset 8 where 6 is next")]


def test_an_epoch_that_goes_back_or_is_not_kept_is_found(folder):
    (folder / f"{6:020d}.log").write_bytes(
        built(6, (0, b"k", b"v"), leader_epoch=2) + built(7, (0, b"k", b"v"), leader_epoch=1)
    )
    messages = [message for name, _, message in found(folder) if name.startswith(f"{6:020d}")]
    assert messages == [
        "leader epoch 2 where leader-epoch-checkpoint has 1",
        "leader epoch 1 after 2",
    ]


def test_a_checkpoint_that_cannot_be_read_is_found(folder):
    (folder / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n")
    assert found(folder) == [
        ("leader-epoch-checkpoint", None, "line 2: 3 entries announced, 1 found")
    ]


def test_records_that_cannot_be_read_are_found(folder):
    batch = dump_samples.changed(built(6, (0, b"k", b"v")), count=9, leader_epoch=1)
    (folder / f"{6:020d}.log").write_bytes(batch)
    assert [(name, position) for name, position, _ in found(folder)] == [(f"{6:020d}.log", 0)]


def test_an_aborted_transaction_without_its_marker_is_found(folder):
    marker = EndTransactionMarker(aborted=True, coordinator_epoch=0)
    batch = end_transaction_batch(marker, 7, 0, TIME, base_offset=6, leader_epoch=1)
    (folder / f"{6:020d}.log").write_bytes(batch)
    index = folder / f"{6:020d}.txnindex"
    index.write_bytes(encode_aborted([AbortedTransaction(7, 4, 6, 7)]))
    assert found(folder) == []
    index.write_bytes(
        encode_aborted([AbortedTransaction(7, 4, 6, 7), AbortedTransaction(8, 4, 5, 7)])
    )
    assert found(folder) == [
        (f"{6:020d}.txnindex", None, "no marker at offset 5"),
        (f"{6:020d}.txnindex", None, "entries do not ascend at offset 5"),
    ]
    index.write_bytes(b"x")
    assert len(found(folder)) == 1


def test_a_snapshot_that_knows_the_future_is_found(tmp_path):
    folder = tmp_path / SOUND
    (folder / f"{19:020d}.snapshot").rename(folder / f"{5:020d}.snapshot")
    assert found(folder, compacted=True) == [
        (f"{5:020d}.snapshot", None, "producer 9 is ahead of the snapshot")
    ]


def test_a_file_with_no_offset_for_a_name_is_found(folder):
    (folder / "x.log").write_bytes(b"")
    (folder / "x.snapshot").write_bytes(b"")
    assert found(folder) == [
        ("x.log", None, "the name is no offset"),
        ("x.snapshot", None, "the name is no offset"),
    ]


def test_a_finding_reads_as_one_line():
    assert str(Finding("t-0/x.log", 73, "torn")) == "t-0/x.log at position 73: torn"
    assert str(Finding("t-0/x.log", None, "torn")) == "t-0/x.log: torn"
