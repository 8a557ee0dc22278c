"""A copy of the leader's log on its own: what commits, what a snapshot of it says."""

from __future__ import annotations

import asyncio

import pytest

from kits.embedded_store import NOTHING_OLDER, created
from moldau.base.files import read_whole
from moldau.cluster.blocking import blocking_in
from moldau.cluster.image import MetadataImage
from moldau.cluster.log_copy import CommittedLost, LogCopy
from moldau.cluster.record_codec import TransactionMark, encode_change, encode_mark
from moldau.cluster.snapshots import SnapshotId, SnapshotWriter, read_snapshot, snapshot_ids
from moldau.cluster.snapshotting import SnapshotPace
from moldau.protocol.compiler import encode
from moldau.protocol.messages.control_records import KRaftVersionRecord
from moldau.records.builder import BatchBuilder
from moldau.records.control import ControlType
from moldau.sim.disk import SimDisk
from moldau.storage.epochs import EpochEnd

FOLDER = "/data/__cluster_metadata-0"


@pytest.fixture
def disk(disk):
    disk.make_folder("/data")
    return disk


def new_copy(
    world, disk, heard=None, snapshot_after_bytes=1 << 20, blocking=None, retention=NOTHING_OLDER
):
    told = [] if heard is None else heard
    copy = LogCopy(
        disk,
        FOLDER,
        world.clock,
        blocking or blocking_in(None),
        lambda changes, image: told.append((changes, image)),
        SnapshotPace(snapshot_after_bytes),
        retention,
    )
    copy.open("cluster")
    return copy


def batch(base_offset, *values, epoch=1):
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    for value in values:
        builder.append(1_000, None, value)
    return builder.build()


def topic(number):
    return encode_change(created(number), 30)


def test_what_is_not_committed_is_not_in_the_image(world, disk):
    async def work():
        heard = []
        copy = new_copy(world, disk, heard)
        await copy.append(b"".join(batch(n, topic(n)) for n in range(5)), 1)
        assert (copy.next_offset, copy.high_watermark, copy.image.version) == (5, 0, 0)
        await copy.commit(3)
        assert set(copy.image.topics) == {"topic-0", "topic-1", "topic-2"}
        assert (copy.image.version, copy.applied_offset) == (3, 3)
        await copy.commit(99)
        assert (copy.high_watermark, copy.image.version) == (5, 5)
        assert [len(changes) for changes, _ in heard] == [3, 2]
        await copy.close()

    world.run(work())


def test_the_high_watermark_never_goes_back(world, disk):
    async def work():
        copy = new_copy(world, disk)
        await copy.append(batch(0, topic(0), topic(1)) + batch(2, topic(2)), 1)
        await copy.commit(3)
        image = copy.image
        await copy.commit(2)
        assert (copy.high_watermark, copy.image) == (3, image)
        with pytest.raises(CommittedLost):
            await copy.truncate(EpochEnd(1, 2))
        with pytest.raises(CommittedLost):
            await copy.restart_with(SnapshotId(2, 1), None)
        await copy.close()

    world.run(work())


def test_an_open_transaction_is_in_no_image_and_no_version(world, disk):
    async def work():
        heard = []
        copy = new_copy(world, disk, heard)
        begin, end = encode_mark(TransactionMark.BEGIN, "t"), encode_mark(TransactionMark.END)
        await copy.append(batch(0, topic(0)) + batch(1, topic(1), begin, topic(2)), 1)
        await copy.append(batch(4, topic(3)), 1)
        await copy.commit(5)
        assert set(copy.image.topics) == {"topic-0", "topic-1"}
        assert (copy.image.version, copy.applied_offset) == (2, 5)
        await copy.append(batch(5, topic(4), end, topic(5)), 1)
        await copy.commit(8)
        assert len(copy.image.topics) == 6
        assert copy.image.version == 8
        assert [len(changes) for changes, _ in heard] == [2, 4]
        await copy.close()

    world.run(work())


