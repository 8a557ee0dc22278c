"""What a leader does: fetches, commits, and when it resigns."""

import pytest

from kits.raft_node import CLUSTER, RaftNode, key, log_of
from moldau.cluster.raft import events
from moldau.cluster.raft.effects import (
    AnswerWithRecords,
    AnswerWithSnapshot,
    AppendAsLeader,
    AppendRefused,
    HighWatermarkMoved,
    RoleChanged,
    SendRequest,
    SyncLog,
)
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    LeaderChange,
)
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.voters import ReplicaKey, Voter, VoterEndpoint
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ErrorCode
from moldau.storage.epochs import EpochEnd


def leader(**options) -> RaftNode:
    return RaftNode(**options).become_leader()


def append(node, content="records", count=1):
    node.step(events.AppendWanted(content, count))


# The first records


def test_the_first_leader_states_the_voters():
    node = leader()
    change = node.of(AppendAsLeader)[0].content
    assert change.logged_voters == node.life.voters
    assert node.life.voter_history.newest.offset == 2
    assert node.life.log.end_offset == 3


def test_a_later_leader_does_not_state_them_again():
    node = leader().commit_all()
    node.step(events.ResignWanted())
    node.wait_for_timeout()
    node.become_leader()
    change = node.of(AppendAsLeader)[-1].content
    assert isinstance(change, LeaderChange)
    assert change.logged_voters is None


def test_a_leader_that_has_moved_says_where_it_is():
    own = Voter(key(1), (VoterEndpoint("CONTROLLER", "new", 9093),))
    node = leader(own=own)
    assert node.of(AppendAsLeader)[0].content.logged_voters.find(key(1)) == own


def test_voters_of_the_settings_are_not_stated():
    node = leader(is_static=True)
    assert node.of(AppendAsLeader)[0].content.logged_voters is None
    assert node.life.log.end_offset == 1


# Commits


def test_what_a_majority_has_durable_is_committed():
    node = leader().commit_all()
    append(node, count=2)
    assert node.of(AppendAsLeader)[-1].base_offset == 3
    assert node.life.high_watermark == 3
    node.fetch(3)
    assert node.of(HighWatermarkMoved)[-1].offset == 5


def test_the_own_log_counts_when_it_is_durable():
    node = leader().commit_all()
    node.disk_is_slow = True
    append(node)
    node.fetch(2)
    assert node.life.high_watermark == 3
    node.step(events.LogSynced(node.of(SyncLog)[-1].mark))
    assert node.life.high_watermark == 4


def test_a_sync_that_is_known_already_changes_nothing():
    node = leader().commit_all()
    assert node.step(events.LogSynced(node.of(SyncLog)[-1].mark)) == []


def test_records_of_an_earlier_epoch_are_committed_with_one_of_the_own():
    node = leader(quorum=QuorumState(4), log=log_of((3, 0), end=8))
    node.fetch(2, last=(3, 8))
    assert node.life.high_watermark == 0
    node.fetch(2)
    assert node.life.high_watermark == 11


def test_an_observer_commits_nothing():
    node = leader()
    node.fetch(4)
    node.fetch(key(2, directory=9))
    assert node.life.high_watermark == 0


def test_static_voters_are_known_by_their_ids():
    node = leader(is_static=True)
    node.fetch(key(2, directory=9))
    assert node.life.high_watermark == 1


def test_an_append_to_a_node_that_does_not_lead_is_refused():
    node = RaftNode()
    append(node, "mine")
    assert node.of(AppendRefused) == [AppendRefused("mine")]
    assert not node.of(AppendAsLeader)


# Fetches


def test_a_fetch_behind_the_end_is_answered_with_records():
    node = leader()
    assert node.fetch(2, last=(-1, 0)).error is ErrorCode.NONE
    assert node.of(AnswerWithRecords)[-1].read_from == 0


def test_a_fetch_at_the_end_waits_for_records():
    node = leader().commit_all()
    assert node.fetch(2) is None
    append(node)
    answer = node.of(AnswerWithRecords)[-1]
    assert (answer.read_from, answer.answer.high_watermark) == (3, 3)


def test_a_fetch_at_the_end_waits_for_a_commit():
    node = leader().commit_all()
    append(node)
    assert node.fetch(4) is None
    node.fetch(3)
    assert node.of(AnswerWithRecords)[-1].answer.high_watermark == 4


