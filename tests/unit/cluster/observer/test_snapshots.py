"""Observers begin with the leader's snapshots, and write their own."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from kits.metadata_samples import topic_id
from kits.observed_cluster import ObservedCluster
from kits.observer_kit import FOLDER, catch_up, fill, following, run, with_snapshot
from kits.sole_voter import KAFKA, NOTHING_OLDER, commit, created
from kits.spoiled_answers import (
    Spoiling,
    fetched_partition,
    flip_bit_in_the_middle,
    snapshot_piece,
    spoil_bytes,
    spoil_values,
)
from moldau.base.files import read_whole
from moldau.cluster.changes import TopicCreated, TopicRemoved
from moldau.cluster.image import MetadataImage
from moldau.cluster.snapshots import read_snapshot, snapshot_ids
from moldau.storage.disk import Disk


def test_a_fresh_observer_begins_with_the_snapshot(snapshotting, disk):
    cluster = snapshotting

    async def work():
        await with_snapshot(cluster)
        observer = cluster.new_observer(disk, fetch_bytes=150)
        heard = []
        observer.subscribe(lambda changes, image: heard.extend(changes))
        await observer.start()
        await observer.caught_up()
        assert len(cluster.source.pieces) > 5
        assert observer.image == cluster.voter.image
        applied = MetadataImage(0, observer.image.cluster_id).apply(heard, observer.image.version)
        assert applied == observer.image
        newest = cluster.voter._log.newest_snapshot
        assert snapshot_ids(disk, FOLDER) == [newest]
        ours = read_whole(disk, f"{FOLDER}/{newest.name}")
        assert ours == read_whole(cluster.disk, f"/voter/__cluster_metadata-0/{newest.name}")
        await observer.close()
        await catch_up(cluster, disk)

    run(cluster, work)


def test_an_observer_left_behind_begins_again_and_tells_the_difference(snapshotting, disk):
    cluster = snapshotting

    async def work():
        voter = cluster.voter
        await fill(cluster, 2)
        observer = await following(cluster, disk)
        before = observer.image
        handlers, cluster.handlers = cluster.handlers, None
        await commit(voter, voter.image.version, [TopicRemoved(topic_id(1))])
        await commit(voter, voter.image.version, [TopicCreated("topic-1", topic_id(77))])
        await with_snapshot(cluster)
        assert voter._log.journal.start_offset > before.version
        heard = []
        observer.subscribe(lambda changes, image: heard.append((changes, image)))
        cluster.handlers = handlers
        await cluster.caught_up(observer)
        image = before
        for changes, told in heard:
            image = image.apply(changes, told.version)
            assert image == told
        assert image == observer.image == voter.image
        first = heard[0][0]
        assert first.index(TopicRemoved(topic_id(1))) < first.index(
            TopicCreated("topic-1", topic_id(77))
        )
        await observer.close()

    run(cluster, work)


def test_it_writes_snapshots_of_its_own(cluster, disk):
    async def work():
        observer = await following(
            cluster, disk, snapshot_after_bytes=1_000, retention=NOTHING_OLDER
        )
        await fill(cluster, 40)
        await cluster.caught_up(observer)
        await observer.close()
        [newest] = snapshot_ids(disk, FOLDER)
        assert 0 < newest.end_offset <= observer.image.version
        assert cluster.voter._log.newest_snapshot is None
        logs = [name for name in disk.names(FOLDER) if name.endswith(".log")]
        assert logs == [f"{newest.end_offset:020d}.log"]
        again = await following(cluster, disk)
        assert again.image == cluster.voter.image
        await fill(cluster, 1, first=99)
        await cluster.caught_up(again)
        assert again.image == cluster.voter.image
        await again.close()

    run(cluster, work)


def test_its_snapshots_come_after_a_while_as_well(cluster, disk):
    async def work():
        observer = await following(cluster, disk, snapshot_interval_s=60)
        await fill(cluster, 1)
        await cluster.caught_up(observer)
        await asyncio.sleep(70)
        found = snapshot_ids(disk, FOLDER)
        assert found[-1].end_offset == observer.image.version
        await asyncio.sleep(600)
        assert snapshot_ids(disk, FOLDER) == found
        await observer.close()

    run(cluster, work)


def test_no_snapshot_is_made_within_a_transaction(cluster, disk, monkeypatch):
    monkeypatch.setattr("moldau.cluster.commit_batches.BATCH_BYTES_MAX", 200)

    async def work():
        observer = await following(cluster, disk, snapshot_after_bytes=300, fetch_bytes=1)
        await commit(cluster.voter, cluster.voter.image.version, [created(i) for i in range(30)])
        end = cluster.voter.image.version
        await cluster.caught_up(observer)
        await observer.close()
        assert snapshot_ids(disk, FOLDER)[-1].end_offset == end
        await catch_up(cluster, disk)

    run(cluster, work)


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_bytes(snapshot_piece, "unaligned_records", flip_bit_in_the_middle),
        spoil_values(snapshot_piece, unaligned_records=b""),
        spoil_values(snapshot_piece, position=7),
        spoil_values(snapshot_piece, size=20),
        spoil_values(snapshot_piece, error_code=98),
        spoil_values(snapshot_piece, error_code=12345),
        spoil_values(lambda answer: answer, topics=[]),
        spoil_values(lambda answer: answer, error_code=8),
        spoil_values(lambda answer: snapshot_piece(answer).snapshot_id, epoch=9),
    ],
)
def test_a_snapshot_that_arrives_spoiled_is_fetched_again(snapshotting, disk, spoil):
    cluster = snapshotting

    async def work():
        await with_snapshot(cluster)
        source = Spoiling(cluster.source, spoil_piece=spoil)
        await catch_up(cluster, disk, source=source)
        assert source.left == 0
        assert not [name for name in disk.names(FOLDER) if name.endswith(".part")]

    run(cluster, work)


def test_no_snapshot_is_made_of_an_image_that_ends_before_the_journal(cluster, disk):
    """It would be named by an epoch that its last record may not have."""

    class Behind:
        """Says for a while that less is committed than it sends."""

        def __init__(self, end):
            self.end = end

        async def fetch(self, request):
            await asyncio.sleep(0.1)
            answer = await cluster.source.fetch(request)
            partition = fetched_partition(answer)
            partition.high_watermark = min(partition.high_watermark, self.end)
            return answer

        async def close(self):
            pass

    async def work():
        source = Behind(cluster.voter.image.version)
        observer = await following(cluster, disk, source=source, snapshot_after_bytes=500)
        await fill(cluster, 20)
        await asyncio.sleep(5)
        assert observer.image.version == source.end < observer._log.journal.next_offset
        assert not observer.image.topics
        assert snapshot_ids(disk, FOLDER) == []
        source.end = cluster.voter.image.version
        await fill(cluster, 1, first=50)
        source.end = cluster.voter.image.version
        await cluster.caught_up(observer)
        await observer.close()
        assert snapshot_ids(disk, FOLDER)[-1].end_offset > 20

    run(cluster, work)


def test_what_a_snapshot_says_of_the_quorum_is_repeated_in_its_own(world, disk, tmp_path):
    folder = str(shutil.copytree(KAFKA / "dynamic", tmp_path / "voter"))
    cluster = ObservedCluster(
        world, Disk(), folder, snapshot_after_bytes=1_000, retention=NOTHING_OLDER
    )

    def control(files, path):
        newest = snapshot_ids(files, path)[-1]
        return read_snapshot(files, f"{path}/{newest.name}").control

    async def work():
        await with_snapshot(cluster)
        observer = await following(cluster, disk, voters=(), snapshot_after_bytes=500)
        assert cluster.source.pieces
        assert observer.kraft_version == cluster.voter.kraft_version == 1
        fetched = control(disk, FOLDER)
        await fill(cluster, 10, first=200)
        await cluster.caught_up(observer)
        await observer.close()
        assert len(snapshot_ids(disk, FOLDER)) > 1
        assert control(disk, FOLDER) == fetched
        assert len(fetched) == 2

    run(cluster, work)


def test_a_snapshot_of_its_own_that_is_late_does_not_replace_a_newer_one(snapshotting, disk):
    cluster = snapshotting

    async def work():
        slow_disk, is_finishing = asyncio.Event(), asyncio.Event()

        async def slowly(call):
            if getattr(call, "__name__", None) == "finish":
                is_finishing.set()
                await slow_disk.wait()
            call()

        observer = await following(cluster, disk, snapshot_after_bytes=300)
        observer._log._snapshotting._blocking = slowly
        await fill(cluster, 6)
        await is_finishing.wait()
        handlers, cluster.handlers = cluster.handlers, None
        await with_snapshot(cluster)
        cluster.handlers = handlers
        await cluster.caught_up(observer)
        newer = observer._log.newest_snapshot
        assert newer.end_offset > 30
        slow_disk.set()
        await observer._log._snapshotting.finish()
        assert observer._log.newest_snapshot >= newer
        assert min(snapshot_ids(disk, FOLDER)) == newer
        await observer.close()
        await catch_up(cluster, disk)

    run(cluster, work)
