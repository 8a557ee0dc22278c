"""Stories of a quorum: what has to come out well, whatever the seed. Each takes a fresh model."""

from __future__ import annotations

from kits.raft_checks import Violation
from kits.raft_disk import Data
from kits.raft_machine import Node
from kits.raft_model import Model
from moldau.cluster.raft import events
from moldau.cluster.raft.requests import AddVoterRequest, RemoveVoterRequest
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.voters import Voter
from moldau.protocol.errors import ErrorCode


def first_leader(model: Model) -> Node:
    """Let a leader be elected, and commit something that all nodes have."""
    model.run_until(lambda: model.leader is not None)
    commit(model)
    model.run(2.0)
    return model.leader


def commit(model: Model, within_s: float = 30.0) -> Data:
    """Let whoever leads append until something is committed."""
    end_s = model.now_s + within_s
    while model.now_s < end_s:
        if model.leader is not None:
            content = model.append(model.leader)
            model.run(0.3)
            if model.is_committed(content):
                return content
        model.run(0.1)
    raise Violation(f"nothing is committed in {within_s} seconds: {model.nodes}")


def change_voters(model: Model, request) -> None:
    """Let whoever leads change the voters, and ask again while it cannot."""
    for number in range(100):
        leader = model.leader
        if leader is not None:
            token = f"{request} {number}"
            model.ask(leader, token, request)
            model.run(1.0)
            answers = [answer.error for one, answer in leader.answers if one == token]
            if answers == [ErrorCode.NONE]:
                return
        model.run(0.5)
    raise Violation(f"{request} is not carried out: {model.nodes}")


def followers(model: Model) -> list[Node]:
    return [node for node in model.up if node is not model.leader and node.voters.find(node.key)]


# Leaders come and go


