"""An observer follows: what the voter commits arrives whole, in order, and is told to listeners."""

from __future__ import annotations

import asyncio
import json

from kits.metadata_samples import every_change
from kits.observed_cluster import VOTER
from kits.observer_kit import FOLDER, assert_same_log, catch_up, fill, following, run, write_raw
from kits.sole_voter import commit, created
from moldau.base.files import read_whole
from moldau.cluster.changes import FeatureLevelSet
from moldau.cluster.journal import Journal
from moldau.cluster.record_codec import TransactionMark, encode_change, encode_mark
from moldau.records.batch import parse_header
from moldau.sim.disk_faults import Operation


def test_it_has_everything_that_was_committed_once_it_has_caught_up(cluster, disk):
    async def work():
        await fill(cluster, 5)
        await catch_up(cluster, disk)

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
    assert_same_log(cluster, disk)
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
            heard.append((tuple(changes), image))

        observer.subscribe(listen)
        cluster.voter.subscribe(lambda changes, image: committed.append((tuple(changes), image)))
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
        voters = cluster.voter._log.journal.region(before, before + 1, 1)
        journal = Journal(disk, FOLDER, is_copy=True)
        assert [batch.header.next_offset for batch in journal.load(0)][-1] == before
        journal.resume(0)
        data = voters.file.read(voters.position, voters.size)
        journal.append_copies(data, [parse_header(data)])
        journal.close()
        await catch_up(cluster, disk, fetch_bytes=1)

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


def test_it_never_becomes_the_controller(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        assert await observer.claim() is None
        await observer.close()

    run(cluster, work)


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
