"""Observers begin with the leader's snapshots, and write their own."""

from __future__ import annotations

import asyncio

import pytest

from kits.embedded_store import NOTHING_OLDER, commit, created
from kits.metadata_samples import topic_id
from kits.observer_kit import FOLDER, catch_up, fill, following, run, with_snapshot
from kits.spoiled_answers import (
    Spoiling,
    flip_bit_in_the_middle,
    snapshot_piece,
    spoil_bytes,
    spoil_values,
)
from moldau.base.files import read_whole
from moldau.cluster.changes import TopicCreated, TopicRemoved
from moldau.cluster.image import MetadataImage
from moldau.cluster.snapshots import snapshot_ids


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
        newest = cluster.voter.log.newest_snapshot
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
        feed, cluster.feed = cluster.feed, None
        feed.close()
        await commit(voter, voter.image.version, [TopicRemoved(topic_id(1))])
        await commit(voter, voter.image.version, [TopicCreated("topic-1", topic_id(77))])
        await with_snapshot(cluster)
        assert voter.log.start_offset > before.version
        heard = []
        observer.subscribe(lambda changes, image: heard.append((changes, image)))
        cluster.feed = feed
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
        assert cluster.voter.log.newest_snapshot is None
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
