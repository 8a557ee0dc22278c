"""The embedded store on its own ground: KRaft's files, taking over, damage, refusals, snapshots."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import pytest

from metadata_samples import every_change, lone_partition, registration, topic_id
from moldau.base.errors import ConfigError, StorageError
from moldau.base.files import read_whole
from moldau.base.ids import uuid_bytes
from moldau.cluster.brokers import Registration, register_broker, retire_broker
from moldau.cluster.changes import (
    FeatureLevelSet,
    OpaqueRecorded,
    PartitionCreated,
    TopicCreated,
)
from moldau.cluster.embedded import EmbeddedStore
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER, ConfigResource, ResourceType
from moldau.cluster.quorum import leader_change
from moldau.cluster.record_codec import TransactionMark, encode_change, encode_mark
from moldau.cluster.snapshots import read_snapshot, snapshot_ids
from moldau.cluster.store import Decisions, StoreFailed
from moldau.records.batch import iter_batches, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.control import ControlType, control_batch
from moldau.records.record import read_records
from moldau.sim.disk import SimDisk
from moldau.sim.disk_faults import Operation
from moldau.sim.world import World
from moldau.storage.checkpoints import read_meta_properties
from moldau.storage.disk import Disk

KAFKA = Path(__file__).parent / "kafka_4_3_1"
FOLDER = "/data/__cluster_metadata-0"
LOG = f"{FOLDER}/{0:020d}.log"


@pytest.fixture
def world():
    with World(7) as made:
        yield made


@pytest.fixture
def disk(world):
    return SimDisk(world.random("disk"))


def new_store(world, files, node_id=1, directories=("/data",), **settings):
    return EmbeddedStore(
        files, directories, node_id, world.clock, world.random("store"), **settings
    )


def use(world, files, work=None, **settings):
    """Open a store, let `work` use it, close it, return its last image."""

    async def opened():
        store = new_store(world, files, **settings)
        await store.start()
        if work is not None:
            await work(store)
        await store.close()
        return store.image

    return world.run(opened())


def committing(*groups):
    async def work(store):
        for changes in groups:
            await store.commit(store.image.version, changes)

    return work


def created(number):
    return TopicCreated(f"topic-{number}", topic_id(number))


def all_records(data):
    for span in iter_batches(data):
        header = parse_header(data, span.position)
        for record in read_records(data, span.position):
            yield header, record


def put(files, path, content):
    files.remove(path)
    file = files.open(path, create=True)
    file.append([content])
    file.close()


def on_disk(files, folder="/data"):
    """Every file below a folder, to see that nothing was touched."""
    found = {}
    for name in files.names(folder):
        path = f"{folder}/{name}"
        if files.is_folder(path):
            found |= on_disk(files, path)
        else:
            found[path] = read_whole(files, path)
    return found


# A fresh folder


def test_a_fresh_folder_is_formatted_as_kafka_formats_one(world, disk):
    use(world, disk)
    assert disk.names("/data") == [
        "__cluster_metadata-0",
        "bootstrap.checkpoint",
        "meta.properties",
    ]
    assert disk.names(FOLDER) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "quorum-state",
    ]
    kafka = KAFKA / "static" / "__cluster_metadata-0"
    for name in ("partition.metadata", "leader-epoch-checkpoint", "quorum-state"):
        assert read_whole(disk, f"{FOLDER}/{name}") == (kafka / name).read_bytes()


def test_the_bootstrap_file_holds_the_records_kafka_puts_there(world, disk):
    use(world, disk)
    ours = read_snapshot(disk, "/data/bootstrap.checkpoint")
    kafkas = read_snapshot(Disk(), str(KAFKA / "static" / "bootstrap.checkpoint"))
    assert ours == kafkas


def test_the_journal_begins_as_kafkas_does(world, disk):
    image = use(world, disk)
    ours = list(all_records(read_whole(disk, LOG)))
    kafkas = list(all_records((KAFKA / "static" / LOG[6:]).read_bytes()))
    assert (ours[0][1].key, ours[0][1].value) == (kafkas[0][1].key, kafkas[0][1].value)
    assert ours[0][0].control
    assert {header.leader_epoch for header, _ in ours} == {1}
    first = [record.value for _, record in kafkas[2:9]]
    assert [record.value for _, record in ours[1:]] == first
    assert image.version == len(ours)


def test_ids_are_drawn_once_and_kept(world, disk):
    async def identity(store):
        seen.append(store.identity)

    seen = []
    use(world, disk, identity)
    use(world, disk, identity)
    assert seen[0] == seen[1]
    assert len(uuid_bytes(seen[0].cluster_id)) == 16
    assert len(seen[0].directory_ids["/data"]) == 16


def test_a_directory_added_later_joins_the_cluster(world, disk):
    async def identity(store):
        seen.append(store.identity)

    seen = []
    use(world, disk, identity)
    use(world, disk, identity, directories=("/data", "/more/data"))
    assert seen[1].cluster_id == seen[0].cluster_id
    assert seen[1].directory_ids["/data"] == seen[0].directory_ids["/data"]
    assert len(set(seen[1].directory_ids.values())) == 2
    assert disk.names("/more/data") == ["meta.properties"]


def test_each_start_opens_a_higher_leader_epoch(world, disk):
    for epoch in (1, 2, 3):
        use(world, disk, committing([created(epoch)]))
        state = json.loads(read_whole(disk, f"{FOLDER}/quorum-state"))
        assert (state["leaderId"], state["leaderEpoch"]) == (1, epoch)
    records = list(all_records(read_whole(disk, LOG)))
    changes = [header.leader_epoch for header, _ in records if header.control]
    assert changes == [1, 2, 3]
    starts = [record.offset for header, record in records if header.control]
    lines = read_whole(disk, f"{FOLDER}/leader-epoch-checkpoint").decode().split("\n")
    assert lines[2:5] == [f"{epoch} {start}" for epoch, start in enumerate(starts, 1)]


# Somebody else's folder


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"node_id": 2}, "belongs to node.id=1, not to node.id=2"),
        ({"cluster_id": "AAAAAAAAAAAAAAAAAAAAAQ"}, "belongs to cluster.id="),
    ],
)
def test_a_folder_of_another_node_or_cluster_is_refused_untouched(world, disk, settings, line):
    use(world, disk)
    before = on_disk(disk)
    with pytest.raises(ConfigError, match=line) as refused:
        use(world, disk, directories=("/fresh", "/data"), **settings)
    assert "\n" not in str(refused.value)
    assert on_disk(disk) == before
    assert not disk.exists("/fresh")


def test_directories_of_two_clusters_are_refused_untouched(world, disk):
    use(world, disk)
    use(world, disk, directories=("/other",))
    before = on_disk(disk, "")
    with pytest.raises(ConfigError, match=r"belongs to cluster\.id="):
        use(world, disk, directories=("/data", "/other"))
    assert on_disk(disk, "") == before


def test_a_folder_of_the_age_of_zookeeper_is_refused_untouched(world, disk):
    disk.make_folder("/data")
    put(disk, "/data/meta.properties", b"version=0\nbroker.id=1\ncluster.id=abc\n")
    before = on_disk(disk)
    with pytest.raises(ConfigError, match="ZooKeeper"):
        use(world, disk)
    assert on_disk(disk) == before


def test_a_metadata_log_without_an_owner_is_refused_untouched(world, disk):
    use(world, disk)
    disk.remove("/data/meta.properties")
    before = on_disk(disk)
    with pytest.raises(ConfigError, match=r"no meta\.properties"):
        use(world, disk)
    assert on_disk(disk) == before


def test_a_folder_of_a_larger_quorum_is_refused_untouched(world, disk):
    version = use(world, disk).version
    value = leader_change(1).replace(
        b"\x02\x00\x00\x00\x01\x00", b"\x03\x00\x00\x00\x01\x00\x00\x00\x00\x02\x00", 1
    )
    batch = control_batch(ControlType.LEADER_CHANGE, value, 0, base_offset=version, leader_epoch=2)
    file = disk.open(LOG)
    file.append([batch, b"torn"])
    before = on_disk(disk)
    with pytest.raises(ConfigError, match="a quorum of the nodes 1, 2"):
        use(world, disk)
    assert on_disk(disk) == before


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
        own = Registration(1, bytes(16), registration(1).endpoints, directories)
        await Decisions(store).commit(lambda image: register_broker(image, own))
        await Decisions(store).commit(lambda image: [created(1)])
        await Decisions(store).commit(lambda image: retire_broker(image, 1))

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
        for partition in leaders[0].topics[topic].partitions
    )
    after = use(world, Disk(), directories=(folder,))
    assert set(after.topics) == {*before.topics, "topic-1"}
    assert after.configs == before.configs
    assert after.features == before.features
    assert after.opaque == before.opaque
    assert {record.key for record in after.opaque} >= {27}


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
    (newest,) = snapshot_ids(Disk(), f"{folder}/__cluster_metadata-0")
    ours = read_snapshot(Disk(), f"{folder}/__cluster_metadata-0/{newest.name}")
    first = KAFKA / "dynamic" / "__cluster_metadata-0" / f"{0:020d}-{0:010d}.checkpoint"
    assert ours.control == read_snapshot(Disk(), str(first)).control
    assert len(ours.control) == 2


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


# Transactions in the log


def open_transaction(disk, image, *marks):
    builder = BatchBuilder(base_offset=image.version, leader_epoch=1)
    builder.append(0, None, encode_mark(TransactionMark.BEGIN))
    builder.append(0, None, encode_change(created(1), 30))
    for mark in marks:
        builder.append(0, None, encode_mark(mark))
    disk.open(LOG).append([builder.build()])


def test_a_transaction_counts_once_it_has_ended(world, disk):
    open_transaction(disk, use(world, disk), TransactionMark.END)
    assert "topic-1" in use(world, disk).topics


def test_an_aborted_transaction_never_happened(world, disk):
    open_transaction(disk, use(world, disk), TransactionMark.ABORT)
    assert not use(world, disk).topics


def test_a_transaction_left_open_is_aborted_at_the_next_start(world, disk):
    open_transaction(disk, use(world, disk))
    image = use(world, disk, committing([created(2)]))
    assert set(image.topics) == {"topic-2"}
    assert set(use(world, disk).topics) == {"topic-2"}
    values = [record.value for _, record in all_records(read_whole(disk, LOG))]
    assert values.count(encode_mark(TransactionMark.ABORT)) == 1


def test_a_commit_too_large_for_a_batch_becomes_a_transaction(world, disk):
    many = [created(1)]
    many += [PartitionCreated(topic_id(1), lone_partition(index, 1)) for index in range(30_000)]
    heard = []

    async def commit(store):
        store.subscribe(lambda changes, image: heard.append(len(changes)))
        before = store.image.version
        assert await store.commit(before, many) == before + len(many) + 2

    image = use(world, disk, commit)
    assert heard == [len(many)]
    assert use(world, disk).topics == image.topics
    sizes = [span.size for span in iter_batches(read_whole(disk, LOG))]
    assert max(sizes) <= 1 << 20 < sum(sizes)


def test_a_folder_of_an_older_metadata_version_stays_in_its_form(world, disk):
    async def commit(store):
        await store.commit(store.image.version, [FeatureLevelSet("metadata.version", 8)])
        changes = [*register_broker(store.image, registration(1)), created(1)]
        changes.append(PartitionCreated(topic_id(1), lone_partition(0, 1)))
        await store.commit(store.image.version, changes)

    use(world, disk, commit)
    values = [record.value for header, record in all_records(read_whole(disk, LOG))]
    assert {value[1]: value[2] for value in values if value[1] in {0, 3}} == {0: 2, 3: 0}


# A disk that refuses


def test_a_full_disk_refuses_the_commit_and_nothing_else(world, disk):
    async def work(store):
        before = store.image
        disk.faults.fill_up(30)
        with pytest.raises(StorageError, match="No space left"):
            await store.commit(before.version, [created(1)])
        assert store.image is before
        disk.faults.heal()
        await store.commit(before.version, [created(2)])

    use(world, disk, work)
    assert set(use(world, disk).topics) == {"topic-2"}


def test_a_full_disk_takes_back_a_whole_transaction(world, disk, monkeypatch):
    monkeypatch.setattr("moldau.cluster.embedded.BATCH_BYTES_MAX", 200)

    async def work(store):
        before, size = store.image, disk.size(LOG)
        disk.faults.fill_up(500)
        with pytest.raises(StorageError, match="No space left"):
            await store.commit(before.version, [created(number) for number in range(30)])
        assert store.image is before
        assert disk.size(LOG) == size
        disk.faults.heal()
        await store.commit(before.version, [created(1)])

    use(world, disk, work)
    assert set(use(world, disk).topics) == {"topic-1"}


def test_a_full_disk_that_cannot_even_take_back_ends_the_store(world, disk):
    async def work(store):
        disk.faults.fill_up(30)
        disk.faults.fail(Operation.TRUNCATE, "/data")
        with pytest.raises(StorageError):
            await store.commit(store.image.version, [created(1)])
        disk.faults.heal()
        with pytest.raises(StoreFailed):
            await store.commit(store.image.version, [created(2)])

    use(world, disk, work)
    assert not use(world, disk).topics


def test_after_a_failed_sync_nothing_is_told_and_nothing_more_is_taken(world, disk):
    async def work(store):
        before, heard = store.image, []
        store.subscribe(lambda changes, image: heard.append(changes))
        disk.faults.fail(Operation.SYNC, LOG, times=1)
        with pytest.raises(StorageError, match="cannot be synced"):
            await store.commit(before.version, [created(1)])
        with pytest.raises(StoreFailed):
            await store.commit(before.version, [created(2)])
        assert heard == []
        assert store.image is before

    use(world, disk, work)
    disk.faults.heal()
    assert "topic-2" not in use(world, disk).topics


def test_a_folder_that_cannot_be_read_is_a_storage_error(world, disk):
    use(world, disk)
    disk.faults.fail(Operation.READ, FOLDER, code=errno.EIO)
    with pytest.raises(StorageError):
        use(world, disk)


# Snapshots of our own


def test_a_large_journal_is_replaced_by_a_snapshot(world, disk):
    filled = use(world, disk, committing(*([change] for change in every_change())))
    size = disk.size(LOG)
    image = use(world, disk, snapshot_after_bytes=size // 2)
    (newest,) = snapshot_ids(disk, FOLDER)
    assert newest == (image.version, 2)
    logs = [name for name in disk.names(FOLDER) if name.endswith(".log")]
    assert logs == [f"{image.version:020d}.log"]
    again = use(world, disk, committing([created(9)]))
    assert set(again.topics) == {*filled.topics, "topic-9"}
    third = use(world, disk)
    assert third.topics == again.topics
    base = MetadataImage(cluster_id=image.cluster_id)
    assert image == base.apply(image.as_changes(), image.version)
    assert third.opaque == filled.opaque
    assert third.brokers == filled.brokers


def test_commits_go_on_while_a_snapshot_is_written(world, disk):
    async def work(store):
        for number in range(40):
            await store.commit(store.image.version, [created(number)])

    image = use(world, disk, work, snapshot_after_bytes=600)
    assert len(image.topics) == 40
    assert use(world, disk).topics == image.topics
    assert len(snapshot_ids(disk, FOLDER)) == 1
    assert disk.size(f"{FOLDER}/{snapshot_ids(disk, FOLDER)[0].end_offset:020d}.log") < 4000


def test_a_snapshot_that_finds_no_room_leaves_the_journal_as_it_is(world, disk, caplog):
    async def work(store):
        await store.commit(store.image.version, [created(1)])
        disk.faults.fail(Operation.RENAME, FOLDER, times=1)
        await store.commit(store.image.version, [created(2)])
        await store.commit(store.image.version, [created(3)])

    image = use(world, disk, work, snapshot_after_bytes=650)
    assert snapshot_ids(disk, FOLDER) == []
    assert "metadata snapshot not written" in caplog.text
    assert use(world, disk).topics == image.topics
    assert not [name for name in disk.names(FOLDER) if name.endswith(".part")]


def test_metadata_may_live_in_a_directory_of_its_own(world, disk):
    async def work(store):
        assert list(store.identity.directory_ids) == ["/logs"]
        await store.commit(store.image.version, [created(1)])

    use(world, disk, work, metadata_directory="/data", directories=("/logs",))
    assert disk.names("/logs") == ["meta.properties"]
    assert disk.exists(LOG)
    image = use(world, disk, metadata_directory="/data", directories=("/logs",))
    assert "topic-1" in image.topics


def test_a_directory_from_before_directory_ids_is_given_one(world, disk):
    disk.make_folder("/logs")
    text = b"version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=1\nsome.key=kept\n"
    put(disk, "/logs/meta.properties", text)
    use(world, disk, directories=("/data", "/logs"))
    properties = read_meta_properties(disk, "/logs")
    assert properties.cluster_id == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert len(properties.directory_id) == 16
    assert properties.others == {"some.key": "kept"}