def test_a_replica_of_a_log_that_grows_all_the_time_has_caught_up_with_what_it_was_offered():
    node = leader().commit_all()
    progress = node.state.replicas[key(2)]
    known_s = progress.caught_up_s
    end = node.life.log.end
    for _ in range(3):
        append(node)
        node.now_s += 1.0
        fetched_s, last = node.now_s, end
        end = node.life.log.end
        node.fetch(2, last=last)  # one record behind
        append(node)
    assert progress.caught_up_s == fetched_s - 1.0 > known_s
    node.now_s += 1.0
    node.fetch(2, last=last)  # it has taken nothing
    assert progress.caught_up_s == fetched_s - 1.0


def test_a_fetch_waits_as_long_as_it_says():
    node = leader().commit_all()
    assert node.fetch(2, wait=0.3) is None
    node.wait(0.25)
    assert node.answer_to("request 2") is None
    node.wait(0.1)
    assert node.answer_to("request 2").error is ErrorCode.NONE


def test_a_fetch_is_answered_at_once_if_it_does_not_wait_or_knows_less():
    node = leader().commit_all()
    assert node.fetch(2, wait=0) is not None
    assert node.fetch(2, high_watermark=2) is not None
    assert node.fetch(2, high_watermark=3) is None


def test_another_fetch_of_the_same_replica_ends_the_first():
    node = leader().commit_all()
    assert node.fetch(2) is None
    assert node.fetch(2) is None
    assert node.answer_to("request 2") is not None
    assert node.answer_to("request 3") is None


def test_a_log_that_differs_is_told_where():
    node = leader(quorum=QuorumState(4), log=log_of((3, 0), end=8))
    answer = node.fetch(2, last=(3, 9))
    assert answer.diverging == EpochEnd(3, 8)
    assert node.state.replicas[key(2)].end_offset == -1


def test_a_log_that_is_too_old_is_told_the_snapshot():
    snapshot = SnapshotId(8, 3)
    log = log_of((3, 8), end=9, start=8, snapshots=(snapshot,))
    answer = leader(quorum=QuorumState(4), log=log).fetch(2, last=(-1, 0))
    assert (answer.snapshot, answer.diverging) == (snapshot, None)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 6}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"last": (5, -1)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_fetches_that_are_refused(asked, error):
    node = leader(quorum=QuorumState(4))
    answer = node.fetch(2, **asked)
    assert (answer.error, answer.epoch, answer.leader) == (error, 5, 1)


def test_another_node_than_the_leader_names_it():
    node = RaftNode(quorum=QuorumState(4, 3))
    answer = node.fetch(2)
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.epoch, answer.leader) == (4, 3)


def test_a_leader_forgets_observers_that_have_gone():
    node = leader()
    node.fetch(4)
    for _ in range(350):
        node.wait(1.0)
        node.fetch(2, wait=0)
        node.fetch(3, wait=0)
    assert key(4) in node.state.replicas
    node.fetch(5)
    assert sorted(one.node for one in node.state.replicas) == [2, 3, 5]


# Snapshots

SNAPSHOTS = (SnapshotId(5, 3), SnapshotId(8, 3))


def fetch_snapshot(node, snapshot, position=0, epoch=None):
    epoch = node.quorum.epoch if epoch is None else epoch
    return node.ask(FetchSnapshotRequest(CLUSTER, key(2), epoch, snapshot, position))


def test_parts_of_a_snapshot_are_served():
    node = leader(quorum=QuorumState(4), log=log_of((3, 5), end=9, start=5, snapshots=SNAPSHOTS))
    answer = fetch_snapshot(node, SNAPSHOTS[1], 100)
    assert (answer.snapshot, answer.position) == (SNAPSHOTS[1], 100)
    assert len(node.of(AnswerWithSnapshot)) == 1
    assert fetch_snapshot(node, SNAPSHOTS[0]).error is ErrorCode.NONE


def test_snapshots_that_are_refused():
    node = leader(quorum=QuorumState(4), log=log_of((3, 5), end=9, start=5, snapshots=SNAPSHOTS))
    assert fetch_snapshot(node, SnapshotId(9, 3)).error is ErrorCode.SNAPSHOT_NOT_FOUND
    assert fetch_snapshot(node, SNAPSHOTS[1], -1).error is ErrorCode.POSITION_OUT_OF_RANGE
    assert fetch_snapshot(node, SNAPSHOTS[1], epoch=4).error is ErrorCode.FENCED_LEADER_EPOCH
    assert fetch_snapshot(leader(), SNAPSHOTS[1]).error is ErrorCode.SNAPSHOT_NOT_FOUND


# Begin, and check-quorum


def test_voters_that_do_not_fetch_are_told_again_who_leads():
    node = leader()
    for other in (2, 3):
        node.answer(node.asked(BeginQuorumEpochRequest, other))
    assert not node.asks(BeginQuorumEpochRequest)
    node.fetch(2)
    node.wait(0.9)
    node.fetch(2)
    node.wait(0.2)
    assert node.asks(BeginQuorumEpochRequest) == [3]


