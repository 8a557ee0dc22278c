"""A voter that is alone: KRaft's files, refusals, full disks, snapshots."""

from __future__ import annotations

import asyncio
import errno
import json

import pytest

from kits.metadata_samples import every_change, lone_partition, registration, topic_id
from kits.sole_voter import (
    FOLDER,
    KAFKA,
    LOG,
    NOTHING_OLDER,
    all_records,
    commit,
    committing,
    created,
    leader_change,
    on_disk,
    put,
    use,
)
from moldau.base.errors import ConfigError, StorageError
from moldau.base.files import read_whole
from moldau.base.ids import uuid_bytes
from moldau.cluster.brokers import register_broker
from moldau.cluster.changes import (
    FeatureLevelSet,
    PartitionCreated,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.record_codec import TransactionMark, encode_change, encode_mark
from moldau.cluster.snapshots import read_snapshot, snapshot_ids
from moldau.cluster.store import ControllerFenced, OutcomeUnknown, StoreFailed
from moldau.cluster.sync_mark import SyncMark
from moldau.records.batch import iter_batches
from moldau.records.builder import BatchBuilder
from moldau.records.control import ControlType, control_batch
from moldau.sim.disk_faults import Operation
from moldau.sim.executor import SimExecutor
from moldau.storage.checkpoints import read_meta_properties
from moldau.storage.disk import Disk

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
    first = [record.value for _, record in kafkas[1:10]]
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


def test_a_folder_of_another_node_is_refused_untouched(world, disk):
    use(world, disk)
    before = on_disk(disk)
    with pytest.raises(ConfigError, match=r"belongs to node\.id=1, not to node\.id=2") as refused:
        use(world, disk, node_id=2, directories=("/fresh", "/data"))
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

    async def work(store):
        store.subscribe(lambda changes, image: heard.append(len(changes)))
        before = store.image.version
        assert await commit(store, before, many) == before + len(many) + 2

    image = use(world, disk, work)
    assert heard == [len(many)]
    assert use(world, disk).topics == image.topics
    sizes = [span.size for span in iter_batches(read_whole(disk, LOG))]
    assert max(sizes) <= 1 << 20 < sum(sizes)


def test_the_batches_of_a_commit_become_durable_one_by_one_and_count_as_one(
    world, disk, monkeypatch
):
    monkeypatch.setattr("moldau.cluster.commit_batches.BATCH_BYTES_MAX", 200)
    heard = []

    async def work(store):
        store.subscribe(lambda changes, image: heard.append((len(changes), image.version)))
        for first in (0, 30):
            changes = [created(first + number) for number in range(30)]
            await commit(store, store.image.version, changes)
            assert heard[-1] == (30, store.image.version)
        assert len(heard) == 2

    image = use(world, disk, work, executor=SimExecutor(world))
    assert len(image.topics) == 60
    assert use(world, disk).topics == image.topics


def test_a_folder_of_an_older_metadata_version_stays_in_its_form(world, disk):
    async def work(store):
        await commit(store, store.image.version, [FeatureLevelSet("metadata.version", 8)])
        changes = [*register_broker(store.image, registration(1)), created(1)]
        changes.append(PartitionCreated(topic_id(1), lone_partition(0, 1)))
        await commit(store, store.image.version, changes)

    use(world, disk, work)
    values = [record.value for header, record in all_records(read_whole(disk, LOG))]
    assert {value[1]: value[2] for value in values if value[1] in {0, 3}} == {0: 2, 3: 0}


# A disk that refuses


def test_a_full_disk_refuses_commits_until_it_has_room(world, disk):
    async def work(store):
        lost, before, old = [], store.image, await store.claim()
        old.on_lost(lambda: lost.append(old.epoch))
        disk.faults.fill_up(30)
        for number in range(3):
            with pytest.raises(StoreFailed, match="No space left"):
                await old.commit(before.version, [created(number)])
            await asyncio.sleep(5)
        assert store.image is before
        assert lost == []
        disk.faults.heal()
        # It leads again, in another epoch: what was decided before has to be decided anew.
        await store.leads()
        assert lost == [old.epoch]
        await commit(store, store.image.version, [created(9)])
        with pytest.raises(ControllerFenced):
            await old.commit(store.image.version, [created(8)])

    use(world, disk, work)
    assert set(use(world, disk).topics) == {"topic-9"}


def test_a_commit_that_finds_no_room_is_refused_and_the_controller_goes_on(
    world, disk, monkeypatch
):
    many = [created(number) for number in range(3_000)]

    async def work(store):
        tenure, epoch, version = await store.claim(), store.leader_epoch, store.image.version
        monkeypatch.setattr(disk, "space", lambda _: (1 << 30, 70_000))
        disk.faults.fill_up(70_000)
        with pytest.raises(StoreFailed, match=r"has no room for \d+ bytes"):
            await tenure.commit(version, many)
        await tenure.commit(version, [created(1)])
        assert (store.tenure, store.leader_epoch, tenure.is_over) == (tenure, epoch, False)

    use(world, disk, work)
    assert set(use(world, disk).topics) == {"topic-1"}


def test_a_disk_that_takes_small_files_alone_costs_few_epochs_and_one_error(world, disk, caplog):
    async def work(store):
        disk.faults.fail(Operation.APPEND, LOG, code=errno.ENOSPC)
        with pytest.raises(StoreFailed, match="No space left"):
            await commit(store, store.image.version, [created(1)])
        await asyncio.sleep(600)
        assert store.leader_epoch < 30
        disk.faults.heal()
        await store.leads()
        await commit(store, store.image.version, [created(2)])

    use(world, disk, work)
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert set(use(world, disk).topics) == {"topic-2"}


def test_what_finds_no_room_again_and_again_costs_few_epochs_and_one_error(world, disk, caplog):
    many = [created(number) for number in range(100)]

    async def work(store):
        epoch, started_s = store.leader_epoch, world.clock.monotonic()
        for tries in range(1, 8):
            disk.faults.fill_up(30)
            with pytest.raises(StoreFailed, match="No space left"):
                await commit(store, store.image.version, many)
            disk.faults.fill_up(1_000)  # enough for a new epoch
            await store.leads()
            assert store.leader_epoch == epoch + tries
        assert world.clock.monotonic() - started_s == 1 + 2 + 4 + 8 + 16 + 30 + 30
        disk.faults.heal()
        await commit(store, store.image.version, many)

    use(world, disk, work)
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert len(use(world, disk).topics) == 100


def test_a_full_disk_takes_back_a_whole_transaction(world, disk, monkeypatch):
    monkeypatch.setattr("moldau.cluster.commit_batches.BATCH_BYTES_MAX", 200)

    async def work(store):
        before = store.image
        disk.faults.fill_up(500)
        with pytest.raises(StoreFailed, match="No space left"):
            await commit(store, before.version, [created(number) for number in range(30)])
        assert store.image is before
        disk.faults.heal()
        await store.leads()
        await store.claim()
        await commit(store, store.image.version, [created(1)])

    use(world, disk, work)
    assert set(use(world, disk).topics) == {"topic-1"}


def test_a_full_disk_that_cannot_even_take_back_ends_the_store(world, disk):
    async def work(store):
        failures = []
        store.on_failed(failures.append)
        disk.faults.fill_up(30)
        disk.faults.fail(Operation.TRUNCATE, "/data")
        with pytest.raises(OutcomeUnknown):
            await commit(store, store.image.version, [created(1)])
        disk.faults.heal()
        with pytest.raises(StorageError, match="No space left"):
            await store.claim()
        assert len(failures) == 1

    use(world, disk, work)
    assert not use(world, disk).topics


def test_after_a_failed_sync_nothing_is_told_and_nothing_more_is_taken(world, disk):
    async def work(store):
        before, heard, failures = store.image, [], []
        store.subscribe(lambda changes, image: heard.append(changes))
        store.on_failed(failures.append)
        disk.faults.fail(Operation.SYNC, LOG, times=1)
        with pytest.raises(OutcomeUnknown):
            await commit(store, before.version, [created(1)])
        with pytest.raises(StorageError, match="cannot be synced"):
            await store.claim()
        assert heard == []
        assert len(failures) == 1
        assert store.image is before

    use(world, disk, work)
    disk.faults.heal()
    assert "topic-2" not in use(world, disk).topics


@pytest.mark.parametrize("room", [0, 200])
def test_a_disk_that_refuses_the_first_write_ends_the_start(world, disk, room):
    use(world, disk, committing([created(1)]))
    disk.faults.fill_up(room)
    with pytest.raises(StorageError, match="No space left"):
        use(world, disk)
    disk.faults.heal()
    assert set(use(world, disk).topics) == {"topic-1"}


def test_a_folder_that_cannot_be_read_is_a_storage_error(world, disk):
    use(world, disk)
    disk.faults.fail(Operation.READ, FOLDER, code=errno.EIO)
    with pytest.raises(StorageError):
        use(world, disk)


# Snapshots of our own


def test_a_large_journal_is_replaced_by_a_snapshot(world, disk):
    filled = use(world, disk, committing(*([change] for change in every_change())))
    size = disk.size(LOG)
    use(world, disk, snapshot_after_bytes=size // 2)
    image = use(world, disk, snapshot_after_bytes=1, retention=NOTHING_OLDER)
    (newest,) = snapshot_ids(disk, FOLDER)
    assert newest == (image.version, 3)
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


def test_a_change_is_in_a_snapshot_after_a_while(world, disk):
    found = []

    async def work(store):
        await commit(store, store.image.version, [created(1)])
        version = store.image.version
        await asyncio.sleep(59)
        assert snapshot_ids(disk, FOLDER) == []
        await commit(store, store.image.version, [created(2)])
        await asyncio.sleep(2)
        (first,) = snapshot_ids(disk, FOLDER)
        assert first.end_offset > version
        # Without changes there is nothing to write.
        await asyncio.sleep(600)
        assert snapshot_ids(disk, FOLDER) == [first]
        await commit(store, store.image.version, [created(3)])
        await asyncio.sleep(61)
        found.extend(snapshot_ids(disk, FOLDER))
        assert found[-1].end_offset == store.image.version

    image = use(world, disk, work, snapshot_interval_s=60)
    assert snapshot_ids(disk, FOLDER) == found
    assert use(world, disk).topics == image.topics


def test_snapshots_by_time_can_be_turned_off(world, disk):
    async def work(store):
        await commit(store, store.image.version, [created(1)])
        await asyncio.sleep(100)

    use(world, disk, work, snapshot_interval_s=0)
    assert snapshot_ids(disk, FOLDER) == []


def test_commits_go_on_while_a_snapshot_is_written(world, disk):
    async def work(store):
        for number in range(40):
            await commit(store, store.image.version, [created(number)])

    image = use(world, disk, work, snapshot_after_bytes=600, retention=NOTHING_OLDER)
    assert len(image.topics) == 40
    assert use(world, disk).topics == image.topics
    assert len(snapshot_ids(disk, FOLDER)) == 1
    assert disk.size(f"{FOLDER}/{snapshot_ids(disk, FOLDER)[0].end_offset:020d}.log") < 4000


def test_a_snapshot_that_finds_no_room_leaves_the_journal_as_it_is(world, disk, caplog):
    async def work(store):
        await commit(store, store.image.version, [created(1)])
        disk.faults.fail(Operation.RENAME, FOLDER, times=1)
        await commit(store, store.image.version, [created(2)])
        await commit(store, store.image.version, [created(3)])

    image = use(world, disk, work, snapshot_after_bytes=650)
    assert snapshot_ids(disk, FOLDER) == []
    assert "metadata snapshot not written" in caplog.text
    assert use(world, disk).topics == image.topics
    assert not [name for name in disk.names(FOLDER) if name.endswith(".part")]


@pytest.mark.parametrize("skip", [0, 1, 2])
def test_a_segment_that_finds_no_room_does_not_end_the_store(world, disk, caplog, skip):
    async def work(store):
        await commit(store, store.image.version, [created(1)])
        disk.faults.fail(Operation.CREATE, FOLDER, code=errno.ENOSPC, skip=skip, times=1)
        await commit(store, store.image.version, [created(2)])
        await asyncio.sleep(1.0)
        for number in (3, 4):
            await commit(store, store.image.version, [created(number)])

    image = use(world, disk, work, snapshot_after_bytes=650)
    assert "cannot hold a new segment" in caplog.text
    assert set(image.topics) == {"topic-1", "topic-2", "topic-3", "topic-4"}
    assert use(world, disk).topics == image.topics


def test_metadata_may_live_in_a_directory_of_its_own(world, disk):
    async def work(store):
        assert list(store.identity.directory_ids) == ["/logs"]
        await commit(store, store.image.version, [created(1)])

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


@pytest.mark.parametrize("content", [b"rubbish", b"0\n7\n", b"9\n0\n"])
def test_a_damaged_leader_epoch_checkpoint_is_made_anew(world, disk, caplog, content):
    use(world, disk, committing([created(1)]))
    path = f"{FOLDER}/leader-epoch-checkpoint"
    before = read_whole(disk, path)
    put(disk, path, content)
    use(world, disk, committing([created(2)]))
    assert read_whole(disk, path).startswith(b"0\n2\n" + before.splitlines(keepends=True)[2])
    assert [path in record.getMessage() for record in caplog.records] == [True]


def test_the_disk_syncs_once_for_a_batch_and_for_two_small_files_at_a_start(
    world, disk, monkeypatch
):
    """A batch is durable before the next one is begun: no mark has to say how far that went."""
    use(world, disk)
    syncs, seen, check = [], [], disk.faults.check

    def counting(operation, path):
        if operation is Operation.SYNC:
            syncs.append(path.removeprefix(FOLDER + "/"))
        check(operation, path)

    monkeypatch.setattr(disk.faults, "check", counting)

    async def work(store):
        seen.extend(syncs)
        syncs.clear()
        for number in range(5):
            await commit(store, store.image.version, [created(number)])

    use(world, disk, work)
    log = LOG.removeprefix(FOLDER + "/")
    assert seen == ["quorum-state.tmp", "leader-epoch-checkpoint.tmp", log]
    assert syncs == [log] * 5


def test_a_mark_from_a_time_with_other_voters_counts(world, disk):
    end = use(world, disk, committing([created(1)])).version
    SyncMark(disk, FOLDER).note(end + 5)
    with pytest.raises(StorageError, match=f"was synced up to {end + 5}"):
        use(world, disk)
    disk.remove(f"{FOLDER}/synced-offsets")
    SyncMark(disk, FOLDER).note(end)

    async def look(store):
        await commit(store, store.image.version, [created(2)])
        assert SyncMark(disk, FOLDER).offset == store.image.version

    use(world, disk, look)
    assert "synced-offsets" not in disk.names(FOLDER)
    assert set(use(world, disk).topics) == {"topic-1", "topic-2"}
