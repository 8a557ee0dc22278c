"""What a node becomes when it starts, by what its disk remembers."""

from kits.raft_node import RaftNode, key, log_of
from moldau.cluster.raft.effects import (
    AppendAsLeader,
    HighWatermarkMoved,
    PersistQuorumState,
    RoleChanged,
    SendRequest,
)
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import (
    EndQuorumEpochRequest,
    FetchRequest,
    LeaderChange,
    VoteRequest,
)
from moldau.cluster.raft.states import Role
from moldau.cluster.snapshots import SnapshotId


def test_a_fresh_voter_waits_and_looks_for_a_leader():
    node = RaftNode()
    assert node.role is Role.UNATTACHED
    assert 1.0 <= node.core.deadline_s - 100.0 <= 2.0
    assert node.asked(FetchRequest).to is None
    assert node.persisted is None


def test_a_sole_voter_leads_at_once():
    node = RaftNode(voters=(1,))
    assert node.role is Role.LEADER
    assert node.quorum == QuorumState(1, 1)
    assert [one.quorum for one in node.of(PersistQuorumState)] == [node.quorum]
    assert [one.role for one in node.of(RoleChanged)] == [Role.LEADER]
    change = node.of(AppendAsLeader)[0].content
    assert isinstance(change, LeaderChange)
    assert change.voters == change.granting == (key(1),)
    assert node.of(HighWatermarkMoved)[-1].offset == 3
    assert node.core.deadline_s == float("inf")


def test_a_sole_voter_that_led_leads_again_in_the_next_epoch():
    node = RaftNode(voters=(1,), quorum=QuorumState(4, 1, key(1)), log=log_of((4, 0), end=7))
    assert node.quorum == QuorumState(5, 1)
    assert node.of(RoleChanged)[-1].epoch_start == 7


def test_a_sole_voter_whose_log_is_newer_than_the_file_goes_on_behind_the_log():
    node = RaftNode(voters=(1,), quorum=QuorumState(4, 1), log=log_of((6, 0), end=7))
    assert node.quorum == QuorumState(7, 1)


def test_a_node_that_has_led_does_not_lead_this_epoch_again():
    node = RaftNode(quorum=QuorumState(4, 1, key(1)))
    assert node.role is Role.RESIGNED
    assert sorted(node.asks(EndQuorumEpochRequest)) == [2, 3]
    assert node.asked(EndQuorumEpochRequest, 2).request.successors == ()
    assert not node.vote(epoch=4).granted


def test_a_follower_goes_on_behind_its_leader():
    node = RaftNode(quorum=QuorumState(4, 3, key(2)), log=log_of((4, 0), end=7))
    assert node.role is Role.FOLLOWER
    fetch = node.asked(FetchRequest)
    assert fetch.to == 3
    assert (fetch.request.epoch, fetch.request.last) == (4, (4, 7))


def test_a_vote_is_remembered():
    node = RaftNode(quorum=QuorumState(4, -1, key(2)))
    assert node.role is Role.UNATTACHED
    assert not node.vote(epoch=4, by=3).granted
    assert node.vote(epoch=4, by=2).granted


def test_a_former_candidate_begins_another_epoch():
    node = RaftNode(quorum=QuorumState(4, -1, key(1)))
    assert node.role is Role.UNATTACHED
    node.become_candidate()
    assert node.quorum == QuorumState(5, -1, key(1))


def test_a_log_that_is_newer_than_the_file_tells_the_epoch():
    node = RaftNode(quorum=QuorumState(4, 2), log=log_of((6, 0), end=7))
    assert node.role is Role.UNATTACHED
    assert node.persisted == QuorumState(6)


def test_what_a_snapshot_has_is_committed():
    snapshot = SnapshotId(20, 3)
    log = log_of((3, 20), end=25, start=20, snapshots=(snapshot,))
    assert RaftNode(log=log).life.high_watermark == 20


def test_an_observer_begins_no_election():
    node = RaftNode(me=4)
    assert node.role is Role.UNATTACHED
    node.wait(60)
    assert node.role is Role.UNATTACHED
    assert not any(isinstance(one.request, VoteRequest) for one in node.of(SendRequest))
