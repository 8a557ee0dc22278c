"""Voters are added, removed and updated, one at a time."""

import pytest

from kits.raft_node import CLUSTER, RaftNode, follower, key, voter_set
from moldau.cluster.raft import events
from moldau.cluster.raft.effects import AppendAsLeader
from moldau.cluster.raft.requests import (
    AddVoterRequest,
    EndQuorumEpochRequest,
    RaiseKraftVersionRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VotersChange,
)
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.voters import VOTERS_BYTES_MAX, Voter, VoterEndpoint
from moldau.protocol.errors import ErrorCode


def leader(**options) -> RaftNode:
    """Return a leader of three that has committed, with an observer that is level."""
    node = RaftNode(**options).become_leader().commit_all()
    node.fetch(4)
    return node


def add(node, voter=4, **options):
    made = Voter(key(voter)) if isinstance(voter, int) else voter
    return node.ask(AddVoterRequest(CLUSTER, made, **options))


def remove(node, voter):
    return node.ask(RemoveVoterRequest(CLUSTER, key(voter)))


def update(node, voter, epoch=1):
    return node.ask(UpdateVoterRequest(CLUSTER, epoch, voter))


def test_a_voter_counts_from_the_moment_its_record_is_written():
    node = leader()
    assert add(node) is None
    assert node.of(AppendAsLeader)[-1].content == VotersChange(voter_set(1, 2, 3, 4))
    node.fetch(2)
    assert node.life.high_watermark == 3  # two of four are no majority
    node.fetch(4)
    assert node.life.high_watermark == 4
    assert node.answer_to("request 3").error is ErrorCode.NONE


def test_an_addition_may_be_answered_before_its_commit():
    node = leader()
    assert add(node, ack_when_committed=False).error is ErrorCode.NONE
    assert node.life.high_watermark == 3
    assert add(node, 5).error is ErrorCode.REQUEST_TIMED_OUT


def test_a_change_waits_for_the_one_before_it():
    node = leader()
    add(node)
    assert remove(node, 3).error is ErrorCode.REQUEST_TIMED_OUT
    node.fetch(2)
    node.fetch(4)
    assert remove(node, 3) is None


def test_a_change_waits_for_a_commit_of_the_leaders_epoch():
    node = RaftNode().become_leader()
    assert remove(node, 3).error is ErrorCode.REQUEST_TIMED_OUT
    node.commit_all()
    assert remove(node, 3) is None