def test_no_snapshot_is_made_of_an_image_that_ends_before_the_journal(world, disk):
    """It would be named by an epoch that its last record does not have."""

    async def work():
        copy = new_copy(world, disk, snapshot_after_bytes=500)
        await copy.append(b"".join(batch(n, topic(n)) for n in range(9)), 1)
        await copy.append(batch(9, topic(9), epoch=2), 2)
        await copy.commit(9)
        await copy._snapshotting.finish()
        assert snapshot_ids(disk, FOLDER) == []
        await copy.commit(10)
        await copy._snapshotting.finish()
        assert snapshot_ids(disk, FOLDER) == [SnapshotId(10, 2)]
        await copy.close()

    world.run(work())


def served(world, snapshot, values, control=()):
    """Return what gives the pieces of a snapshot that another node has written."""
    disk = SimDisk(world.random("leader's disk"))
    disk.make_folder("/leader")
    writer = SnapshotWriter(disk, f"/leader/{snapshot.name}", 1_000, 1_000)
    writer.append_control(control)
    writer.append(values)
    writer.finish()
    data = read_whole(disk, f"/leader/{snapshot.name}")

    async def piece_at(position):
        return len(data), data[position : position + 70]

    return piece_at


def test_what_a_snapshot_says_of_the_quorum_is_kept_and_repeated(world, disk):
    async def work():
        copy = new_copy(world, disk, snapshot_after_bytes=500)
        version = (ControlType.KRAFT_VERSION, encode(KRaftVersionRecord(kraft_version=1), 0))
        snapshot = SnapshotId(100, 3)
        await copy.restart_with(snapshot, served(world, snapshot, [topic(1)], [version]))
        assert copy.quorum.kraft_version == 1
        assert (copy.next_offset, copy.last_epoch, copy.high_watermark) == (100, 3, 100)
        await copy.append(b"".join(batch(100 + n, topic(n + 2), epoch=3) for n in range(9)), 3)
        await copy.commit(109)
        await copy._snapshotting.finish()
        [own] = snapshot_ids(disk, FOLDER)
        assert own == SnapshotId(109, 3)
        assert read_snapshot(disk, f"{FOLDER}/{own.name}").control == [version]
        await copy.close()

    world.run(work())


def test_a_snapshot_of_its_own_that_is_late_does_not_replace_a_newer_one(world, disk):
    async def work():
        slow_disk, is_finishing = asyncio.Event(), asyncio.Event()

        async def blocking(call):
            if getattr(call, "__name__", None) == "finish":
                is_finishing.set()
                await slow_disk.wait()
            call()

        copy = new_copy(world, disk, snapshot_after_bytes=500, blocking=blocking)
        await copy.append(b"".join(batch(n, topic(n)) for n in range(9)), 1)
        await copy.commit(9)
        await is_finishing.wait()
        newer = SnapshotId(100, 1)
        await copy.restart_with(newer, served(world, newer, [topic(1)]))
        slow_disk.set()
        await copy._snapshotting.finish()
        assert copy._snapshots.newest == newer
        assert snapshot_ids(disk, FOLDER) == [newer]
        expected = MetadataImage(0, "cluster").apply([created(1)], 100)
        assert copy.image == expected
        await copy.close()
        again = new_copy(world, disk)
        assert again.image == expected
        await again.close()

    world.run(work())


def test_old_snapshots_are_removed_where_the_loop_does_not_wait(world, disk):
    async def work():
        counts = []

        async def blocking(call):
            before = len(snapshot_ids(disk, FOLDER))
            call()
            counts.append((before, len(snapshot_ids(disk, FOLDER))))

        copy = new_copy(world, disk, snapshot_after_bytes=500, blocking=blocking)
        for first in (0, 20):
            values = b"".join(batch(first + n, topic(first + n)) for n in range(20))
            await copy.append(values, 1)
            await copy.commit(first + 20)
            await copy._snapshotting.finish()
        assert [own.end_offset for own in snapshot_ids(disk, FOLDER)] == [40]
        assert (2, 1) in counts
        await copy.close()

    world.run(work())
