"""What the files add up to: the same image as the store's, and notes about what is left out."""

from __future__ import annotations

import random

import pytest

from kits.metadata_samples import every_change, lone_partition, topic_id
from kits.sole_voter import FOLDER, KAFKA, LOG, committing, created, put, use
from moldau.base.errors import StorageError
from moldau.base.files import read_whole
from moldau.cli.metadata.batches import DamagedMetadata
from moldau.cli.metadata.state import UNCOMMITTED, read_state
from moldau.cluster.changes import (
    EligibleLeadersCleared,
    OpaqueRecorded,
    PartitionCreated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.model import Partition
from moldau.cluster.record_codec import TransactionMark, encode_change, encode_mark
from moldau.cluster.snapshots import snapshot_ids
from moldau.records.batch import HEADER_SIZE, iter_batches, pack_batch, parse_header
from moldau.records.builder import BatchBuilder
from moldau.sim.disk_faults import Operation
from moldau.storage.disk import Disk


def without_cluster(image):
    """The image as the metadata log has it: the id of the cluster stands elsewhere."""
    return image.__class__(**{
        name: getattr(image, name) for name in image.__slots__ if name != "cluster_id"
    })  # fmt: skip


def append(disk, *values, offset=None):
    """Write records behind a log, as a node would."""
    offset = read_state(disk, "/data").end_offset if offset is None else offset
    builder = BatchBuilder(base_offset=offset, leader_epoch=1)
    for value in values:
        builder.append(0, None, value)
    position = disk.size(LOG)
    disk.open(LOG).append([builder.build()])
    return position


def test_a_log_adds_up_to_the_stores_image(world, disk):
    image = use(world, disk, committing(*([change] for change in every_change())))
    state = read_state(disk, "/data")
    assert state.image == without_cluster(image)
    assert (state.start_offset, state.end_offset, state.epoch) == (0, image.version, 1)
    assert state.snapshot is None
    assert (state.quorum.leader, state.quorum.epoch, state.quorum.voters) == (1, 1, {1: {}})
    assert state.notes == [UNCOMMITTED]


def test_a_snapshot_and_the_log_behind_it_add_up_to_the_same(world, disk):
    groups = [every_change(), *([created(number)] for number in range(100, 150))]
    image = use(world, disk, committing(*groups), snapshot_after_bytes=2000)
    state = read_state(disk, "/data")
    assert state.image == without_cluster(image)
    assert state.end_offset == image.version
    newest = snapshot_ids(disk, FOLDER)[-1]
    assert 0 < newest.end_offset < image.version
    assert state.snapshot == newest.name


def test_a_snapshot_alone_is_the_state_at_its_end(world, disk):
    groups = [[created(number)] for number in range(50)]
    use(world, disk, committing(*groups), snapshot_after_bytes=2000)
    newest = snapshot_ids(disk, FOLDER)[-1]
    state = read_state(disk, f"{FOLDER}/{newest.name}")
    assert (state.end_offset, state.epoch) == newest
    assert 0 < len(state.image.topics) < 50
    assert state.notes == []


@pytest.mark.parametrize("name", ["static", "dynamic", "snapshot"])
def test_folders_of_kafka_are_read(name):
    state = read_state(Disk(read_only=True), str(KAFKA / name))
    assert state.image.features["metadata.version"] == 30
    assert list(state.image.brokers) == [1]
    assert state.quorum.kraft_version == (name == "dynamic")
    assert list(state.quorum.voters) == [1]


def test_nothing_is_written(world, disk):
    use(world, disk, committing([created(1)]))
    disk.open(LOG).append([b"torn"])
    before = read_whole(disk, LOG)
    read_state(disk, "/data")
    assert read_whole(disk, LOG) == before


def test_a_torn_tail_is_left_out_with_a_note(world, disk):
    image = use(world, disk, committing([created(1)]))
    position = disk.size(LOG)
    disk.open(LOG).append([b"torn"])
    state = read_state(disk, "/data")
    assert state.image == without_cluster(image)
    assert any(f"{LOG}: no whole batch at position {position}" in note for note in state.notes)


def test_a_transaction_that_has_not_ended_is_left_out_with_a_note(world, disk):
    image = use(world, disk)
    append(disk, encode_mark(TransactionMark.BEGIN), encode_change(created(1), 30))
    state = read_state(disk, "/data")
    assert state.image == without_cluster(image)
    assert state.end_offset == image.version + 2
    assert f"left out the records from offset {image.version} on" in state.notes[0]


@pytest.mark.parametrize(
    "change",
    [
        TopicRemoved(topic_id(9)),
        PartitionCreated(topic_id(9), lone_partition(0, 1)),
        EligibleLeadersCleared("no-such-topic"),
        OpaqueRecorded(2, 99, b""),
        OpaqueRecorded(2, 0, b"\xff"),
    ],
)
def test_records_that_do_not_add_up_are_named_with_file_and_position(world, disk, change):
    use(world, disk)
    position = append(disk, encode_change(change, 30))
    with pytest.raises(DamagedMetadata) as refused:
        read_state(disk, "/data")
    assert str(refused.value).startswith(f"{LOG}: the batch at position {position} is inconsistent")


def test_a_partition_without_replicas_is_an_error_of_one_line(world, disk):
    use(world, disk)
    topic = TopicCreated("t", topic_id(1))
    nowhere = PartitionCreated(topic_id(1), Partition(0, (), (), -1))
    append(disk, *(encode_change(change, 30) for change in (topic, nowhere)))
    with pytest.raises(StorageError, match="has a partition without replicas"):
        read_state(disk, "/data")


def test_a_log_that_begins_later_needs_a_snapshot(world, disk):
    use(world, disk)
    put(disk, "/data/00000000000000000007.log", b"")
    with pytest.raises(DamagedMetadata, match=r"7\.log: begins at offset 7, and there is no"):
        read_state(disk, "/data/00000000000000000007.log")


def test_a_damaged_quorum_state_is_noted_and_the_rest_is_read(world, disk):
    image = use(world, disk)
    put(disk, f"{FOLDER}/quorum-state", b"damaged")
    state = read_state(disk, "/data")
    assert state.image == without_cluster(image)
    assert state.quorum.leader == 1
    assert any(note.startswith(f"{FOLDER}/quorum-state: ") for note in state.notes)


def test_an_error_of_the_disk_is_one_of_storage(world, disk):
    use(world, disk)
    disk.faults.fail(Operation.READ, LOG)
    with pytest.raises(StorageError, match="/data: cannot be opened"):
        read_state(disk, "/data")


@pytest.mark.parametrize("seed", range(40))
def test_whatever_records_say_is_read_or_refused_in_one_line(disk, seed):
    dice = random.Random(seed)
    content = (KAFKA / "dynamic" / LOG[6:]).read_bytes()
    spans = list(iter_batches(content))
    chosen = dice.choice(spans)
    for span in spans:
        start, end = span.position, span.position + span.size
        records = bytearray(content[start + HEADER_SIZE : end])
        if span is chosen:
            records[dice.randrange(len(records))] = dice.randrange(256)
        batch = pack_batch(parse_header(content, start), records)
        disk.make_folder(FOLDER)
        disk.open(LOG, create=True).append([batch])
    refusal = None
    try:
        assert read_state(disk, "/data").end_offset == 35
    except StorageError as error:
        refusal = str(error)
    assert refusal is None or (refusal.startswith(f"{LOG}: ") and "\n" not in refusal)
