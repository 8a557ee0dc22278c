"""Voters are added and removed on behalf of operators, who are told what they can do."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kits import request_kit
from moldau.base.ids import uuid_text
from moldau.cluster.raft.requests import AddVoterRequest, RemoveVoterRequest, VoterChangeAnswer
from moldau.cluster.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages import raft as wire
from moldau.server.handlers.voter_changes import CHANGE_TIMEOUT_MAX_S, VoterChangeHandlers

CLUSTER = "cluster"
DIRECTORY = b"a new directory!"
ENDPOINT = VoterEndpoint("CONTROLLER", "node-3", 9093)
UNANSWERED = object()


class Node:
    """A leader that answers what a test says."""

    def __init__(self):
        self.leader = 1
        self.voters = VoterSet((Voter(ReplicaKey(1, b"directory of one")),))
        self.error = ErrorCode.NONE
        self.asked = []
        self.futures = []

    def ask(self, request, max_bytes):
        assert max_bytes == 0
        self.asked.append(request)
        future = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        if self.error is not UNANSWERED:
            answer = VoterChangeAnswer(self.error, 5, self.leader)
            future.set_result(SimpleNamespace(answer=answer, region=None))
        return future


class Probe:
    """A new voter that tells its versions, or says why not, or nothing."""

    def __init__(self):
        self.versions = (0, 1)
        self.asked = []

    async def __call__(self, endpoints):
        self.asked.append(endpoints)
        if self.versions is UNANSWERED:
            await asyncio.Event().wait()
        if isinstance(self.versions, ApiError):
            raise self.versions
        return self.versions


@pytest.fixture
def changing(world):
    """Run a test with a node, the probe of new voters, and what adds or removes a voter."""

    def run(test):
        async def main():
            node, probe = Node(), Probe()
            handlers = VoterChangeHandlers(node, 1, lambda: CLUSTER, probe)

            async def change(message):
                is_add = isinstance(message, wire.AddRaftVoterRequest)
                handle = handlers.add_voter if is_add else handlers.remove_voter
                response = handle(message, request_kit.context())
                if not hasattr(response, "error_code"):
                    response = await response
                kind = wire.AddRaftVoterResponse if is_add else wire.RemoveRaftVoterResponse
                assert type(response) is kind
                return response

            await test(node, probe, change)

        world.run(main())

    return run


def add(cluster_id=CLUSTER, *, timeout_ms=5_000, node=3, ack=True):
    listener = wire.RaftListener(*ENDPOINT)
    return wire.AddRaftVoterRequest(cluster_id, timeout_ms, node, DIRECTORY, [listener], ack)


def remove(node=3, directory=DIRECTORY):
    return wire.RemoveRaftVoterRequest(CLUSTER, node, directory)


@pytest.mark.parametrize("ack", [True, False])
def test_a_voter_is_added_with_the_versions_that_it_supports_itself(changing, ack):
    async def test(node, probe, change):
        probe.versions = (0, 3)
        response = await change(add(ack=ack))
        assert (response.error_code, response.error_message) == (0, None)
        assert probe.asked == [(ENDPOINT,)]
        voter = Voter(ReplicaKey(3, DIRECTORY), (ENDPOINT,), (0, 3))
        assert node.asked == [AddVoterRequest(CLUSTER, voter, ack)]

    changing(test)


def test_a_voter_is_removed(changing):
    async def test(node, probe, change):
        response = await change(remove())
        assert (response.error_code, response.error_message) == (0, None)
        assert node.asked == [RemoveVoterRequest(CLUSTER, ReplicaKey(3, DIRECTORY))]

    changing(test)


def other_leader(node):
    node.leader = 2
    return add(), ErrorCode.NOT_LEADER_OR_FOLLOWER, "Ask node 2"


def no_leader(node):
    node.leader = -1
    return add(), ErrorCode.NOT_LEADER_OR_FOLLOWER, "when there is a leader"


def other_cluster(node):
    return add("another"), ErrorCode.INCONSISTENT_CLUSTER_ID, ""


def static_voters(node):
    node.voters = VoterSet((Voter(ReplicaKey(1)), Voter(ReplicaKey(2))))
    return add(), ErrorCode.UNSUPPORTED_VERSION, "controller.quorum.voters"


def known_voter(node):
    return add(node=1), ErrorCode.DUPLICATE_VOTER, "Node 1 is a voter already"


def no_directory(node):
    message = add()
    message.voter_directory_id = bytes(16)
    return message, ErrorCode.INVALID_REQUEST, "directory id"


def no_listener(node):
    message = add()
    message.listeners = []
    return message, ErrorCode.INVALID_REQUEST, "listeners"


def test_a_voter_without_a_directory_is_not_removed(changing):
    async def test(node, probe, change):
        response = await change(remove(directory=bytes(16)))
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert "directory id" in response.error_message
        assert node.asked == []

    changing(test)


@pytest.mark.parametrize(
    "problem",
    [
        other_leader,
        no_leader,
        other_cluster,
        static_voters,
        known_voter,
        no_directory,
        no_listener,
    ],
)
def test_nobody_is_connected_to_for_what_cannot_be_anyway(changing, problem):
    async def test(node, probe, change):
        message, error, text = problem(node)
        response = await change(message)
        assert response.error_code == error
        assert text in response.error_message
        assert (node.asked, probe.asked) == ([], [])

    changing(test)


def test_a_cluster_that_is_not_named_is_this_one(changing):
    async def test(node, probe, change):
        assert (await change(add(None))).error_code == 0

    changing(test)


def test_a_voter_that_cannot_be_asked_is_not_added(changing):
    async def test(node, probe, change):
        probe.versions = ApiError(ErrorCode.REQUEST_TIMED_OUT, "It cannot be reached at node-3.")
        response = await change(add())
        assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert response.error_message == "It cannot be reached at node-3."
        assert node.asked == []

    changing(test)


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (add(), ErrorCode.INVALID_REQUEST, "does not support kraft.version 1"),
        (add(), ErrorCode.REQUEST_TIMED_OUT, "caught up"),
        (add(), ErrorCode.NOT_LEADER_OR_FOLLOWER, "does not lead"),
        (add(), ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.BROKER_NOT_AVAILABLE.text),
        (remove(), ErrorCode.UNSUPPORTED_VERSION, "controller.quorum.voters"),
        (remove(), ErrorCode.VOTER_NOT_FOUND, uuid_text(DIRECTORY)),
        (remove(), ErrorCode.INVALID_REQUEST, "the only voter"),
        (remove(), ErrorCode.REQUEST_TIMED_OUT, "another change"),
        (remove(), ErrorCode.NOT_LEADER_OR_FOLLOWER, "does not lead"),
        (remove(), ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.BROKER_NOT_AVAILABLE.text),
    ],
)
def test_a_refusal_of_the_leader_says_what_can_be_done(changing, message, error, text):
    async def test(node, probe, change):
        node.error = error
        response = await change(message)
        assert response.error_code == error
        assert text in response.error_message

    changing(test)


@pytest.mark.parametrize(
    ("message", "limit_s"),
    [
        (add(timeout_ms=5_000), 5),
        (add(timeout_ms=2**31 - 1), CHANGE_TIMEOUT_MAX_S),
        (remove(), CHANGE_TIMEOUT_MAX_S),
    ],
)
def test_a_change_that_is_not_committed_in_time_is_given_up(changing, world, message, limit_s):
    async def test(node, probe, change):
        node.error = UNANSWERED
        before = world.clock.monotonic()
        response = await change(message)
        assert world.clock.monotonic() - before == pytest.approx(limit_s)
        assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "It may still be" in response.error_message
        assert node.futures[0].cancelled()

    changing(test)


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31)])
def test_who_has_no_time_is_answered_at_once(changing, timeout_ms):
    async def test(node, probe, change):
        node.error = UNANSWERED
        response = await change(add(timeout_ms=timeout_ms))
        assert response.error_code == ErrorCode.REQUEST_TIMED_OUT

    changing(test)


def test_the_time_of_a_change_includes_that_of_the_question(changing):
    async def test(node, probe, change):
        probe.versions = UNANSWERED
        async with asyncio.timeout(2):
            response = await change(add(timeout_ms=1_000))
        assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert node.asked == []

    changing(test)
