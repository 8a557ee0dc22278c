"""A node's part in the quorum is told once, however often it tries in vain."""

import pytest

from moldau.cluster.kraft.role_lines import RoleLines
from moldau.cluster.raft.effects import RoleChanged
from moldau.cluster.raft.states import Role

FOLLOWER, PROSPECTIVE = RoleChanged(Role.FOLLOWER, 3, 2), RoleChanged(Role.PROSPECTIVE, 3, 2)
LINES = {
    FOLLOWER: "this node is follower in epoch 3, led by 2",
    PROSPECTIVE: "this node is prospective in epoch 3, led by 2",
}


@pytest.fixture
def said(caplog):
    caplog.set_level("INFO")
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_voter_without_a_majority_says_so_once(said):
    lines = RoleLines()
    lines.changed(RoleChanged(Role.UNATTACHED, 0, -1))
    for _ in range(100):
        lines.changed(FOLLOWER)
        lines.changed(PROSPECTIVE)
    assert said() == [LINES[FOLLOWER], LINES[PROSPECTIVE]]
    lines.changed(RoleChanged(Role.UNATTACHED, 4, -1))
    lines.changed(RoleChanged(Role.FOLLOWER, 4, 1))
    assert len(said()) == 4


def test_once_its_leader_answers_it_says_what_it_is_and_what_comes_next(said):
    lines = RoleLines()
    for _ in range(2):
        lines.changed(FOLLOWER)
        lines.changed(PROSPECTIVE)
    lines.changed(FOLLOWER)
    lines.heard()
    lines.heard()
    lines.changed(PROSPECTIVE)
    assert said() == [LINES[FOLLOWER], LINES[PROSPECTIVE]] * 2