def leaders_die_in_a_row(model: Model) -> None:
    """As many as a majority can do without."""
    first_leader(model)
    for _ in range((len(model.first_voters) - 1) // 2):
        model.crash(model.leader)
        commit(model)
    model.heal()
    model.check_whole()


def all_die_and_a_majority_returns(model: Model) -> None:
    first_leader(model)
    content = commit(model)
    for node in model.nodes:
        model.crash(node)
    model.run(5.0)
    for node in model.nodes[: model.first_voters.majority]:
        node.start()
    commit(model)
    if not model.is_committed(content):
        raise Violation(f"{content} is lost")
    model.heal()
    model.check_whole()


def a_leader_is_cut_off(model: Model) -> None:
    """It resigns, another one leads, and what it has appended alone is cut when it returns."""
    old = first_leader(model)
    model.cut_off({old.id})
    lonely = model.append(old)
    model.run(3.5)
    if old.leads:
        raise Violation(f"{old} leads on alone")
    commit(model)
    model.heal()
    model.check_whole()
    if model.is_committed(lonely):
        raise Violation(f"{lonely} was on one disk alone")


def a_voter_is_cut_off_and_returns(model: Model) -> None:
    """It has raised no epoch in the meantime, and unseats nobody (KIP-996)."""
    leader = first_leader(model)
    model.cut_off({followers(model)[0].id})
    model.run(20.0)
    commit(model)
    model.heal()
    model.check_whole()
    if model.leader is not leader or len(model.checks.leaders) != 1:
        raise Violation(f"{leader} was unseated: {model.nodes}")


def a_voter_hears_all_but_its_leader(model: Model) -> None:
    """The others do, so they do not vote for it."""
    leader = first_leader(model)
    lonely = followers(model)[0]
    model.network.cut = {(leader.id, lonely.id), (lonely.id, leader.id)}
    model.run(20.0)
    commit(model)
    if model.leader is not leader or len(model.checks.leaders) != 1:
        raise Violation(f"{leader} was unseated: {model.nodes}")
    model.heal()
    model.check_whole()


def a_leader_sleeps(model: Model) -> None:
    """It wakes up as a zombie; what it appends then is never committed."""
    old = first_leader(model)
    old.pause(8.0)
    model.run_until(lambda: model.leader is not old)
    commit(model)
    model.run_until(lambda: model.now_s >= old.paused_until_s)
    late = model.append(old)
    model.heal()
    model.check_whole()
    if model.is_committed(late):
        raise Violation(f"{late} was appended by a zombie")


def a_dead_leader_is_noticed(model: Model) -> None:
    """Its connections are reset, and nobody waits for a time-out."""
    old = first_leader(model)
    model.crash(old, is_noticed=True)
    took_s = model.run_until(lambda: model.leader is not None)
    if took_s > 0.5:
        raise Violation(f"the next leader took {took_s} seconds")
    model.heal()
    model.check_whole()


def a_leader_stops(model: Model) -> None:
    """The one that has most of the log takes over, at once."""
    old = first_leader(model)
    slow = followers(model)[0]
    slow.pause(0.3)
    model.append(old)
    model.run(0.05)
    old.step(events.StopWanted())
    took_s = model.run_until(lambda: model.leader is not None and model.leader is not old)
    if took_s > 0.5 or model.leader is slow:
        raise Violation(f"{model.leader} took over in {took_s} seconds")
    model.heal()
    model.check_whole()


# Voters change


def a_lost_voter_is_replaced(model: Model) -> None:
    """Its disk is gone: the node comes back as another replica, and takes its own place."""
    first_leader(model)
    lost = followers(model)[0]
    old_key = lost.key
    model.crash(lost)
    commit(model)
    fresh = model.replace_disk(lost)
    fresh.start()
    change_voters(model, RemoveVoterRequest(None, old_key))
    model.run(2.0)
    change_voters(model, AddVoterRequest(None, Voter(fresh.key)))
    model.check_whole()
    if fresh.voters.find(fresh.key) is None:
        raise Violation(f"{fresh} is no voter")


def a_voter_grows_up_by_a_snapshot(model: Model) -> None:
    """The log before it is gone; it begins with a snapshot, which names the voters too."""
    leader = first_leader(model)
    away = followers(model)[0]
    model.crash(away)
    for _ in range(4):
        commit(model)
        for node in model.up:
            node.snapshot()
    away.start()
    model.check_whole()
    if not away.disk.start or model.leader is not leader:
        raise Violation(f"{away} has no snapshot")


def a_new_leader_is_asked_for_a_change(model: Model) -> None:
    """It has to commit something first; else two leaders could change the voters at once."""
    first_leader(model)
    model.crash(model.leader)
    model.run_until(lambda: model.leader is not None)
    removed = followers(model)[0].key
    request = RemoveVoterRequest(None, removed)
    model.ask(model.leader, "too early", request)
    if model.leader.answers[-1][1].error is not ErrorCode.REQUEST_TIMED_OUT:
        raise Violation(f"{model.leader} answers {model.leader.answers}")
    model.heal()
    change_voters(model, request)
    model.check_whole()


def a_leader_removes_itself(model: Model) -> None:
    leader = first_leader(model)
    change_voters(model, RemoveVoterRequest(None, leader.key))
    commit(model)
    model.check_whole()
    if model.leader is leader or leader.role is not Role.FOLLOWER:
        raise Violation(f"{leader} was removed")


def one_of_two_removes_itself_and_dies(model: Model) -> None:
    """The record of it may be on its disk alone: then it has to lead once more."""
    leader = first_leader(model)
    model.cut_off({leader.id})
    model.ask(leader, "remove", RemoveVoterRequest(None, leader.key))
    model.run(0.5)
    model.crash(leader)
    model.heal()
    model.check_whole()


# Raft, figure 8


def an_older_record_reaches_a_majority(model: Model) -> None:
    """A record of an earlier epoch on a majority is not committed by that alone."""
    first = first_leader(model)
    model.cut_off({first.id})
    model.append(first)
    model.run(0.05)
    model.crash(first)
    model.run_until(lambda: model.leader is not None)
    second = model.leader
    model.cut_off({second.id})
    model.append(second)
    model.run(0.05)
    model.crash(second)
    model.network.cut = set()
    first.start()
    model.run_until(lambda: model.leader is not None)
    model.run(0.003)
    model.crash(model.leader)
    model.heal()
    model.check_whole()


OF_ANY = (
    leaders_die_in_a_row,
    all_die_and_a_majority_returns,
)
"""For any number of voters and observers."""

OF_SEVERAL = (
    a_leader_is_cut_off,
    a_voter_is_cut_off_and_returns,
    a_voter_hears_all_but_its_leader,
    a_leader_sleeps,
    a_dead_leader_is_noticed,
    a_leader_stops,
    a_voter_grows_up_by_a_snapshot,
    an_older_record_reaches_a_majority,
)
"""For three voters and more."""

OF_DYNAMIC = (
    a_lost_voter_is_replaced,
    a_new_leader_is_asked_for_a_change,
    a_leader_removes_itself,
)
"""For three voters and more, which the log names."""
