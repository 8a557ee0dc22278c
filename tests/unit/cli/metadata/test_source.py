"""Which files are read for what the user names."""

from __future__ import annotations

import pytest

from kits.sole_voter import committing, created, put, use
from moldau.base.errors import UserError
from moldau.cli.metadata.source import metadata_files, while_files_change
from moldau.cluster.snapshots import SnapshotId
from moldau.cluster.sync_mark import SyncMark
from moldau.storage.checkpoints import write_topic_id

FOLDER = "/data/__cluster_metadata-0"


@pytest.fixture
def folder(world, disk):
    """The log directory of a store that has written a snapshot."""
    groups = [[created(number)] for number in range(40)]
    use(world, disk, committing(*groups), snapshot_after_bytes=2000)
    return "/data"


def test_a_log_directory_and_the_folder_in_it_mean_the_same(disk, folder):
    found = metadata_files(disk, folder)
    assert found == metadata_files(disk, "/data/") == metadata_files(disk, FOLDER)
    assert found.folder == FOLDER
    assert found.snapshot == f"{FOLDER}/{found.snapshot_id.name}"
    assert found.snapshot_id.end_offset > 0
    assert found.segments[0] == f"{FOLDER}/{0:020d}.log"
    assert found.size(disk) == sum(disk.size(path) for path in (*found.segments, found.snapshot))


def test_one_snapshot_knows_its_end_from_its_name(disk, folder):
    whole = metadata_files(disk, folder)
    found = metadata_files(disk, whole.snapshot)
    assert found.snapshot_id == whole.snapshot_id
    assert (found.folder, found.segments) == (None, ())
    assert metadata_files(disk, "/data/bootstrap.checkpoint").snapshot_id == SnapshotId(0, 0)


def test_one_segment_tells_where_it_begins(disk, folder):
    last = metadata_files(disk, folder).segments[-1]
    [segment] = metadata_files(disk, last).open_segments(disk)
    assert segment.base == int(last[-24:-4]) > 0
    put(disk, "/data/renamed.log", disk.open(last).read(0, 1000))
    [renamed] = metadata_files(disk, "/data/renamed.log").open_segments(disk)
    assert renamed.base == segment.base


def test_how_far_a_voter_has_synced_is_read(disk, folder):
    assert metadata_files(disk, folder).synced is None
    SyncMark(disk, FOLDER).note(7)
    assert metadata_files(disk, folder).synced == 7


@pytest.mark.parametrize(
    ("named", "refusal"),
    [
        ("/nowhere", "there is no file or folder /nowhere: name a log directory with --folder"),
        ("/data/meta.properties", "is neither a segment"),
        ("/other", "/other has no metadata log: name the log directory with"),
        ("/orders-0", "has the log of another topic: `moldau log dump /orders-0` prints it"),
    ],
)
def test_what_has_no_metadata_is_refused_with_advice(disk, folder, named, refusal):
    disk.make_folder("/other")
    disk.make_folder("/orders-0")
    write_topic_id(disk, "/orders-0", b"another topic...")
    put(disk, f"/orders-0/{0:020d}.log", b"")
    with pytest.raises(UserError, match=refusal):
        metadata_files(disk, named)


def test_files_that_a_node_has_just_removed_are_listed_again():
    answers = [FileNotFoundError("a"), FileNotFoundError("b"), "read"]

    def read():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert while_files_change(read) == "read"


def test_files_that_stay_gone_are_an_error_in_the_end():
    def read():
        raise FileNotFoundError("gone")

    with pytest.raises(FileNotFoundError):
        while_files_change(read)
