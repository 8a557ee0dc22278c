"""Voter sets, their majorities, and which of them is in force."""

import pytest

from kits.raft_node import key, voter_set
from moldau.cluster.raft.ballot import Ballot
from moldau.cluster.raft.commitment import committed_offset
from moldau.cluster.raft.voter_history import VoterHistory
from moldau.cluster.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet


@pytest.mark.parametrize(("size", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(size, majority):
    voters = voter_set(*range(1, size + 1))
    assert voters.majority == majority
    assert voters.is_majority(voters.keys[:majority])
    assert not voters.is_majority(voters.keys[: majority - 1])


def test_replicas_that_are_no_voters_make_no_majority():
    assert not voter_set(1, 2, 3).is_majority([key(1), key(4), key(5), key(2, directory=9)])


def test_a_node_with_another_directory_is_another_replica():
    voters = voter_set(1, 2, 3)
    assert voters.find(key(2)) is not None
    assert voters.find(key(2, directory=9)) is None
    assert voters.has_node(2)
    assert not voters.has_node(4)


def test_without_directories_the_id_alone_counts():
    voters = voter_set(1, 2, is_static=True)
    assert voters.find(key(2, directory=9)) is not None
    assert voters.find(ReplicaKey(3)) is None


def test_an_entry_replaces_the_one_of_the_same_node():
    moved = Voter(key(2), (VoterEndpoint("CONTROLLER", "elsewhere", 9093),))
    voters = voter_set(1, 2, 3).with_voter(moved)
    assert voters.keys == voter_set(1, 2, 3).keys
    assert voters.find(key(2)) is moved
    assert voters.without(key(2)) == voter_set(1, 3)
    assert voters.others(key(2)) == (key(1), key(3))


def test_the_newest_set_of_the_log_is_in_force_until_it_is_cut_off():
    history = VoterHistory(voter_set(1))
    assert history.newest == (-1, voter_set(1))
    history.append(7, voter_set(1, 2))
    assert history.newest == (7, voter_set(1, 2))
    assert history.previous == voter_set(1)
    history.append(9, voter_set(1, 2, 3))
    assert history.previous == voter_set(1, 2)
    history.truncate(8)
    assert history.newest == (7, voter_set(1, 2))
    history.truncate(7)
    assert history.newest == (-1, voter_set(1))


def test_a_snapshot_brings_its_own_set():
    history = VoterHistory(VoterSet(), is_static=True)
    assert not history.is_dynamic
    history.append(3, voter_set(1, 2))
    assert history.is_dynamic
    history.restart(voter_set(1, 2, 3))
    assert history.newest == (-1, voter_set(1, 2, 3))
    assert history.is_dynamic


def test_a_ballot_counts_each_voter_once():
    ballot = Ballot(voter_set(1, 2, 3, 4, 5), key(1))
    assert ballot.granting == (key(1),)
    ballot.grant(key(2))
    ballot.grant(key(2))
    ballot.grant(key(9))
    assert not ballot.is_won
    ballot.refuse(key(3))
    assert ballot.undecided == (key(4), key(5))
    ballot.grant(key(4))
    assert ballot.is_won
    assert ballot.granting == (key(1), key(2), key(4))


def test_a_ballot_is_lost_when_a_majority_is_out_of_reach():
    ballot = Ballot(voter_set(1, 2, 3), key(1))
    ballot.refuse(key(2))
    assert not ballot.is_lost
    ballot.refuse(key(3))
    assert ballot.is_lost
    ballot.ask_again()
    assert ballot.undecided == (key(2), key(3))
    assert not ballot.is_lost


def test_a_candidate_that_is_no_voter_does_not_count_itself():
    ballot = Ballot(voter_set(2), key(1))
    assert not ballot.is_won
    ballot.grant(key(2))
    assert ballot.is_won


@pytest.mark.parametrize(
    ("ends", "epoch_start", "committed"),
    [
        ([9, 9, 9], 5, 9),
        ([9, 7, 0], 5, 7),
        ([9, 5, 0], 5, -1),  # up to the epoch's start nothing is of this epoch
        ([9, 6, 4, 3], 2, 4),
        ([9, 8, 6, 4, 3], 2, 6),
    ],
)
def test_a_majority_has_what_is_committed(ends, epoch_start, committed):
    voters = voter_set(*range(1, len(ends) + 1))
    assert committed_offset(voters, dict(zip(voters.keys, ends, strict=True)), epoch_start) == (
        committed
    )


def test_observers_and_unknown_ends_do_not_count():
    ends = {key(1): 9, key(4): 9, key(5): 9}
    assert committed_offset(voter_set(1, 2, 3), ends, 0) == -1
    assert committed_offset(VoterSet(), ends, 0) == -1
