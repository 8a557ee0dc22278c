"""The store of a broker that does not vote: it follows, catches up, cuts, begins again, refuses."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from kits.embedded_store import commit, created, on_disk, put
from kits.metadata_samples import every_change, topic_id
from kits.observed_cluster import VOTER, ObservedCluster
from moldau.base.errors import ConfigError, StorageError
from moldau.base.files import read_whole
from moldau.cluster.changes import FeatureLevelSet, TopicCreated, TopicRemoved
from moldau.cluster.image import MetadataImage
from moldau.cluster.journal import Journal
from moldau.cluster.record_codec import TransactionMark, encode_change, encode_mark
from moldau.cluster.snapshots import snapshot_ids
from moldau.cluster.store import StoreFailed
from moldau.records.batch import parse_header
from moldau.records.builder import BatchBuilder
from moldau.sim.disk import SimDisk
from moldau.sim.disk_faults import Operation
from moldau.sim.world import World
from moldau.storage.checkpoints import read_meta_properties

FOLDER = "/data/__cluster_metadata-0"
LOG = f"{FOLDER}/{0:020d}.log"
VOTERS_LOG = f"/voter/__cluster_metadata-0/{0:020d}.log"


@pytest.fixture
def world():
    with World(9) as made:
        yield made


@pytest.fixture
def disk(world):
    return SimDisk(world.random("observer's disk"))


@pytest.fixture
def cluster(world):
    return ObservedCluster(world, SimDisk(world.random("voter's disk")))


def run(cluster, work):
    """Let a voter run while `work` does something."""

    async def running():
        await cluster.start_voter()
        result = await work()
        if cluster.feed is not None:
            await cluster.stop_voter()
        return result

    return cluster.world.run(running())


async def fill(cluster, count, first=0):
    voter = cluster.voter
    for number in range(first, first + count):
        await commit(voter, voter.image.version, [created(number)])


async def following(cluster, disk, **settings):
    """Return an observer that has caught up."""
    observer = cluster.new_observer(disk, **settings)
    await observer.start()
    await observer.caught_up()
    return observer


# Following


def test_it_has_everything_that_was_committed_once_it_has_caught_up(cluster, disk):
    async def work():
        await fill(cluster, 5)
        observer = await following(cluster, disk)
        assert observer.image == cluster.voter.image
        await observer.close()

    run(cluster, work)


def test_every_kind_of_change_arrives(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        for change in every_change():
            await commit(cluster.voter, cluster.voter.image.version, [change])
        await cluster.caught_up(observer)
        assert observer.image == cluster.voter.image
        await observer.close()

    run(cluster, work)


def test_its_folder_is_a_copy_of_the_voters(cluster, disk):
    async def work():
        await fill(cluster, 3)
        observer = await following(cluster, disk)
        await fill(cluster, 3, first=10)
        await cluster.caught_up(observer)
        await observer.close()

    run(cluster, work)
    assert read_whole(disk, LOG) == read_whole(cluster.disk, VOTERS_LOG)
    for name in ("leader-epoch-checkpoint", "partition.metadata", "quorum-state"):
        ours = read_whole(disk, f"{FOLDER}/{name}")
        assert ours == read_whole(cluster.disk, f"/voter/__cluster_metadata-0/{name}")


def test_quorum_state_names_the_leader_its_epoch_and_the_voters_of_the_settings(cluster, disk):
    async def work():
        observer = await following(cluster, disk, voters=(3, 1, 2))
        assert (observer.leader_id, observer.leader_epoch) == (VOTER, 1)
        await observer.close()

    run(cluster, work)
    state = json.loads(read_whole(disk, f"{FOLDER}/quorum-state"))
    assert state == {
        "clusterId": "",
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}],
        "data_version": 0,
    }


def test_the_journal_is_not_synced_for_what_it_is_given(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        disk.faults.fail(Operation.SYNC, FOLDER)
        await fill(cluster, 5)
        await cluster.caught_up(observer)
        await observer.close()

    run(cluster, work)


def test_listeners_hear_what_the_voters_listeners_hear(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        heard, committed = [], []

        def listen(changes, image):
            assert image is observer.image
            heard.append((changes, image))

        observer.subscribe(listen)
        cluster.voter.subscribe(lambda changes, image: committed.append((changes, image)))
        for number in range(6):
            pair = [created(2 * number), created(2 * number + 1)]
            await commit(cluster.voter, cluster.voter.image.version, pair)
            await cluster.caught_up(observer)
        assert heard == committed
        await observer.close()

    run(cluster, work)


def test_commits_that_arrive_together_are_told_together(cluster, disk):
    async def work():
        await fill(cluster, 20)
        observer = cluster.new_observer(disk)
        heard = []
        observer.subscribe(lambda changes, image: heard.append((changes, image.version)))
        await observer.start()
        await observer.caught_up()
        assert len(heard) == 1
        assert heard[0][1] == cluster.voter.image.version
        assert list(heard[0][0])[-20:] == [created(number) for number in range(20)]
        await observer.close()

    run(cluster, work)


def test_a_listener_that_fails_stops_neither_the_others_nor_the_following(cluster, disk, caplog):
    def fail(changes, image):
        raise ZeroDivisionError

    async def work():
        observer = await following(cluster, disk)
        heard = []
        observer.subscribe(fail)
        observer.subscribe(lambda changes, image: heard.extend(changes))
        await fill(cluster, 2)
        await cluster.caught_up(observer)
        assert heard == [created(0), created(1)]
        await observer.close()

    run(cluster, work)
    assert "a listener of the metadata failed" in caplog.text


def test_a_commit_of_several_batches_becomes_visible_as_a_whole(cluster, disk, monkeypatch):
    monkeypatch.setattr("moldau.cluster.commit_batches.BATCH_BYTES_MAX", 200)

    async def work():
        observer = await following(cluster, disk, fetch_bytes=1)
        seen = set()
        observer.subscribe(lambda changes, image: seen.add(len(image.topics)))
        await commit(cluster.voter, cluster.voter.image.version, [created(i) for i in range(30)])
        await cluster.caught_up(observer)
        assert len(cluster.source.fetches) > 5
        assert seen == {30}
        assert observer.image == cluster.voter.image
        await observer.close()

    run(cluster, work)


def test_a_restart_within_a_transaction_goes_on_with_it(cluster, disk, monkeypatch):
    monkeypatch.setattr("moldau.cluster.commit_batches.BATCH_BYTES_MAX", 200)

    async def work():
        observer = await following(cluster, disk)
        await observer.close()
        before = cluster.voter.image.version
        await commit(cluster.voter, before, [created(i) for i in range(30)])
        # Its own log has the beginning of the transaction alone, and all of it is committed.
        voters = cluster.voter._journal.region(before, before + 1, 1)
        journal = Journal(disk, FOLDER, is_copy=True)
        assert [batch.header.next_offset for batch in journal.load(0)][-1] == before
        journal.resume(0)
        data = voters.file.read(voters.position, voters.size)
        journal.append_copies(data, [parse_header(data)])
        journal.close()
        again = await following(cluster, disk, fetch_bytes=1)
        assert again.image == cluster.voter.image
        await again.close()

    run(cluster, work)


def test_an_aborted_transaction_changes_nothing_but_the_version(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        heard = []
        observer.subscribe(lambda changes, image: heard.append(changes))
        voter, before = cluster.voter, observer.image
        values = [
            encode_mark(TransactionMark.BEGIN, "x"),
            encode_change(created(1), 30),
            encode_mark(TransactionMark.ABORT),
        ]
        await write_raw(voter, values)
        while observer.image.version < before.version + 3:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert observer.image.topics == before.topics
        assert heard == []
        await observer.close()

    run(cluster, work)


async def write_raw(voter, values):
    """Commit records that the voter itself would not write."""
    journal = voter._journal
    builder = BatchBuilder(base_offset=journal.next_offset, leader_epoch=voter.leader_epoch)
    for value in values:
        builder.append(1_000, None, value)
    journal.append(builder.build(), journal.next_offset + builder.count)
    voter.log.commit(journal.next_offset)


def test_it_never_becomes_the_controller(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        assert await observer.claim() is None
        await observer.close()

    run(cluster, work)


# Starting again


def test_it_goes_on_where_it_was(cluster, disk):
    async def work():
        await fill(cluster, 5)
        first = await following(cluster, disk)
        await first.close()
        end = cluster.voter.image.version
        await fill(cluster, 2, first=10)
        cluster.source.fetches.clear()
        again = await following(cluster, disk)
        assert cluster.source.fetches[0].topics[0].partitions[0].fetch_offset == end
        assert again.image == cluster.voter.image
        await again.close()

    run(cluster, work)


def test_its_image_waits_for_the_leader_to_say_what_is_committed(cluster, disk):
    async def work():
        await fill(cluster, 3)
        await (await following(cluster, disk)).close()
        feed, cluster.feed = cluster.feed, None
        again = cluster.new_observer(disk)
        await again.start()
        await asyncio.sleep(5)
        assert not again.image.topics
        cluster.feed = feed
        await again.caught_up()
        assert again.image == cluster.voter.image
        await again.close()

    run(cluster, work)


def test_a_voter_that_starts_again_is_followed_in_its_new_epoch(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        for number in range(3):
            await cluster.stop_voter()
            await asyncio.sleep(3)
            await cluster.start_voter()
            await fill(cluster, 1, first=number)
            await cluster.caught_up(observer)
            assert observer.image == cluster.voter.image
            assert observer.leader_epoch == cluster.voter.leader_epoch == number + 2
            state = json.loads(read_whole(disk, f"{FOLDER}/quorum-state"))
            assert state["leaderEpoch"] == number + 2
        await observer.close()

    run(cluster, work)


def test_it_asks_again_with_growing_pauses_and_says_so_once(cluster, disk, caplog):
    async def work():
        observer = await following(cluster, disk)
        feed, cluster.feed = cluster.feed, None
        feed.close()
        cluster.source.fetches.clear()
        await asyncio.sleep(60)
        assert 50 <= len(cluster.source.fetches) <= 90
        cluster.feed = feed
        await fill(cluster, 1)
        await cluster.caught_up(observer)
        await observer.close()

    with caplog.at_level(logging.WARNING):
        run(cluster, work)
    assert caplog.text.count("metadata cannot be fetched") == 1


def test_closing_ends_a_parked_fetch_a_pause_and_whoever_waits(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        await asyncio.sleep(0.1)
        before = cluster.world.clock.monotonic()
        await observer.close()
        await observer.close()
        cluster.feed, feed = None, cluster.feed
        again = cluster.new_observer(disk)
        await again.start()
        waiting = asyncio.ensure_future(again.caught_up())
        await asyncio.sleep(0.1)
        await again.close()
        with pytest.raises(StoreFailed, match="closed"):
            await waiting
        assert cluster.world.clock.monotonic() - before < 0.2
        cluster.feed = feed

    run(cluster, work)


def test_a_store_that_was_not_started_can_be_closed(cluster, disk):
    async def work():
        observer = cluster.new_observer(disk)
        with pytest.raises(StoreFailed, match="not been started"):
            observer.identity  # noqa: B018
        await observer.close()

    run(cluster, work)


# Whose folder it is


def test_a_fresh_folder_without_a_cluster_id_is_refused_and_stays_fresh(cluster, disk):
    async def work():
        observer = cluster.new_observer(disk, cluster_id=None)
        with pytest.raises(ConfigError, match="belongs to no cluster yet: format it"):
            await observer.start()
        assert not disk.exists("/data")

    run(cluster, work)


def test_a_fresh_folder_is_formatted_for_the_cluster_of_the_settings(cluster, disk):
    async def work():
        await (await following(cluster, disk)).close()
        again = await following(cluster, disk, cluster_id=None)
        assert again.identity.cluster_id == cluster.voter.identity.cluster_id
        await again.close()

    run(cluster, work)
    assert disk.names("/data") == ["__cluster_metadata-0", "meta.properties"]
    assert read_meta_properties(disk, "/data").node_id == 2


def test_a_folder_of_another_cluster_is_refused_before_anything_is_touched(cluster, disk):
    async def work():
        await (await following(cluster, disk)).close()
        before = on_disk(disk)
        observer = cluster.new_observer(disk, cluster_id="another")
        with pytest.raises(ConfigError, match=r"belongs to cluster\.id"):
            await observer.start()
        assert on_disk(disk) == before

    run(cluster, work)


def test_a_voter_of_another_cluster_is_refused_with_one_line(cluster, disk, caplog):
    async def work():
        observer = cluster.new_observer(disk, cluster_id="another")
        failed = []
        observer.on_failed(failed.append)
        await observer.start()
        with pytest.raises(ConfigError, match="the controller to another cluster"):
            await observer.caught_up()
        assert len(failed) == 1
        assert not observer.image.topics
        await observer.close()

    run(cluster, work)
    assert "followed no more" not in caplog.text  # who was told says it


# A log that has left the leader's


async def diverged(cluster, disk, count=2):
    """Give an observer's log an end that the voter does not have, of the voter's last epoch."""
    await fill(cluster, 3)
    await (await following(cluster, disk)).close()
    epoch = cluster.voter.leader_epoch
    journal = Journal(disk, FOLDER, is_copy=True)
    for _ in journal.load(0):
        pass
    journal.resume(0)
    for number in range(count):
        builder = BatchBuilder(base_offset=journal.next_offset, leader_epoch=epoch)
        builder.append(1_000, None, encode_change(created(900 + number), 30))
        data = builder.build()
        journal.append_copies(data, [parse_header(data)])
    journal.close()


def test_an_end_that_the_leader_does_not_have_is_cut_and_never_applied(cluster, disk):
    async def work():
        await diverged(cluster, disk)
        await cluster.stop_voter()
        await cluster.start_voter()
        await fill(cluster, 2, first=20)
        observer = cluster.new_observer(disk)
        seen = []
        observer.subscribe(lambda changes, image: seen.extend(changes))
        await observer.start()
        await observer.caught_up()
        assert observer.image == cluster.voter.image
        assert not {created(900), created(901)} & set(seen)
        await observer.close()

    run(cluster, work)
    assert read_whole(disk, LOG) == read_whole(cluster.disk, VOTERS_LOG)


def test_an_end_of_the_present_epoch_beyond_the_leaders_is_cut(cluster, disk):
    async def work():
        await diverged(cluster, disk)
        observer = await following(cluster, disk)
        assert observer.image == cluster.voter.image
        await observer.close()

    run(cluster, work)
    assert read_whole(disk, LOG) == read_whole(cluster.disk, VOTERS_LOG)


def test_a_leader_without_what_was_committed_is_refused(cluster, disk, caplog):
    async def work():
        observer = await following(cluster, disk)
        await fill(cluster, 3)
        await cluster.caught_up(observer)
        image = observer.image
        # The voter comes back from an old copy of its disk, in a newer epoch.
        await cluster.stop_voter()
        log = read_whole(cluster.disk, VOTERS_LOG)
        put(cluster.disk, VOTERS_LOG, log[: len(log) * 2 // 3])
        await cluster.start_voter()
        with pytest.raises(StoreFailed, match="has committed metadata up to offset"):
            await failure_of(observer)
        assert observer.image is image
        await observer.close()

    run(cluster, work)
    assert "followed no more" not in caplog.text  # who was told says it


async def failure_of(observer):
    failed = asyncio.get_running_loop().create_future()
    observer.on_failed(failed.set_result)
    raise await failed


def test_two_leaders_in_one_epoch_are_refused(cluster, disk):
    class Impostor:
        """Says that another node leads."""

        async def close(self):
            pass

        async def fetch(self, request):
            answer = await cluster.source.fetch(request)
            if cluster.voter.image.topics:
                answer.responses[0].partitions[0].current_leader.leader_id = 5
            return answer

    async def work():
        observer = await following(cluster, disk, source=Impostor())
        await fill(cluster, 1)
        with pytest.raises(StoreFailed, match="nodes 1 and 5 both lead"):
            await failure_of(observer)
        await observer.close()

    run(cluster, work)


# Snapshots


async def with_snapshot(cluster, count=30):
    await fill(cluster, count, first=100)
    await cluster.voter._snapshotting.finish()
    assert cluster.voter.log.newest_snapshot is not None


@pytest.fixture
def snapshotting(world):
    """A voter that writes a snapshot after a few commits."""
    return ObservedCluster(world, SimDisk(world.random("disk")), snapshot_after_bytes=1_000)


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
        again = await following(cluster, disk)
        assert again.image == cluster.voter.image
        await again.close()

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
        observer = await following(cluster, disk, snapshot_after_bytes=1_000)
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


def test_no_snapshot_is_made_within_a_transaction(cluster, disk, monkeypatch):
    monkeypatch.setattr("moldau.cluster.commit_batches.BATCH_BYTES_MAX", 200)

    async def work():
        observer = await following(cluster, disk, snapshot_after_bytes=300, fetch_bytes=1)
        await commit(cluster.voter, cluster.voter.image.version, [created(i) for i in range(30)])
        end = cluster.voter.image.version
        await cluster.caught_up(observer)
        await observer.close()
        assert snapshot_ids(disk, FOLDER)[-1].end_offset == end
        again = await following(cluster, disk)
        assert again.image == cluster.voter.image
        await again.close()

    run(cluster, work)


class Spoiling:
    """Spoils the answers of a source for a while."""

    def __init__(self, source, spoil_fetch=None, spoil_piece=None, times=3):
        self._source = source
        self._spoil = {"fetch": spoil_fetch, "piece": spoil_piece}
        self.left = times

    async def fetch(self, request):
        return self._spoiled("fetch", await self._source.fetch(request))

    async def close(self):
        pass

    async def fetch_snapshot(self, request):
        return self._spoiled("piece", await self._source.fetch_snapshot(request))

    def _spoiled(self, kind, answer):
        spoil = self._spoil[kind]
        if spoil is not None and self.left and spoil(answer) is not False:
            self.left -= 1
        return answer


def spoil_snapshot_bytes(answer):
    piece = answer.topics[0].partitions[0]
    data = bytearray(piece.unaligned_records)
    data[len(data) // 2] ^= 1
    piece.unaligned_records = bytes(data)


def on_piece(**values):
    def spoil(answer):
        for name, value in values.items():
            setattr(answer.topics[0].partitions[0], name, value)

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_snapshot_bytes,
        on_piece(unaligned_records=b""),
        on_piece(position=7),
        on_piece(size=20),
        on_piece(error_code=98),
        on_piece(error_code=12345),
        lambda answer: setattr(answer, "topics", []),
        lambda answer: setattr(answer, "error_code", 8),
        lambda answer: setattr(answer.topics[0].partitions[0].snapshot_id, "epoch", 9),
    ],
)
def test_a_snapshot_that_arrives_spoiled_is_fetched_again(snapshotting, disk, spoil):
    cluster = snapshotting

    async def work():
        await with_snapshot(cluster)
        source = Spoiling(cluster.source, spoil_piece=spoil)
        observer = await following(cluster, disk, source=source)
        assert source.left == 0
        assert observer.image == cluster.voter.image
        assert not [name for name in disk.names(FOLDER) if name.endswith(".part")]
        await observer.close()

    run(cluster, work)


def spoil_batch(answer):
    partition = answer.responses[0].partitions[0]
    if not partition.records:
        return False
    data = bytearray(partition.records)
    data[len(data) // 2] ^= 1
    partition.records = bytes(data)
    return True


def cut_batch(answer):
    partition = answer.responses[0].partitions[0]
    partition.records = bytes(partition.records or b"")[:-5]
    return bool(partition.records)


def on_partition(**values):
    def spoil(answer):
        for name, value in values.items():
            setattr(answer.responses[0].partitions[0], name, value)

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_batch,
        cut_batch,
        on_partition(records=None),
        on_partition(records=b"no batch at all, but some bytes that are long enough for one" * 3),
        on_partition(error_code=6),
        lambda answer: setattr(answer, "responses", []),
        lambda answer: setattr(answer, "error_code", 42),
        lambda answer: setattr(answer.responses[0].partitions[0].current_leader, "leader_id", -1),
    ],
)
def test_an_answer_that_makes_no_sense_changes_nothing(cluster, disk, spoil):
    async def work():
        await fill(cluster, 5)
        source = Spoiling(cluster.source, spoil_fetch=spoil)
        observer = await following(cluster, disk, source=source)
        assert source.left == 0
        assert observer.image == cluster.voter.image
        await observer.close()

    run(cluster, work)
    assert read_whole(disk, LOG) == read_whole(cluster.disk, VOTERS_LOG)


def test_a_batch_of_a_later_epoch_than_the_one_fetched_under_is_refused(cluster, disk):
    def newer_epoch(answer):
        partition = answer.responses[0].partitions[0]
        if not partition.records:
            return False
        data = bytearray(partition.records)
        data[12:16] = (9).to_bytes(4, "big")
        partition.records = bytes(data)
        return True

    async def work():
        source = Spoiling(cluster.source, spoil_fetch=newer_epoch)
        observer = await following(cluster, disk, source=source)
        assert source.left == 0
        assert observer.leader_epoch == 1
        await observer.close()

    run(cluster, work)
    assert read_whole(disk, LOG) == read_whole(cluster.disk, VOTERS_LOG)


def test_a_record_that_makes_no_sense_ends_the_following(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        await fill(cluster, 1)
        await cluster.caught_up(observer)
        image = observer.image
        await write_raw(cluster.voter, [b"\x07\x07\x07"])
        with pytest.raises(StorageError, match=r"does not add up: .* frame version"):
            await failure_of(observer)
        assert observer.image is image
        await observer.close()

    run(cluster, work)


# The disk


def test_a_full_disk_is_waited_for(cluster, disk, caplog):
    async def work():
        observer = await following(cluster, disk)
        disk.faults.fill_up(20)
        await fill(cluster, 5)
        await asyncio.sleep(10)
        assert observer.image != cluster.voter.image
        disk.faults.heal()
        await cluster.caught_up(observer)
        assert observer.image == cluster.voter.image
        await observer.close()

    run(cluster, work)
    assert caplog.text.count("cannot be appended") == 1


def test_a_disk_that_breaks_within_a_cut_ends_the_following(cluster, disk):
    async def work():
        await diverged(cluster, disk)
        observer = cluster.new_observer(disk)
        await observer.start()
        disk.faults.fail(Operation.TRUNCATE, FOLDER)
        with pytest.raises(StoreFailed):
            await observer.caught_up()
        await observer.close()

    run(cluster, work)


def test_damage_to_its_own_copy_is_fetched_again(cluster, disk):
    async def work():
        await fill(cluster, 20)
        await (await following(cluster, disk)).close()
        disk.flip_bit(LOG, disk.size(LOG) // 2)
        observer = await following(cluster, disk)
        assert observer.image == cluster.voter.image
        await observer.close()

    run(cluster, work)
    assert read_whole(disk, LOG) == read_whole(cluster.disk, VOTERS_LOG)


def test_a_folder_that_cannot_be_read_is_an_error_of_its_own(cluster, disk):
    async def work():
        await (await following(cluster, disk)).close()
        disk.faults.fail(Operation.READ, FOLDER)
        with pytest.raises(StorageError, match="cannot be opened"):
            await cluster.new_observer(disk).start()

    run(cluster, work)


# Many changes


def test_many_changes_leave_turns_to_others(cluster, disk):
    async def work():
        many = [FeatureLevelSet(f"feature-{number}", 1) for number in range(5_000)]
        await commit(cluster.voter, cluster.voter.image.version, many)
        observer = cluster.new_observer(disk)
        turns = 0
        await observer.start()
        while "feature-4999" not in observer.image.features:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 2 * 5_000 / 200
        await observer.close()

    run(cluster, work)
