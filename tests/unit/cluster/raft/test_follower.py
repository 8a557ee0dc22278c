"""What a follower does: records, truncation, snapshots, and elections without its leader."""

from dataclasses import replace

import pytest

from kits.raft_node import CLUSTER, RaftNode, batches, follower, key, log_of, records, voter_set
from moldau.base.errors import InvariantViolated
from moldau.cluster.raft import events
from moldau.cluster.raft.effects import (
    AppendFetched,
    FinishSnapshot,
    HighWatermarkMoved,
    InstallSnapshot,
    PersistQuorumState,
    StoreSnapshotPart,
    SyncLog,
    TruncateLog,
)
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    VoteRequest,
)
from moldau.cluster.raft.states import Role
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ErrorCode
from moldau.storage.epochs import EpochEnd

# Records


def test_records_are_appended_and_committed_as_far_as_the_leader_says():
    node = follower()
    records(node, (5, 2), (5, 4), high_watermark=3)
    assert [one.end_offset for one in node.of(AppendFetched)[-1].batches] == [2, 4]
    assert node.of(HighWatermarkMoved)[-1].offset == 3
    request = node.asked(FetchRequest).request
    assert (request.last, request.high_watermark) == ((5, 4), 3)


def test_the_high_watermark_lies_within_the_log_and_does_not_sink():
    node = follower()
    records(node, (5, 4), high_watermark=9)
    assert node.life.high_watermark == 4
    records(node, high_watermark=2)
    assert node.life.high_watermark == 4
    assert len(node.of(HighWatermarkMoved)) == 1


def test_the_next_fetch_waits_until_the_log_is_durable():
    node = follower()
    node.disk_is_slow = True
    records(node, (5, 4))
    assert not node.asks(FetchRequest)
    node.step(events.LogSynced(node.of(SyncLog)[-1].mark))
    assert node.asked(FetchRequest).request.last == (5, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        batches((5, 9), start=7),  # a gap
        batches((5, 4), start=2),  # what is there already
        batches((6, 8), start=5),  # of a later leader
        batches((3, 8), start=5),  # of an earlier one than the last record
        batches((5, 5), start=5),  # nothing
    ],
)
def test_batches_that_do_not_continue_the_log_are_not_taken(wrong):
    node = follower(log=log_of((4, 0), end=5))
    node.answer(node.asked(FetchRequest), batches=wrong, high_watermark=9)
    assert not node.of(AppendFetched)
    assert node.life.high_watermark == 5  # of the first fetch
    assert node.life.log.end == (4, 5)
    assert 2 in node.life.outgoing.resting


def test_what_stands_before_a_wrong_batch_is_taken():
    node = follower()
    node.answer(node.asked(FetchRequest), batches=batches((5, 2), (6, 4)), high_watermark=4)
    assert node.life.log.end == (5, 2)


def test_an_answer_of_another_epoch_or_leader_is_not_taken():
    for wrong in ({"epoch": 4}, {"leader": 3}, {"leader": -1}):
        node = follower()
        sent = node.asked(FetchRequest)
        node.answer(sent, batches=batches((5, 2)), high_watermark=2, **wrong)
        assert not node.of(AppendFetched)
        assert node.quorum == QuorumState(5, 2)


def test_an_answer_in_a_later_epoch_is_not_taken_but_its_leader_followed():
    node = follower()
    node.answer(node.asked(FetchRequest), epoch=6, leader=3, batches=batches((5, 2)))
    assert node.life.log.end_offset == 0
    assert node.persisted == QuorumState(6, 3)
    assert node.asked(FetchRequest).to == 3


def test_voters_are_in_force_when_their_record_is_in_the_log():
    node = follower()
    (batch,) = batches((5, 2))
    batch = replace(batch, voters=voter_set(1, 2, 3, 4), voters_offset=1)
    node.answer(node.asked(FetchRequest), batches=(batch,))
    assert node.life.voters == voter_set(1, 2, 3, 4)
    assert node.life.high_watermark == 0
    node.answer(node.asked(FetchRequest), diverging=EpochEnd(-1, 0))
    assert node.life.voters == voter_set(1, 2, 3)