def test_a_leader_that_no_majority_fetches_from_resigns():
    node = leader()
    node.wait(2.0)
    node.fetch(2)
    node.wait(2.9)
    assert node.role is Role.LEADER
    node.wait(0.2)
    assert node.role is Role.RESIGNED
    assert node.of(RoleChanged)[-1].leader == -1


def test_parts_of_a_snapshot_keep_a_leader_too():
    node = leader()
    node.wait(2.0)
    fetch_snapshot(node, SnapshotId(9, 3))
    node.wait(2.9)
    assert node.role is Role.LEADER


def test_observers_keep_no_leader():
    node = leader()
    for _ in range(31):
        node.fetch(4)
        node.fetch(5)
        node.wait(0.1)
    assert node.role is Role.RESIGNED


def test_of_five_voters_the_second_to_fetch_counts():
    node = RaftNode(voters=(1, 2, 3, 4, 5)).become_prospective()
    for _ in range(2):
        for other in (2, 3):
            sent = [one for one in node.open.values() if one.to == other]
            node.answer(sent[0], granted=True)
    node.wait(1.0)
    node.fetch(2)
    node.wait(1.0)
    node.fetch(3)
    node.wait(1.9)
    assert node.role is Role.LEADER
    node.wait(0.2)
    assert node.role is Role.RESIGNED


def test_a_leader_that_hears_of_a_later_epoch_follows():
    node = leader().commit_all()
    assert node.fetch(2) is None
    node.answer(
        node.asked(BeginQuorumEpochRequest, 3),
        error=ErrorCode.FENCED_LEADER_EPOCH,
        epoch=9,
        leader=2,
    )
    assert node.role is Role.FOLLOWER
    answer = node.answer_to("request 2")
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.epoch, answer.leader) == (9, 2)


def test_a_leader_grants_no_votes_of_its_epoch():
    node = leader()
    assert not node.vote(epoch=1, by=2).granted
    assert not node.vote(epoch=1, by=2, last=(1, 99), is_pre_vote=True).granted
    assert node.role is Role.LEADER


# Resigned


def test_the_best_successor_is_the_one_with_most_of_the_log():
    node = RaftNode(voters=(1, 2, 3), quorum=QuorumState(4)).become_leader().commit_all()
    append(node)
    node.fetch(3)
    assert node.fetch(3) is None
    node.step(events.ResignWanted())
    sent = node.asked(EndQuorumEpochRequest, 2).request
    assert sent.successors == (key(3), key(2))
    assert (sent.epoch, sent.leader) == (5, 1)
    assert node.answer_to("request 3").error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_one_that_has_resigned_goes_on_in_the_next_epoch():
    node = leader()
    node.step(events.ResignWanted())
    append(node, "late")
    assert node.of(AppendRefused) == [AppendRefused("late")]
    assert node.fetch(2).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert node.fetch(2).leader == -1
    assert node.vote(epoch=1, by=2, last=(1, 99), is_pre_vote=True).error is (ErrorCode.NONE)
    assert not node.vote(epoch=1, by=2).granted
    node.wait_for_timeout()
    assert node.role is Role.UNATTACHED
    assert node.persisted == QuorumState(2)


def test_everybody_is_told_of_a_resignation_once():
    node = leader()
    node.step(events.ResignWanted())
    node.answer(node.asked(EndQuorumEpochRequest, 2))
    assert node.asks(EndQuorumEpochRequest) == [3]
    node.wait(0.9)
    sent = [one for one in node.of(SendRequest) if isinstance(one.request, EndQuorumEpochRequest)]
    assert len(sent) == 2


def test_to_resign_means_nothing_to_others():
    node = RaftNode()
    node.step(events.ResignWanted())
    assert node.role is Role.UNATTACHED


def test_a_voter_without_a_directory_is_told_by_its_id():
    node = leader(is_static=True)
    assert node.asked(BeginQuorumEpochRequest, 2).request.voter == ReplicaKey(2)


def test_whoever_fetches_under_thousands_of_names_is_served_and_not_remembered():
    node = leader().commit_all()
    for number in range(1_100):
        assert node.fetch(ReplicaKey(100 + number), wait=0).error is ErrorCode.NONE
    assert len(node.state.replicas) <= 1_000
    assert node.fetch(3, wait=0).error is ErrorCode.NONE
    assert node.state.replicas[key(3)].end_offset == node.life.log.end_offset


def test_nobody_is_parked_for_longer_than_half_a_minute():
    node = leader().commit_all()
    assert node.fetch(ReplicaKey(9), wait=1e9) is None
    assert node.state.parked[ReplicaKey(9)].until_s == node.now_s + 30
