"""A folder of Kafka's is continued, a torn one is mended, a damaged one is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kits.metadata_samples import registration
from kits.sole_voter import FOLDER, KAFKA, LOG, committing, created, on_disk, put, use
from moldau.base.errors import ConfigError, StorageError
from moldau.base.files import read_whole
from moldau.base.ids import uuid_text
from moldau.cluster.brokers import (
    BrokerRegistration,
    fence_broker,
    register_broker,
    unfence_broker,
)
from moldau.cluster.changes import OpaqueRecorded
from moldau.cluster.decisions import Decisions
from moldau.cluster.model import NO_LEADER, ConfigResource, ResourceType
from moldau.cluster.record_codec import encode_change
from moldau.cluster.snapshots import read_snapshot, snapshot_ids
from moldau.records.batch import iter_batches
from moldau.records.builder import BatchBuilder
from moldau.records.control import ControlType, control_batch
from moldau.storage.checkpoints import read_meta_properties
from moldau.storage.disk import Disk

# Kafka's folders


@pytest.fixture
def taken_over(tmp_path):
    def copy(kind):
        shutil.copytree(KAFKA / kind, tmp_path / kind)
        return str(tmp_path / kind)

    return copy


@pytest.mark.parametrize("kind", ["static", "dynamic", "snapshot"])
def test_a_folder_of_kafkas_is_continued(world, taken_over, kind):
    folder = taken_over(kind)

    async def register(store):
        directories = tuple(store.identity.directory_ids.values())
        own = BrokerRegistration(1, bytes(16), registration(1).endpoints, directories)
        decisions = Decisions(store, await store.claim())
        await decisions.commit(lambda image: register_broker(image, own))
        await decisions.commit(lambda image: unfence_broker(image, image.brokers[1]))
        await decisions.commit(lambda image: [created(1)])
        await decisions.commit(lambda image: fence_broker(image, 1))

    before = use(world, Disk(), directories=(folder,))
    assert all(
        partition.leader == NO_LEADER
        for topic in before.topics.values()
        for partition in topic.partitions
    )
    leaders = []

    async def watch(store):
        store.subscribe(lambda changes, image: leaders.append(image))
        await register(store)

    use(world, Disk(), watch, directories=(folder,))
    assert all(
        (partition.leader, partition.isr) == (1, (1,))
        for topic in before.topics
        for partition in leaders[1].topics[topic].partitions
    )
    after = use(world, Disk(), directories=(folder,))
    assert set(after.topics) == {*before.topics, "topic-1"}
    assert after.configs == before.configs
    assert after.features == before.features
    assert after.opaque == before.opaque
    assert after.controllers == before.controllers
    assert after.controllers.keys() == {1}


def test_what_kafka_kept_in_static_form_is_understood(world, taken_over):
    image = use(world, Disk(), directories=(taken_over("static"),))
    assert image.cluster_id == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert image.topic_config("kt") == {"retention.ms": "123456"}
    assert image.config(ConfigResource(ResourceType.BROKER, "")) == {"min.insync.replicas": "1"}
    assert image.features["metadata.version"] == 30
    assert [partition.eligible_leaders for partition in image.topics["kt"].partitions] == [(1,)] * 3


def test_kafkas_snapshot_and_its_whole_log_say_the_same(world, taken_over, tmp_path):
    folder = taken_over("snapshot")
    whole = shutil.copytree(folder, tmp_path / "whole")
    for checkpoint in (whole / "__cluster_metadata-0").glob("*.checkpoint"):
        checkpoint.unlink()
    for gone in (0, 23, 36):
        Path(f"{folder}/__cluster_metadata-0/{gone:020d}.log").unlink()
    by_snapshot = use(world, Disk(), directories=(folder,))
    by_log = use(world, Disk(), directories=(str(whole),))
    assert by_snapshot.topics == by_log.topics
    assert by_snapshot.configs == by_log.configs
    assert by_snapshot.opaque == by_log.opaque
    assert by_snapshot.version == by_log.version
    assert any(record.key == 11 for record in by_log.opaque)


def test_a_quorum_that_can_change_keeps_its_form(world, taken_over):
    folder = taken_over("dynamic")
    use(world, Disk(), directories=(folder,), snapshot_after_bytes=1)
    state = json.loads(Path(f"{folder}/__cluster_metadata-0/quorum-state").read_text())
    assert state == {
        "leaderId": 1,
        "leaderEpoch": 2,
        "votedId": -1,
        "votedDirectoryId": "A" * 22,
        "data_version": 1,
    }
    newest = snapshot_ids(Disk(), f"{folder}/__cluster_metadata-0")[-1]
    ours = read_snapshot(Disk(), f"{folder}/__cluster_metadata-0/{newest.name}")
    first = KAFKA / "dynamic" / "__cluster_metadata-0" / f"{0:020d}-{0:010d}.checkpoint"
    assert ours.control == read_snapshot(Disk(), str(first)).control
    assert len(ours.control) == 2


def test_a_log_that_names_another_directory_of_this_node_is_refused_untouched(world, taken_over):
    folder = taken_over("dynamic")
    properties = Path(f"{folder}/meta.properties")
    own = read_meta_properties(Disk(), folder).directory_id
    other = uuid_text(bytes(15) + b"\xff")
    properties.write_text(properties.read_text().replace(uuid_text(own), other))
    before = on_disk(Disk(), folder)
    with pytest.raises(ConfigError, match=rf"names {uuid_text(own)} .* here is {other}"):
        use(world, Disk(), directories=(folder,))
    assert on_disk(Disk(), folder) == before


def test_a_folder_kafka_formatted_but_never_started_begins_with_its_bootstrap(world, disk):
    use(world, disk)
    disk.remove_folder(FOLDER)
    before = read_snapshot(disk, "/data/bootstrap.checkpoint").values
    changed = [*before, encode_change(OpaqueRecorded(11, 0, b"scram"), 30)]
    builder = BatchBuilder()
    for value in changed:
        builder.append(0, None, value)
    footer = control_batch(ControlType.SNAPSHOT_FOOTER, b"\0\0\0", 0)
    put(disk, "/data/bootstrap.checkpoint", builder.build() + footer)
    image = use(world, disk)
    assert image.opaque == (OpaqueRecorded(11, 0, b"scram"),)
    assert image.features["metadata.version"] == 30


# Damage


def test_a_tail_torn_at_any_byte_is_cut_and_nothing_before_it_is_lost(world, disk):
    whole = use(world, disk, committing([created(1)], [created(2)]))
    data = read_whole(disk, LOG)
    last = list(iter_batches(data))[-1].position
    for size in range(last, len(data)):
        put(disk, LOG, data[:size])
        disk.remove(f"{FOLDER}/leader-epoch-checkpoint")
        image = use(world, disk)
        assert set(image.topics) == {"topic-1"}
        assert read_whole(disk, LOG)[:last] == data[:last]
        assert image.version == whole.version


def test_a_tail_of_rubbish_is_cut(world, disk):
    use(world, disk, committing([created(1)]))
    good = read_whole(disk, LOG)
    for rubbish in (bytes(200), b"\xff" * 100, good[:91][:-1] + b"\x99"):
        put(disk, LOG, good + rubbish)
        assert set(use(world, disk).topics) == {"topic-1"}
        assert read_whole(disk, LOG)[: len(good)] == good


def test_damage_in_the_middle_is_refused_and_left_for_repair(world, disk):
    use(world, disk, committing([created(1)], [created(2)]))
    position = list(iter_batches(read_whole(disk, LOG)))[-2].position
    disk.flip_bit(LOG, position + 70)
    before = on_disk(disk)
    with pytest.raises(StorageError, match=f"position {position}: its checksum differs, and more"):
        use(world, disk)
    assert on_disk(disk) == before


def test_a_known_record_of_a_later_version_is_refused(world, disk):
    use(world, disk, committing([OpaqueRecorded(3, 99, b"a partition of the future")]))
    with pytest.raises(StorageError, match="PartitionRecord has version 99"):
        use(world, disk)


def test_records_that_contradict_each_other_are_refused(world, disk):
    use(world, disk, committing([created(1)]))
    builder = BatchBuilder(base_offset=use(world, disk).version, leader_epoch=2)
    builder.append(0, None, encode_change(created(1), 30))
    disk.open(LOG).append([builder.build()])
    with pytest.raises(StorageError, match="topic-1 exists already"):
        use(world, disk)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"leaderEpoch":"1"}', b'{"leaderEpoch":-4}'])
def test_an_unreadable_quorum_state_is_refused(world, disk, content):
    use(world, disk)
    put(disk, f"{FOLDER}/quorum-state", content)
    with pytest.raises(StorageError, match="quorum-state"):
        use(world, disk)


def test_a_missing_segment_is_refused(world, taken_over):
    folder = taken_over("snapshot")
    Path(f"{folder}/__cluster_metadata-0/{52:020d}.log").unlink()
    with pytest.raises(StorageError, match="offsets from 52 are missing"):
        use(world, Disk(), directories=(folder,))


def test_a_log_that_starts_after_the_snapshot_is_refused(world, taken_over):
    folder = taken_over("snapshot")
    for gone in (0, 23, 36, 44):
        Path(f"{folder}/__cluster_metadata-0/{gone:020d}.log").unlink()
    with pytest.raises(StorageError, match="starts at offset 52"):
        use(world, Disk(), directories=(folder,))


def test_a_snapshot_that_was_cut_off_is_refused(world, taken_over):
    folder = taken_over("snapshot")
    path = Path(f"{folder}/__cluster_metadata-0/{45:020d}-{1:010d}.checkpoint")
    path.write_bytes(path.read_bytes()[:-75])
    with pytest.raises(StorageError, match="has no footer"):
        use(world, Disk(), directories=(folder,))


def test_a_snapshot_beyond_the_log_replaces_it(world, taken_over):
    folder = taken_over("snapshot")
    for gone in (44, 52, 60, 77):
        Path(f"{folder}/__cluster_metadata-0/{gone:020d}.log").unlink()
    image = use(world, Disk(), committing([created(1)]), directories=(folder,))
    assert image.version == 47
    assert set(image.topics) == {"snap.a", "snap.b", "topic-1"}
    names = Disk().names(f"{folder}/__cluster_metadata-0")
    assert [name for name in names if name.endswith(".log")] == [f"{45:020d}.log"]
    again = use(world, Disk(), directories=(folder,))
    assert again.topics == image.topics
