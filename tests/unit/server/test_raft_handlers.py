"""What nodes of a quorum ask each other goes to the core and back, with bytes and addresses."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kits import request_kit
from moldau.base.files import FileRegion
from moldau.cluster.kraft.messages import answer_of, leader_address, request_message
from moldau.cluster.raft.log_position import LogEnd
from moldau.cluster.raft.requests import (
    BeginQuorumEpochAnswer,
    BeginQuorumEpochRequest,
    EndQuorumEpochAnswer,
    EndQuorumEpochRequest,
    FetchAnswer,
    FetchRequest,
    FetchSnapshotAnswer,
    FetchSnapshotRequest,
    UpdateVoterRequest,
    VoteAnswer,
    VoterChangeAnswer,
    VoteRequest,
)
from moldau.cluster.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages import raft as wire
from moldau.server.handlers.raft import ANSWER_BYTES_MAX, RaftHandlers
from moldau.sim.disk import SimDisk

CLUSTER = "cluster"
OTHER = ReplicaKey(2, b"another node's d")
ENDPOINTS = (VoterEndpoint("INTERNAL", "node-2.local", 1), VoterEndpoint("CONTROLLER", "node-2", 9))
SENDER = Voter(OTHER, ENDPOINTS)
FETCH = FetchRequest(CLUSTER, OTHER, 5, LogEnd(4, 100), 3, 0.5)
FETCH_SNAPSHOT = FetchSnapshotRequest(CLUSTER, OTHER, 5, SnapshotId(50, 3), 4)
ELECTION = [
    (
        VoteRequest(CLUSTER, 5, OTHER, ReplicaKey(1), LogEnd(4, 100), is_pre_vote=True),
        VoteAnswer(ErrorCode.NONE, 5, 2, granted=True),
    ),
    (
        BeginQuorumEpochRequest(CLUSTER, 5, 2, ReplicaKey(1)),
        BeginQuorumEpochAnswer(ErrorCode.FENCED_LEADER_EPOCH, 6, 2),
    ),
    (
        EndQuorumEpochRequest(CLUSTER, 5, 2, (ReplicaKey(1),)),
        EndQuorumEpochAnswer(ErrorCode.NONE, 5, 2),
    ),
]


class Node:
    """A node that keeps what it is asked until a test answers."""

    def __init__(self):
        self.leader = 2
        self.voters = VoterSet((Voter(ReplicaKey(1)), SENDER))
        self.asked = []

    def ask(self, request, max_bytes):
        future = asyncio.get_running_loop().create_future()
        self.asked.append((request, max_bytes, future))
        return future

    def answer(self, answer, region=None):
        self.asked[-1][2].set_result(SimpleNamespace(answer=answer, region=region))


@pytest.fixture
def asking(world):
    """Run a test with a node and its handlers."""

    def run(test):
        async def main():
            node = Node()
            await test(node, RaftHandlers(node, 1))

        world.run(main())

    return run


def message_for(request, max_bytes=1 << 20):
    return request_message(request, SENDER, max_bytes)


def context(listener="CONTROLLER"):
    return request_kit.context(asker=request_kit.session(listener=listener))


def region_of(world, content):
    disk = SimDisk(world.random("disk"))
    file = disk.open("/file", create=True)
    file.append([content])
    return FileRegion(file, 0, len(content))


@pytest.mark.parametrize(("request_", "answer"), ELECTION)
def test_what_elections_ask_is_answered_with_where_the_leader_is(asking, request_, answer):
    async def test(node, handlers):
        answering = handlers.take_part(message_for(request_), context())
        [(asked, max_bytes, _)] = node.asked
        assert (asked, max_bytes) == (request_, 0)
        node.answer(answer)
        response = await answering
        assert answer_of(request_, response) == answer
        assert leader_address(response) == (2, ("node-2", 9))

    asking(test)


def test_a_voter_that_has_moved_hears_who_leads(asking):
    async def test(node, handlers):
        message = wire.UpdateRaftVoterRequest(
            CLUSTER,
            5,
            3,
            OTHER.directory,
            [wire.RaftListener("CONTROLLER", "node-3", 9)],
            wire.RaftVersionFeature(0, 1),
        )
        answering = handlers.take_part(message, context())
        [(asked, _, _)] = node.asked
        assert asked == UpdateVoterRequest(
            CLUSTER,
            5,
            Voter(ReplicaKey(3, OTHER.directory), (VoterEndpoint("CONTROLLER", "node-3", 9),)),
        )
        node.answer(VoterChangeAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 6, 2))
        response = await answering
        leader = response.current_leader
        assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (leader.leader_id, leader.leader_epoch) == (2, 6)
        assert (leader.host, leader.port) == ("node-2", 9)

    asking(test)


def test_addresses_are_those_of_the_listener_that_the_request_came_in_by(asking):
    async def test(node, handlers):
        message = message_for(ELECTION[0][0])
        for listener, address in [("INTERNAL", ("node-2.local", 1)), ("OTHER", None)]:
            answering = handlers.take_part(message, context(listener))
            node.answer(VoteAnswer(ErrorCode.NONE, 5, 2))
            assert leader_address(await answering) == (address and (2, address))

    asking(test)


@pytest.mark.parametrize("leader", [-1, 1, 77])
def test_a_leader_without_an_address_is_named_without_one(asking, leader):
    async def test(node, handlers):
        answering = handlers.take_part(message_for(ELECTION[0][0]), context())
        node.answer(VoteAnswer(ErrorCode.NONE, 5, leader))
        response = await answering
        assert response.topics[0].partitions[0].leader_id == leader
        assert response.node_endpoints == []

    asking(test)


def test_a_vote_of_the_first_version_is_for_the_node_that_gets_it(asking):
    async def test(node, handlers):
        message = message_for(ELECTION[0][0])
        message.voter_id = -1
        handlers.take_part(message, context())
        assert node.asked[0][0].voter == ReplicaKey(1)

    asking(test)


def test_a_fetch_is_answered_with_a_region_of_the_log(asking, world):
    async def test(node, handlers):
        answering = handlers.fetch(message_for(FETCH), context())
        [(asked, max_bytes, _)] = node.asked
        assert (asked, max_bytes) == (FETCH, 1 << 20)
        region = region_of(world, b"records")
        node.answer(FetchAnswer(ErrorCode.NONE, 5, 2, high_watermark=99), region)
        response = await answering
        [partition] = response.responses[0].partitions
        assert tuple(partition.records) == (region,)
        assert partition.high_watermark == 99
        assert leader_address(response) == (2, ("node-2", 9))

    asking(test)


def test_a_fetch_that_finds_nothing_has_no_records(asking):
    async def test(node, handlers):
        answering = handlers.fetch(message_for(FETCH), context())
        node.answer(FetchAnswer(ErrorCode.NONE, 5, 2, high_watermark=99))
        assert answer_of(FETCH, await answering).high_watermark == 99

    asking(test)


def test_a_part_of_a_snapshot_is_a_region_of_its_file(asking, world):
    async def test(node, handlers):
        answering = handlers.fetch(message_for(FETCH_SNAPSHOT), context())
        assert node.asked[0][:2] == (FETCH_SNAPSHOT, 1 << 20)
        region = region_of(world, b"part")
        answer = FetchSnapshotAnswer(ErrorCode.NONE, 5, 2, FETCH_SNAPSHOT.snapshot, 4, size=50)
        node.answer(answer, region)
        [partition] = (await answering).topics[0].partitions
        assert tuple(partition.unaligned_records) == (region,)
        assert (partition.position, partition.size) == (4, 50)

    asking(test)


@pytest.mark.parametrize("request_", [FETCH, FETCH_SNAPSHOT])
@pytest.mark.parametrize(("wanted", "given"), [(2**31 - 1, ANSWER_BYTES_MAX), (-1, 0), (7, 7)])
def test_an_answer_has_a_largest_size(asking, request_, wanted, given):
    async def test(node, handlers):
        handlers.fetch(message_for(request_, wanted), context())
        assert node.asked[0][1] == given

    asking(test)


@pytest.mark.parametrize("request_", [FETCH, FETCH_SNAPSHOT])
def test_what_makes_no_sense_does_not_reach_the_core(asking, request_):
    async def test(node, handlers):
        message = message_for(request_)
        message.topics = []
        response = handlers.fetch(message, context())
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert node.asked == []

    asking(test)


def test_an_election_that_makes_no_sense_does_not_reach_the_core(asking):
    async def test(node, handlers):
        message = message_for(ELECTION[0][0])
        message.topics = []
        response = handlers.take_part(message, context())
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert node.asked == []

    asking(test)


def test_a_request_ends_with_its_connection(asking):
    async def test(node, handlers):
        answering = handlers.fetch(message_for(FETCH), context())
        assert isinstance(answering, asyncio.Future)
        assert not isinstance(answering, asyncio.Task)  # a stop would wait for it
        answering.cancel()
        await asyncio.sleep(0)
        assert node.asked[0][2].cancelled()

    asking(test)


def test_an_answer_may_come_in_the_moment_in_which_the_connection_ends(asking):
    async def test(node, handlers):
        answering = handlers.fetch(message_for(FETCH), context())
        node.answer(FetchAnswer(ErrorCode.NONE, 5, 2))
        answering.cancel()
        await asyncio.sleep(0)
        assert answering.cancelled()

    asking(test)


def test_a_node_that_ends_ends_the_connections_of_those_that_wait(asking):
    async def test(node, handlers):
        answering = handlers.fetch(message_for(FETCH), context())
        node.asked[0][2].cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering

    asking(test)


def test_a_bug_in_an_answer_is_told_to_the_connection(asking):
    async def test(node, handlers):
        answering = handlers.fetch(message_for(FETCH), context())
        node.asked[0][2].set_exception(RuntimeError("a bug"))
        with pytest.raises(RuntimeError, match="a bug"):
            await answering

    asking(test)
