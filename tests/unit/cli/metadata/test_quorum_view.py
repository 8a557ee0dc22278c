"""Who leads and who votes, from records and from `quorum-state`."""

from __future__ import annotations

import json

import pytest

from kits.sole_voter import leader_change, put
from moldau.base.errors import ProtocolError, StorageError
from moldau.base.ids import LeaderEpoch
from moldau.cli.metadata.quorum_view import QuorumView
from moldau.cluster.kraft.control_records import snapshot_control
from moldau.cluster.kraft.quorum_file import write_quorum_state
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterEndpoint, VoterSet
from moldau.records.control import ControlType

STATIC = VoterSet((Voter(ReplicaKey(NodeId(1))), Voter(ReplicaKey(NodeId(2)))))
DYNAMIC = VoterSet(
    (
        Voter(ReplicaKey(NodeId(3), b"directory-of-3.."), (VoterEndpoint("C", "h", 9093),)),
        Voter(ReplicaKey(NodeId(4))),
    )
)


@pytest.fixture
def folder(disk):
    disk.make_folder("/log")
    return "/log"


def state(epoch, leader, voted=None):
    return QuorumState(LeaderEpoch(epoch), NodeId(leader), voted)


def test_nothing_is_known_of_an_empty_folder(disk, folder):
    view = QuorumView()
    view.learn_file(disk, folder)
    assert view.folder() == {
        "leader": None,
        "epoch": 0,
        "voted": None,
        "kraft-version": 0,
        "voters": {},
    }


def test_a_leader_change_names_the_leader_and_static_voters():
    view = QuorumView()
    view.learn(ControlType.LEADER_CHANGE, leader_change(7), 4)
    assert (view.leader, view.epoch, view.voters) == (7, 4, {7: {}})


def test_voters_of_the_log_are_not_those_of_a_leader_change():
    view = QuorumView()
    for kind, value in snapshot_control(DYNAMIC):
        view.learn(kind, value, 1)
    view.learn(ControlType.LEADER_CHANGE, leader_change(7), 4)
    assert view.folder()["kraft-version"] == 1
    assert view.folder()["voters"] == {
        "3": {
            "directory": "ZGlyZWN0b3J5LW9mLTMuLg",
            "endpoints": {"C": {"host": "h", "port": 9093}},
            "kraft-versions": [0, 1],
        },
        "4": {"directory": None, "endpoints": {}, "kraft-versions": [0, 1]},
    }


def test_the_file_wins_over_an_older_epoch_of_the_log(disk, folder):
    write_quorum_state(disk, folder, state(5, -1, ReplicaKey(NodeId(2))), STATIC, 0)
    view = QuorumView()
    view.learn(ControlType.LEADER_CHANGE, leader_change(1), 4)
    view.learn_file(disk, folder)
    assert (view.leader, view.epoch, view.voted) == (None, 5, 2)
    assert view.voters == {1: {}}


def test_the_log_wins_over_an_older_epoch_of_the_file(disk, folder):
    write_quorum_state(disk, folder, state(3, 2, ReplicaKey(NodeId(2))), STATIC, 0)
    view = QuorumView()
    view.learn(ControlType.LEADER_CHANGE, leader_change(1), 4)
    view.learn_file(disk, folder)
    assert (view.leader, view.epoch, view.voted) == (1, 4, None)


def test_the_file_names_static_voters_where_the_log_does_not(disk, folder):
    write_quorum_state(disk, folder, state(3, 2), STATIC, 0)
    view = QuorumView()
    view.learn_file(disk, folder)
    assert (view.leader, view.voters) == (2, {1: {}, 2: {}})


@pytest.mark.parametrize("voters", [None, 7, [7], [{"voterId": "x"}], [{"voterId": True}]])
def test_voters_that_make_no_sense_are_passed_over(disk, folder, voters):
    content = {"leaderId": 1, "leaderEpoch": 1, "votedId": -1, "data_version": 0}
    put(disk, f"{folder}/quorum-state", json.dumps(content | {"currentVoters": voters}).encode())
    view = QuorumView()
    view.learn_file(disk, folder)
    assert view.voters == {}


def test_a_damaged_file_is_named(disk, folder):
    put(disk, f"{folder}/quorum-state", b"{")
    with pytest.raises(StorageError, match=r"^/log/quorum-state: "):
        QuorumView().learn_file(disk, folder)


@pytest.mark.parametrize("value", [b"", b"\xff\xff", b"\x00\x00", b"\x7f\xff\x00"])
@pytest.mark.parametrize(
    "kind", [ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
)
def test_a_damaged_record_is_refused(kind, value):
    with pytest.raises(ProtocolError):
        QuorumView().learn(kind, value, 1)