@pytest.mark.parametrize(
    ("voter", "error"),
    [
        (2, ErrorCode.DUPLICATE_VOTER),
        (Voter(key(2, directory=9)), ErrorCode.DUPLICATE_VOTER),
        (5, ErrorCode.REQUEST_TIMED_OUT),  # it has never fetched
        (Voter(key(4), kraft_versions=(0, 0)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_additions_that_are_refused(voter, error):
    node = leader()
    assert add(node, voter).error is error
    assert node.life.voters == voter_set(1, 2, 3)


def wide(voter, size=VOTERS_BYTES_MAX):
    """Return a voter whose entry alone fills the record."""
    return Voter(key(voter), (VoterEndpoint("CONTROLLER", "h" * size, 9093),))


def test_more_voters_than_a_record_can_name_are_refused():
    node = leader()
    assert add(node, wide(4)).error is ErrorCode.INVALID_REQUEST
    assert update(node, wide(2)).error is ErrorCode.INVALID_REQUEST
    assert node.life.voters == voter_set(1, 2, 3)
    assert add(node, wide(4, size=VOTERS_BYTES_MAX - 300)) is None


def test_a_new_voter_has_to_have_been_level():
    node = RaftNode().become_leader().commit_all()
    node.fetch(4, last=(-1, 0))
    assert add(node).error is ErrorCode.REQUEST_TIMED_OUT
    node.fetch(4)
    node.state.replicas[key(4)].caught_up_s -= 3601
    assert add(node).error is ErrorCode.REQUEST_TIMED_OUT
    node.fetch(4)
    assert add(node) is None


def test_a_voter_is_removed():
    node = leader()
    assert remove(node, 3) is None
    assert node.life.voters == voter_set(1, 2)
    node.fetch(2)
    assert node.answer_to("request 3").error is ErrorCode.NONE


@pytest.mark.parametrize("removed", [key(4), key(3, directory=9)])
def test_only_voters_are_removed(removed):
    node = leader()
    answer = node.ask(RemoveVoterRequest(CLUSTER, removed))
    assert answer.error is ErrorCode.VOTER_NOT_FOUND


def test_the_last_voter_stays():
    node = RaftNode(voters=(1,))
    assert remove(node, 1).error is ErrorCode.INVALID_REQUEST


def test_a_leader_that_is_removed_leads_until_that_is_committed():
    node = leader()
    assert remove(node, 1) is None
    node.fetch(2)
    assert node.role is Role.LEADER
    assert node.life.high_watermark == 3
    node.fetch(3)
    assert node.role is Role.RESIGNED
    assert node.answer_to("request 3").error is ErrorCode.NONE
    assert sorted(node.asks(EndQuorumEpochRequest)) == [2, 3]
    node.wait_for_timeout()
    assert node.role is Role.UNATTACHED
    assert node.state.deadline_s == float("inf")


def test_a_leader_that_is_removed_does_not_keep_itself():
    node = leader()
    remove(node, 1)
    node.fetch(2)
    node.wait(2.9)
    node.fetch(2)
    node.wait(0.2)
    assert node.role is Role.RESIGNED


MOVED = Voter(key(2), (VoterEndpoint("CONTROLLER", "elsewhere", 9093),))


def test_an_entry_is_updated():
    node = leader()
    # The voter may be needed for the commit, so it must not wait for that.
    assert update(node, MOVED).error is ErrorCode.NONE
    assert node.life.voters.find(key(2)) == MOVED
    assert update(node, MOVED).error is ErrorCode.REQUEST_TIMED_OUT
    node.fetch(2)
    assert update(node, MOVED).error is ErrorCode.NONE
    assert node.life.log.end_offset == 4


@pytest.mark.parametrize(
    ("voter", "epoch", "error"),
    [
        (Voter(key(4)), 1, ErrorCode.VOTER_NOT_FOUND),
        (Voter(key(2, directory=9)), 1, ErrorCode.VOTER_NOT_FOUND),
        (Voter(key(2), kraft_versions=(0, 0)), 1, ErrorCode.INVALID_REQUEST),
        (MOVED, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (MOVED, 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_updates_that_are_refused(voter, epoch, error):
    assert update(leader(), voter, epoch).error is error


def test_voters_of_the_settings_do_not_change():
    node = leader(is_static=True)
    assert add(node).error is ErrorCode.UNSUPPORTED_VERSION
    assert remove(node, 2).error is ErrorCode.UNSUPPORTED_VERSION
    assert update(node, MOVED).error is ErrorCode.NONE
    assert node.life.log.end_offset == 1


def raised(node):
    return node.ask(RaiseKraftVersionRequest(CLUSTER))


def tell(node, *voters):
    """Let voters of the settings say which directories they have."""
    for voter in voters:
        assert update(node, Voter(key(voter))).error is ErrorCode.NONE


def test_the_log_names_the_voters_of_the_settings_once_all_have_told():
    node = RaftNode(is_static=True).become_leader().commit_all()
    tell(node, 2)
    assert raised(node).error is ErrorCode.INVALID_UPDATE_VERSION
    tell(node, 3)
    assert raised(node) is None
    written = node.of(AppendAsLeader)[-1].content
    assert written == VotersChange(voter_set(1, 2, 3), states_version=True)
    assert node.life.log.end_offset == 3
    assert node.life.voter_history.newest.offset == 2
    assert set(node.state.replicas) == {key(2), key(3)}
    node.fetch(2)
    assert node.life.high_watermark == 3
    assert node.answer_to("request 6").error is ErrorCode.NONE
    assert raised(node).error is ErrorCode.NONE
    assert node.life.log.end_offset == 3
    assert remove(node, 3) is None
    node.wait(2.9)  # check-quorum knows the voters by their new keys
    node.fetch(2)
    assert node.role is Role.LEADER


def test_kraft_version_is_not_raised_over_a_voter_that_does_not_support_it():
    node = RaftNode(is_static=True).become_leader().commit_all()
    tell(node, 3)
    assert update(node, Voter(key(2), kraft_versions=(0, 0))).error is ErrorCode.NONE
    assert raised(node).error is ErrorCode.INVALID_UPDATE_VERSION


def test_kraft_version_is_not_raised_before_the_leader_has_committed():
    node = RaftNode(is_static=True).become_leader()
    tell(node, 2, 3)
    assert raised(node).error is ErrorCode.REQUEST_TIMED_OUT


def test_a_node_that_the_settings_do_not_name_tells_nothing():
    node = leader(is_static=True)
    assert update(node, Voter(key(4))).error is ErrorCode.VOTER_NOT_FOUND


def test_only_the_leader_changes_voters():
    answer = add(follower())
    assert (answer.error, answer.leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)


def test_a_change_that_is_not_committed_ends_with_the_leadership():
    node = leader()
    assert add(node) is None
    node.step(events.ResignWanted())
    assert node.answer_to("request 3").error is ErrorCode.NOT_LEADER_OR_FOLLOWER
