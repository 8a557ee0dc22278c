"""What the voter answers to the nodes that copy its log, with Kafka's errors in Kafka's order."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from kits.embedded_store import NOTHING_OLDER, commit, created
from kits.observed_cluster import ObservedCluster
from moldau.base.files import FileRegion
from moldau.cluster import metadata_feed
from moldau.cluster.journal import METADATA_TOPIC, METADATA_TOPIC_ID
from moldau.cluster.metadata_requests import (
    FetchState,
    fetch_request,
    fetch_snapshot_request,
)
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import FetchPartition, FetchTopic
from moldau.protocol.messages.raft import FetchSnapshotTopic
from moldau.records.batch import iter_batches
from moldau.sim.disk import SimDisk

DIRECTORY = b"a directory's id"


def run(world, work, **settings):
    """Let a voter with a feed run, and `work` use it."""

    async def running():
        cluster = ObservedCluster(world, SimDisk(world.random("disk")), **settings)
        await cluster.start_voter()
        result = await work(cluster)
        if cluster.feed is not None:
            await cluster.stop_voter()
        return result

    return world.run(running())


async def fill(cluster, count, first=0):
    voter = cluster.voter
    for number in range(first, first + count):
        await commit(voter, voter.image.version, [created(number)])


def request(cluster, offset, *, epoch=None, last_epoch=None, wait_ms=0, max_bytes=1 << 20, **other):
    voter = cluster.voter
    state = FetchState(
        other.pop("cluster_id", voter.identity.cluster_id),
        other.pop("node_id", 2),
        DIRECTORY,
        voter.leader_epoch if epoch is None else epoch,
        offset,
        voter.leader_epoch if last_epoch is None else last_epoch,
        0,
        other.pop("high_watermark", 2**63 - 1),
    )
    made = fetch_request(state, max_bytes)
    made.max_wait_ms = wait_ms
    return made


def answered(cluster, *args, **kwargs):
    response = cluster.feed.fetch(request(cluster, *args, **kwargs))
    assert not isinstance(response, asyncio.Future)
    assert response.error_code == ErrorCode.NONE
    [topic] = response.responses
    assert (topic.topic, topic.topic_id) == (METADATA_TOPIC, METADATA_TOPIC_ID)
    [partition] = topic.partitions
    return partition


def offsets(partition):
    if not partition.records:
        return []
    [region] = partition.records
    assert isinstance(region, FileRegion)
    data = region.file.read(region.position, region.size)
    return [span.base_offset for span in iter_batches(data)]


def test_the_log_is_given_from_an_offset_up_to_the_high_watermark(world):
    async def work(cluster):
        await fill(cluster, 3)
        end = cluster.voter.image.version
        partition = answered(cluster, end - 2)
        assert offsets(partition) == [end - 2, end - 1]
        assert (partition.high_watermark, partition.log_start_offset) == (end, 0)
        leader = partition.current_leader
        assert (leader.leader_id, leader.leader_epoch) == (1, cluster.voter.leader_epoch)
        assert offsets(answered(cluster, 0))[0] == 0
        assert offsets(answered(cluster, end - 2, max_bytes=1)) == [end - 2]
        assert offsets(answered(cluster, end)) == []

    run(world, work)


def test_nothing_is_given_before_it_is_durable(world):
    async def work(cluster):
        await fill(cluster, 1)
        voter, end = cluster.voter, cluster.voter.image.version
        seen = []
        journal = voter._journal
        sync = journal.sync

        def watched_sync():
            assert journal.next_offset > end
            seen.append(offsets(answered(cluster, end)))
            sync()

        journal.sync = watched_sync
        await fill(cluster, 1, first=5)
        assert seen == [[]]
        assert offsets(answered(cluster, end)) == [end]

    run(world, work)


def test_a_transaction_is_given_once_its_commit_is_complete(world, monkeypatch):
    monkeypatch.setattr("moldau.cluster.commit_batches.BATCH_BYTES_MAX", 200)

    async def work(cluster):
        voter, end = cluster.voter, cluster.voter.image.version
        seen = set()
        sync = voter._journal.sync

        def watched_sync():
            seen.add(tuple(offsets(answered(cluster, end))))
            sync()

        voter._journal.sync = watched_sync
        await commit(voter, end, [created(number) for number in range(20)])
        assert seen == {()}
        assert len(offsets(answered(cluster, end))) > 2

    run(world, work)


@pytest.mark.parametrize("version", ["name", "id"])
def test_the_topic_is_known_by_its_name_and_its_id(world, version):
    async def work(cluster):
        asked = request(cluster, 0)
        if version == "name":
            asked.topics[0].topic_id = bytes(16)
        else:
            asked.topics[0].topic = ""
        response = cluster.feed.fetch(asked)
        assert offsets(response.responses[0].partitions[0])[0] == 0
        assert response.responses[0].topic_id == asked.topics[0].topic_id

    run(world, work)


def test_another_cluster_is_refused_as_a_whole_and_no_cluster_is_not(world):
    async def work(cluster):
        refused = cluster.feed.fetch(request(cluster, 0, cluster_id="another"))
        assert refused.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert not refused.responses
        assert offsets(answered(cluster, 0, cluster_id=None))

    run(world, work)


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [FetchTopic("orders", bytes(16), [FetchPartition(0)])],
        [FetchTopic(METADATA_TOPIC, METADATA_TOPIC_ID, [FetchPartition(1)])],
        [FetchTopic(METADATA_TOPIC, METADATA_TOPIC_ID, [])],
        [FetchTopic(METADATA_TOPIC, METADATA_TOPIC_ID, [FetchPartition(0), FetchPartition(0)])],
        [FetchTopic(METADATA_TOPIC, METADATA_TOPIC_ID, [FetchPartition(0)])] * 2,
    ],
)
def test_anything_but_the_metadata_log_is_an_invalid_request(world, topics):
    async def work(cluster):
        asked = request(cluster, 0)
        asked.topics = topics
        assert cluster.feed.fetch(asked).error_code == ErrorCode.INVALID_REQUEST

    run(world, work)


@pytest.mark.parametrize(
    "wrong", [{"epoch": -1}, {"last_epoch": -1}, {"wait_ms": -1}, {"offset": -1}]
)
def test_numbers_below_zero_are_an_invalid_request(world, wrong):
    async def work(cluster):
        partition = answered(cluster, **{"offset": 0, **wrong})
        assert partition.error_code == ErrorCode.INVALID_REQUEST

    run(world, work)


def test_another_epoch_is_fenced_or_unknown_and_the_leader_is_named(world):
    async def work(cluster):
        epoch = cluster.voter.leader_epoch
        for asked, error in [
            (epoch - 1, ErrorCode.FENCED_LEADER_EPOCH),
            (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ]:
            partition = answered(cluster, 0, epoch=asked, wait_ms=1_000)
            assert partition.error_code == error
            assert partition.current_leader.leader_epoch == epoch
            assert not partition.records

    run(world, work)


def test_a_log_that_left_ours_is_told_where(world):
    async def work(cluster):
        await fill(cluster, 2)
        first_end = cluster.voter.image.version
        await cluster.stop_voter()
        voter = await cluster.start_voter()
        await fill(cluster, 1, first=7)
        end = voter.image.version
        assert voter.leader_epoch == 2

        def parting(offset, last_epoch):
            partition = answered(cluster, offset, last_epoch=last_epoch, wait_ms=1_000)
            diverging = partition.diverging_epoch
            assert not partition.records
            return diverging.epoch, diverging.end_offset

        assert parting(first_end + 1, 1) == (1, first_end)
        assert parting(end + 3, 2) == (2, end)
        assert parting(5, 9) == (2, end)
        assert offsets(answered(cluster, first_end, last_epoch=1))[0] == first_end
        assert answered(cluster, 3, last_epoch=1).diverging_epoch.epoch == -1

    run(world, work)


def snapshotting(work):
    """Run with a voter that writes snapshots early, and keeps only the newest of them."""

    async def with_snapshot(cluster):
        for first in (200, 0):
            await fill(cluster, 12, first)
            await cluster.voter._snapshotting.finish()
        assert cluster.voter.log.newest_snapshot is not None
        await work(cluster)

    return with_snapshot


def test_an_offset_before_the_log_gets_the_snapshot(world):
    @snapshotting
    async def work(cluster):
        log = cluster.voter.log
        newest = log.newest_snapshot
        assert log.start_offset == newest.end_offset
        for offset in (0, 1, newest.end_offset - 1):
            partition = answered(cluster, offset, wait_ms=1_000)
            assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == newest
            assert not partition.records
            assert partition.high_watermark == cluster.voter.image.version
        assert answered(cluster, newest.end_offset).snapshot_id.end_offset == -1

    run(world, work, snapshot_after_bytes=700, retention=NOTHING_OLDER)


def test_a_log_whose_last_epoch_is_older_than_the_snapshot_begins_again(world):
    @snapshotting
    async def work(cluster):
        end, newest = cluster.voter.image.version, cluster.voter.log.newest_snapshot
        for offset in (newest.end_offset, end):
            partition = answered(cluster, offset, last_epoch=newest.epoch - 1)
            assert partition.snapshot_id.end_offset == newest.end_offset

    run(world, work, snapshot_after_bytes=700, retention=NOTHING_OLDER)


def test_a_fetch_that_has_everything_waits_for_the_next_commit(world):
    async def work(cluster):
        end = cluster.voter.image.version
        waiting = cluster.feed.fetch(request(cluster, end, wait_ms=60_000))
        assert cluster.feed.parked_count == 1
        await fill(cluster, 1)
        assert waiting.done()
        response = waiting.result()
        assert offsets(response.responses[0].partitions[0]) == [end]
        assert cluster.feed.parked_count == 0

    run(world, work)


def test_a_parked_fetch_is_answered_when_its_time_is_over(world):
    async def work(cluster):
        end, before = cluster.voter.image.version, world.clock.monotonic()
        response = await cluster.feed.fetch(request(cluster, end, wait_ms=500))
        assert world.clock.monotonic() - before == pytest.approx(0.5, abs=0.05)
        partition = response.responses[0].partitions[0]
        assert (partition.error_code, partition.high_watermark) == (0, end)
        assert offsets(partition) == []
        assert cluster.feed.parked_count == 0

    run(world, work)


def test_an_old_high_watermark_is_told_the_new_one_at_once(world):
    async def work(cluster):
        end = cluster.voter.image.version
        partition = answered(cluster, end, wait_ms=500, high_watermark=end - 1)
        assert partition.high_watermark == end
        parked = cluster.feed.fetch(request(cluster, end, wait_ms=500, high_watermark=end))
        assert isinstance(parked, asyncio.Future)

    run(world, work)


def test_a_parked_fetch_ends_with_its_connection(world):
    async def work(cluster):
        end = cluster.voter.image.version
        waiting = cluster.feed.fetch(request(cluster, end, wait_ms=60_000))
        waiting.cancel()
        await asyncio.sleep(0)
        assert cluster.feed.parked_count == 0
        await fill(cluster, 1)

    run(world, work)


def test_parked_fetches_are_bounded_and_the_oldest_goes_first(world, monkeypatch):
    monkeypatch.setattr(metadata_feed, "PARKED_MAX", 3)

    async def work(cluster):
        end = cluster.voter.image.version
        asked = [cluster.feed.fetch(request(cluster, end, wait_ms=60_000)) for _ in range(5)]
        assert [one.done() for one in asked] == [True, True, False, False, False]
        assert cluster.feed.parked_count == 3

    run(world, work)


def test_parked_fetches_are_answered_when_the_voter_stops(world):
    async def work(cluster):
        waiting = cluster.feed.fetch(request(cluster, cluster.voter.image.version, wait_ms=60_000))
        feed, asked = cluster.feed, request(cluster, 0)
        await cluster.stop_voter()
        stopped = [waiting.result(), feed.fetch(asked)]
        for response in stopped:
            error = response.responses[0].partitions[0].error_code
            assert error == ErrorCode.BROKER_NOT_AVAILABLE
        feed.close()

    run(world, work)


def test_observers_are_remembered_with_what_they_have_and_when(world):
    async def work(cluster):
        await fill(cluster, 2)
        feed, clock = cluster.feed, world.clock
        end, first_ms = cluster.voter.image.version, clock.wall_ms()
        answered(cluster, end - 1, node_id=7)
        [state] = feed.observers()
        assert (state.node_id, state.directory_id, state.end_offset) == (7, DIRECTORY, end - 1)
        assert (state.last_fetch_ms, state.last_caught_up_ms) == (first_ms, -1)
        await asyncio.sleep(1)
        await fill(cluster, 1, first=9)
        # It has what was the end when it fetched last: it was caught up then.
        answered(cluster, end, node_id=7)
        [state] = feed.observers()
        assert state.last_caught_up_ms == first_ms
        assert state.last_fetch_ms > first_ms
        answered(cluster, end + 1, node_id=3)
        assert [state.node_id for state in feed.observers()] == [3, 7]
        assert feed.observers()[0].last_caught_up_ms == clock.wall_ms()
        await asyncio.sleep(299)
        answered(cluster, end + 1, node_id=7)
        await asyncio.sleep(2)
        assert [state.node_id for state in feed.observers()] == [7]

    run(world, work)


def test_consumers_and_logs_that_do_not_fit_are_no_observers(world, monkeypatch):
    monkeypatch.setattr(metadata_feed, "OBSERVERS_MAX", 3)

    async def work(cluster):
        end = cluster.voter.image.version
        answered(cluster, end, node_id=-1)
        answered(cluster, end + 5, node_id=4)
        answered(cluster, 0, epoch=9, node_id=5)
        assert cluster.feed.observers() == []
        for node_id in range(10):
            answered(cluster, end, node_id=node_id)
        assert len(cluster.feed.observers()) == 3

    run(world, work)


# Snapshots


def piece(cluster, snapshot=None, position=0, max_bytes=1 << 20, epoch=None, **other):
    voter = cluster.voter
    asked = fetch_snapshot_request(
        other.pop("cluster_id", voter.identity.cluster_id),
        2,
        DIRECTORY,
        voter.leader_epoch if epoch is None else epoch,
        snapshot or voter.log.newest_snapshot or SnapshotId(4, 1),
        position,
        max_bytes,
    )
    for name, value in other.items():
        setattr(asked, name, value)
    return cluster.feed.fetch_snapshot(asked)


def partition_of(response):
    assert response.error_code == ErrorCode.NONE
    [topic] = response.topics
    [partition] = topic.partitions
    return partition


def test_a_snapshot_is_given_piece_by_piece(world):
    @snapshotting
    async def work(cluster):
        newest = cluster.voter.log.newest_snapshot
        path = f"/voter/__cluster_metadata-0/{newest.name}"
        size, data = cluster.disk.size(path), b""
        while len(data) < size:
            partition = partition_of(piece(cluster, position=len(data), max_bytes=100))
            assert (partition.size, partition.position) == (size, len(data))
            assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == newest
            [region] = partition.unaligned_records
            assert 0 < region.size <= 100
            data += region.file.read(region.position, region.size)
        assert data == cluster.disk.open(path).read(0, size)

    run(world, work, snapshot_after_bytes=700, retention=NOTHING_OLDER)


def test_all_answers_with_pieces_of_a_snapshot_share_one_open_file(world):
    @snapshotting
    async def work(cluster):
        def file_of(position):
            [region] = partition_of(piece(cluster, position=position)).unaligned_records
            return region.file

        assert file_of(0) is file_of(1)
        first = file_of(0)
        old = cluster.voter.log.newest_snapshot
        for first in itertools.count(12, 4):
            if cluster.voter.log.newest_snapshot != old:
                break
            await fill(cluster, 4, first)
            await cluster.voter._snapshotting.finish()
        assert file_of(0) is not first

    run(world, work, snapshot_after_bytes=700, retention=NOTHING_OLDER)


def test_what_is_wrong_with_a_request_for_a_snapshot_is_said_as_kafka_says_it(world):
    @snapshotting
    async def work(cluster):
        newest = cluster.voter.log.newest_snapshot
        size = partition_of(piece(cluster)).size
        epoch = cluster.voter.leader_epoch

        def error(**wrong):
            return partition_of(piece(cluster, **wrong)).error_code

        assert error(epoch=epoch - 1) == ErrorCode.FENCED_LEADER_EPOCH
        assert error(epoch=epoch + 1) == ErrorCode.UNKNOWN_LEADER_EPOCH
        for other in (SnapshotId(0, 0), SnapshotId(newest.end_offset + 1, newest.epoch)):
            assert error(snapshot=other) == ErrorCode.SNAPSHOT_NOT_FOUND
        for position in (-1, size, 2**62):
            assert error(position=position) == ErrorCode.POSITION_OUT_OF_RANGE
        assert error(position=size - 1) == ErrorCode.NONE
        other_cluster = piece(cluster, cluster_id="another")
        assert other_cluster.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert piece(cluster, topics=[]).error_code == ErrorCode.INVALID_REQUEST
        topics = [FetchSnapshotTopic("orders", [partition_request(newest, epoch)])]
        assert error(topics=topics) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(world, work, snapshot_after_bytes=700, retention=NOTHING_OLDER)


def partition_request(snapshot, epoch):
    asked = fetch_snapshot_request("", 2, DIRECTORY, epoch, snapshot, 0, 100)
    return asked.topics[0].partitions[0]


def test_a_snapshot_that_was_replaced_is_not_found(world):
    @snapshotting
    async def work(cluster):
        old = cluster.voter.log.newest_snapshot
        [region] = partition_of(piece(cluster)).unaligned_records
        await fill(cluster, 30, first=100)
        await cluster.voter._snapshotting.finish()
        assert cluster.voter.log.newest_snapshot > old
        error = partition_of(piece(cluster, snapshot=old)).error_code
        assert error == ErrorCode.SNAPSHOT_NOT_FOUND
        assert region.file.read(region.position, region.size)

    run(world, work, snapshot_after_bytes=700, retention=NOTHING_OLDER)


def test_before_the_first_snapshot_there_is_none(world):
    async def work(cluster):
        error = partition_of(piece(cluster)).error_code
        assert error == ErrorCode.SNAPSHOT_NOT_FOUND

    run(world, work)