# Truncation


def test_a_log_is_cut_where_it_leaves_the_leaders():
    node = follower(log=log_of((3, 0), (4, 6), end=9), has_fetched=False)
    node.answer(node.asked(FetchRequest), diverging=EpochEnd(3, 5))
    assert node.of(TruncateLog) == [TruncateLog(5)]
    assert node.asked(FetchRequest).request.last == (3, 5)


def test_what_is_committed_is_never_cut():
    node = follower(log=log_of((3, 0), (4, 6), end=9))
    with pytest.raises(InvariantViolated, match="committed here up to 9"):
        node.answer(node.asked(FetchRequest), diverging=EpochEnd(3, 5))


def test_a_place_behind_the_log_is_no_place_to_cut():
    node = follower(log=log_of((3, 0), end=9), has_fetched=False)
    node.answer(node.asked(FetchRequest), diverging=EpochEnd(3, 12))
    assert not node.of(TruncateLog)
    assert 2 in node.life.outgoing.resting


# The leader is late, gone, or has resigned


def test_a_follower_whose_leader_is_silent_asks_for_pre_votes():
    node = follower()
    node.wait(1.9)
    assert node.role is Role.FOLLOWER
    node.wait(0.1)
    assert node.role is Role.PROSPECTIVE


def test_each_answer_gives_the_leader_more_time():
    node = follower()
    for _ in range(4):
        node.wait(1.5)
        node.answer(node.asked(FetchRequest))
    assert node.role is Role.FOLLOWER


def test_a_follower_that_has_fetched_grants_no_pre_vote():
    node = follower()
    assert not node.vote(epoch=5, by=3, is_pre_vote=True).granted
    assert follower(has_fetched=False).vote(epoch=5, by=3, is_pre_vote=True).granted


def test_a_follower_grants_no_vote_of_its_epoch():
    assert not follower(has_fetched=False).vote(epoch=5, by=3).granted


def test_a_reset_connection_of_the_leader_begins_an_election_at_once():
    node = follower()
    node.step(events.ConnectionReset(2))
    assert node.role is Role.PROSPECTIVE
    assert node.asks(VoteRequest) == [3]  # the other one is left alone for a moment
    assert node.persisted is None
    node.step(events.ConnectionReset(2))
    assert node.role is Role.PROSPECTIVE


def test_a_reset_connection_of_another_node_means_nothing():
    node = follower()
    node.step(events.ConnectionReset(3))
    assert node.role is Role.FOLLOWER
    assert node.asks(FetchRequest) == [2]


def test_a_leader_that_does_not_lead_any_more_is_not_waited_for():
    for error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE):
        node = follower()
        node.answer(node.asked(FetchRequest), error=error, leader=-1)
        assert node.role is Role.PROSPECTIVE


