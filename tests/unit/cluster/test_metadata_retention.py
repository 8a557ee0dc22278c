"""What is kept of the metadata log before its newest snapshot: by size and by age, as in Kafka."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from kits.observed_cluster import ObservedCluster
from kits.observer_kit import fill, following, run
from kits.sole_voter import FOLDER, KAFKA, commit, created
from kits.sole_voter import use as use_store
from moldau.cluster.kept_snapshots import MetadataRetention
from moldau.cluster.snapshots import SnapshotId, snapshot_ids
from moldau.sim.disk import SimDisk
from moldau.sim.world import World
from moldau.storage.disk import Disk

INTERVAL_S = 10
MINUTES_S = 300


@pytest.fixture
def world():
    with World(4) as made:
        yield made


@pytest.fixture
def disk(world):
    return SimDisk(world.random("disk"))


def log_bases(disk, folder=FOLDER):
    return [int(name[:20]) for name in disk.names(folder) if name.endswith(".log")]


def kept_bytes(disk):
    names = [name for name in disk.names(FOLDER) if name.endswith((".log", ".checkpoint"))]
    return sum(disk.size(f"{FOLDER}/{name}") for name in names)


def use(world, disk, work=None, **settings):
    settings.setdefault("snapshot_interval_s", INTERVAL_S)
    return use_store(world, disk, work, **settings)


def slowly(count):
    """Commit now and then, so that each change has a snapshot of its own."""

    async def work(store):
        for number in range(count):
            await commit(store, store.image.version, [created(number)])
            await asyncio.sleep(INTERVAL_S + 1)

    return work


def test_nothing_is_removed_before_size_or_age_demands_it(world, disk):
    use(world, disk, slowly(5))
    snapshots = [snapshot.end_offset for snapshot in snapshot_ids(disk, FOLDER)]
    assert len(snapshots) == 5
    assert log_bases(disk) == [0, *snapshots]


def test_old_snapshots_and_the_log_before_the_next_go_when_all_is_too_large(world, disk):
    limit = 4_000
    use(world, disk, slowly(30), retention=MetadataRetention(max_bytes=limit))
    snapshots = [snapshot.end_offset for snapshot in snapshot_ids(disk, FOLDER)]
    assert 1 < len(snapshots) < 30
    assert log_bases(disk) == snapshots
    assert limit / 2 < kept_bytes(disk) <= limit


def test_snapshots_go_when_they_are_too_old_also_while_nothing_changes(world, disk):
    async def work(store):
        await slowly(3)(store)
        assert len(snapshot_ids(disk, FOLDER)) == 3
        await asyncio.sleep(MINUTES_S + 61)
        newest = store._log.newest_snapshot
        assert snapshot_ids(disk, FOLDER) == [newest]
        assert log_bases(disk) == [newest.end_offset] == [store._log.journal.start_offset]

    use(world, disk, work, retention=MetadataRetention(max_ms=MINUTES_S * 1000))


def test_the_age_counts_over_a_restart(world, disk):
    retention = MetadataRetention(max_ms=MINUTES_S * 1000)
    use(world, disk, slowly(2), retention=retention)
    assert len(snapshot_ids(disk, FOLDER)) == 2

    async def wait(store):
        await asyncio.sleep(MINUTES_S + 61)

    use(world, disk, wait, retention=retention, snapshot_interval_s=0)
    assert len(snapshot_ids(disk, FOLDER)) == 1


@pytest.mark.parametrize("retention", [MetadataRetention(-1, -1), MetadataRetention(-1, 10**15)])
def test_a_negative_limit_is_none(world, disk, retention):
    use(world, disk, slowly(8), retention=retention)
    assert len(snapshot_ids(disk, FOLDER)) == 8


def test_the_log_up_to_the_only_snapshot_stays(world, disk):
    use(world, disk, slowly(1), retention=MetadataRetention(0, 0))
    [snapshot] = snapshot_ids(disk, FOLDER)
    assert log_bases(disk) == [0, snapshot.end_offset]


def test_bytes_that_a_snapshot_has_do_not_make_another_due(world, disk):
    async def work(store):
        for number in range(40):
            await commit(store, store.image.version, [created(number)])
            await asyncio.sleep(1)

    use(world, disk, work, snapshot_after_bytes=1_000)
    assert 2 < len(snapshot_ids(disk, FOLDER)) < 8


def test_older_segments_are_served_without_a_descriptor_for_each(world, disk):
    async def work(store):
        await slowly(6)(store)
        journal = store._log.journal
        assert sum(segment.file is not None for segment in journal._segments) == 1
        offset = 1
        while offset < journal.next_offset:
            region = store._log.region(offset, 1)
            assert region.size > 0
            offset += 1

    use(world, disk, work)
    use(world, disk, _one_open)


def test_all_who_fetch_a_snapshot_share_one_open_file(world, disk):
    async def work(store):
        await slowly(3)(store)
        log = store._log
        newest = log.open_snapshot(log.newest_snapshot)
        assert log.open_snapshot(log.newest_snapshot) is newest
        assert newest.size == disk.size(f"{FOLDER}/{log.newest_snapshot.name}")
        assert log.open_snapshot(log.oldest_snapshot) is not newest
        assert log.open_snapshot(SnapshotId(1, 1)) is None

    use(world, disk, work)


async def _one_open(store):
    assert sum(segment.file is not None for segment in store._log.journal._segments) == 1


# Nodes that have fallen behind


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "after a restart"])
def test_an_observer_behind_the_newest_snapshot_reads_the_log_that_is_kept(world, disk, restart):
    cluster = ObservedCluster(
        world, SimDisk(world.random("voter's disk")), snapshot_after_bytes=1_000
    )

    async def work():
        await fill(cluster, 2)
        observer = await following(cluster, disk)
        behind = observer.image.version
        await observer.close()
        await fill(cluster, 30, first=100)
        await cluster.voter._log._snapshotting.finish()
        if restart:
            await cluster.stop_voter()
            await cluster.start_voter()
        assert (
            cluster.voter._log.journal.start_offset
            < behind
            < cluster.voter._log.newest_snapshot.end_offset
        )
        again = await following(cluster, disk)
        await cluster.caught_up(again)
        assert again.image == cluster.voter.image
        assert cluster.source.pieces == []
        await again.close()

    run(cluster, work)


def test_one_that_begins_before_the_log_that_is_kept_fetches_the_newest_snapshot(world, disk):
    cluster = ObservedCluster(
        world,
        SimDisk(world.random("voter's disk")),
        snapshot_after_bytes=1_000,
        retention=MetadataRetention(max_bytes=10_000),
    )

    async def work():
        await fill(cluster, 2)
        observer = await following(cluster, disk)
        behind = observer.image.version
        await observer.close()
        await fill(cluster, 60, first=100)
        await cluster.voter._log._snapshotting.finish()
        log = cluster.voter._log
        assert behind < log.journal.start_offset < log.newest_snapshot.end_offset
        again = await following(cluster, disk)
        assert again.image == cluster.voter.image
        assert cluster.source.pieces
        await again.close()

    run(cluster, work)


# What is found at a start


def test_the_log_that_kafka_kept_stays(world, tmp_path):
    folder = str(shutil.copytree(KAFKA / "snapshot", tmp_path / "data"))
    metadata = f"{folder}/__cluster_metadata-0"
    bases, snapshots = log_bases(Disk(), metadata), snapshot_ids(Disk(), metadata)
    assert bases[0] < bases[1] < snapshots[-1].end_offset

    async def work(store):
        assert store._log.journal.start_offset == bases[0]
        assert store._log.region(1, 1 << 20).size > 0

    use(world, Disk(), work, directories=(folder,))
    assert log_bases(Disk(), metadata) == bases
    assert snapshot_ids(Disk(), metadata) == snapshots


def lose_segment(disk, base):
    disk.remove(f"{FOLDER}/{base:020d}.log")


def cut_segment(disk, base):
    file = disk.open(f"{FOLDER}/{base:020d}.log")
    file.truncate(file.size() - 1)


def lose_epochs(disk, base):
    disk.remove(f"{FOLDER}/leader-epoch-checkpoint")


@pytest.mark.parametrize("spoil", [lose_segment, cut_segment, lose_epochs])
def test_older_segments_that_are_not_whole_are_given_up_with_all_before_them(world, disk, spoil):
    filled = use(world, disk, slowly(5))
    snapshots = snapshot_ids(disk, FOLDER)
    spoil(disk, snapshots[1].end_offset)
    first = 4 if spoil is lose_epochs else 2
    image = use(world, disk)
    assert image.topics == filled.topics
    assert snapshot_ids(disk, FOLDER) == snapshots[first:]
    assert log_bases(disk) == [snapshot.end_offset for snapshot in snapshots[first:]]


def test_a_snapshot_that_ends_before_the_log_is_removed(world, disk):
    """As a crash leaves it, between the removal of segments and of snapshots."""
    use(world, disk, slowly(3))
    first, *others = snapshot_ids(disk, FOLDER)
    for base in (0, first.end_offset):
        lose_segment(disk, base)
    use(world, disk)
    assert snapshot_ids(disk, FOLDER) == others