def test_a_failed_fetch_is_sent_to_any_node_that_may_know_the_leader():
    node = follower()
    node.step(events.RequestFailed(node.asked(FetchRequest).request_id))
    sent = node.asked(FetchRequest)
    assert sent.to is None
    node.answer(sent, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert node.role is Role.FOLLOWER
    node.wait(0.02)
    assert node.asked(FetchRequest).to == 2


def test_an_observer_that_misses_its_leader_looks_for_one():
    node = follower(me=4)
    node.step(events.ConnectionReset(2))
    assert node.role is Role.FOLLOWER
    assert node.asked(FetchRequest).to is None
    node.step(events.ConnectionReset(2))
    node.wait(10)
    assert node.asked(FetchRequest).to is None
    node.answer(node.asked(FetchRequest), epoch=6, leader=3)
    assert node.asked(FetchRequest).to == 3


def test_an_observer_that_waits_in_vain_looks_for_a_leader_too():
    node = follower(me=4)
    node.wait(2.5)
    assert node.role is Role.FOLLOWER
    assert node.asked(FetchRequest).to is None


# Begin and End of an epoch


def begin(node, *, epoch=6, leader=3, voter=None):
    return node.ask(BeginQuorumEpochRequest(CLUSTER, epoch, leader, voter or node.life.me))


def test_a_new_leader_is_followed():
    node = follower()
    answer = begin(node)
    assert (answer.error, answer.epoch, answer.leader) == (ErrorCode.NONE, 6, 3)
    assert node.persisted == QuorumState(6, 3)
    assert node.asked(FetchRequest).to == 3


def test_the_known_leader_may_say_so_again():
    node = follower()
    node.now_s += 1.0
    deadline_s = node.state.deadline_s
    assert begin(node, epoch=5, leader=2).error is ErrorCode.NONE
    assert node.state.deadline_s == deadline_s
    assert node.persisted is None


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"voter": key(1, directory=9)}, ErrorCode.INVALID_VOTER_KEY),
        ({"epoch": 5, "leader": 3}, ErrorCode.INVALID_REQUEST),  # a second leader
        ({"leader": 1}, ErrorCode.INVALID_REQUEST),
        ({"leader": -1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_leaders_that_are_not_believed(asked, error):
    node = follower()
    assert begin(node, **asked).error is error
    assert node.quorum == QuorumState(5, 2)


def end(node, *successors, epoch=5, leader=2):
    return node.ask(
        EndQuorumEpochRequest(CLUSTER, epoch, leader, tuple(key(one) for one in successors))
    )


def test_the_best_successor_begins_an_election_at_once():
    node = follower()
    assert end(node, 1, 3).error is ErrorCode.NONE
    assert node.role is Role.PROSPECTIVE


def test_the_next_successor_waits_and_grants_pre_votes():
    node = follower()
    assert end(node, 3, 1).error is ErrorCode.NONE
    assert node.role is Role.FOLLOWER
    assert node.vote(epoch=5, by=3, is_pre_vote=True).granted
    node.wait(0.6)
    assert node.role is Role.PROSPECTIVE


def test_an_epoch_may_end_that_was_not_known():
    node = follower()
    assert end(node, 1, epoch=7, leader=3).error is ErrorCode.NONE
    assert node.role is Role.PROSPECTIVE
    assert node.persisted == QuorumState(7, 3)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader": 3}, ErrorCode.NONE),
        ({"leader": 1}, ErrorCode.INVALID_REQUEST),
        ({"leader": -1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_ends_that_change_nothing(asked, error):
    node = follower()
    assert end(node, 1, **asked).error is error
    assert node.role is Role.FOLLOWER
    assert node.quorum == QuorumState(5, 2)


def test_a_request_of_another_cluster_is_refused_without_a_word_of_ours():
    node = follower()
    answer = node.ask(BeginQuorumEpochRequest("another", 9, 3, key(1)))
    assert answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert (answer.epoch, answer.leader) == (0, -1)
    assert node.quorum == QuorumState(5, 2)
    assert node.ask(BeginQuorumEpochRequest(None, 9, 3, key(1))).error is ErrorCode.NONE


# Snapshots

SNAPSHOT = SnapshotId(50, 4)


def download(node, *, size=10):
    node.answer(node.asked(FetchRequest), snapshot=SNAPSHOT)
    part(node, b"123456", size=size)
    part(node, b"7890", position=6, size=size)


def part(node, data, *, position=0, size=10, snapshot=SNAPSHOT, **fields):
    sent = node.asked(FetchSnapshotRequest)
    node.answer(sent, snapshot=snapshot, position=position, data=data, size=size, **fields)


def test_a_snapshot_is_fetched_in_parts_and_replaces_the_log():
    node = follower(log=log_of((2, 0), end=5))
    download(node)
    assert node.of(StoreSnapshotPart) == [
        StoreSnapshotPart(SNAPSHOT, 0, b"123456"),
        StoreSnapshotPart(SNAPSHOT, 6, b"7890"),
    ]
    assert node.of(FinishSnapshot) == [FinishSnapshot(SNAPSHOT)]
    assert not node.open
    node.step(events.SnapshotDownloaded(SNAPSHOT, voter_set(1, 2)))
    assert node.of(InstallSnapshot) == [InstallSnapshot(SNAPSHOT)]
    assert node.of(HighWatermarkMoved)[-1].offset == 50
    assert node.life.voters == voter_set(1, 2)
    assert node.asked(FetchRequest).request.last == (4, 50)


def test_a_snapshot_without_voters_leaves_those_of_the_settings():
    node = follower(is_static=True)
    node.life.voter_history.append(0, voter_set(1, 2, 3))  # was never committed
    download(node)
    node.step(events.SnapshotDownloaded(SNAPSHOT, None))
    assert node.life.voters == voter_set(1, 2, 3, is_static=True)
    assert not node.life.voter_history.is_dynamic


def test_a_damaged_snapshot_is_fetched_again():
    node = follower()
    download(node)
    node.step(events.SnapshotRefused(SNAPSHOT))
    assert not node.of(InstallSnapshot)
    node.wait(0.02)
    assert node.asks(FetchRequest)


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": b"", "position": 0},
        {"data": b"12", "position": 6},
        {"data": b"12", "snapshot": SnapshotId(51, 4)},
        {"data": b"12", "size": 1},
    ],
)
def test_a_part_that_was_not_asked_for_is_not_taken(wrong):
    node = follower()
    node.answer(node.asked(FetchRequest), snapshot=SNAPSHOT)
    part(node, **wrong)
    assert not node.of(StoreSnapshotPart)
    assert node.state.download is None
    assert 2 in node.life.outgoing.resting


def test_a_snapshot_that_is_gone_is_not_asked_for_again():
    node = follower()
    node.answer(node.asked(FetchRequest), snapshot=SNAPSHOT)
    part(node, b"", error=ErrorCode.SNAPSHOT_NOT_FOUND)
    assert node.role is Role.FOLLOWER
    assert node.asks(FetchRequest) == [None]


def test_a_leader_that_resigns_takes_its_snapshot_along():
    node = follower()
    node.answer(node.asked(FetchRequest), snapshot=SNAPSHOT)
    part(node, b"", error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert node.role is Role.PROSPECTIVE


def test_a_snapshot_that_nobody_waits_for_is_not_installed():
    node = follower()
    node.step(events.SnapshotDownloaded(SNAPSHOT, None))
    node.step(events.SnapshotRefused(SNAPSHOT))
    download(node)
    begin(node)
    node.step(events.SnapshotDownloaded(SNAPSHOT, None))
    assert not node.of(InstallSnapshot)
    waiting = RaftNode()
    waiting.step(events.SnapshotDownloaded(SNAPSHOT, None))
    waiting.step(events.SnapshotRefused(SNAPSHOT))
    assert not waiting.of(InstallSnapshot)


def test_a_snapshot_before_what_is_committed_is_no_snapshot_of_this_quorum():
    node = follower(log=log_of((4, 0), end=60))
    with pytest.raises(InvariantViolated, match="60 is committed here"):
        node.answer(node.asked(FetchRequest), snapshot=SNAPSHOT)


def test_snapshots_of_its_own_let_the_log_begin_later():
    node = follower(log=log_of((4, 0), end=60))
    node.step(events.SnapshotTaken(SNAPSHOT))
    assert node.life.log.newest_snapshot == SNAPSHOT
    node.step(events.LogTrimmed(50, SNAPSHOT))
    assert node.life.log.start_offset == 50


def test_a_restart_writes_nothing_that_is_known():
    assert not follower().of(PersistQuorumState)
