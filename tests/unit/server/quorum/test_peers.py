"""Requests to the other nodes of a quorum: to whom, in which version, and what is no answer."""

from __future__ import annotations

import asyncio
import functools
import itertools

import pytest

from kits.log_kit import make_batch
from kits.quorum_node import BEGIN, END, FETCH, PORT, VOTE, QuorumNode
from moldau.base.network import Address
from moldau.cluster.kraft.messages import NodeEndpoint, answer_message, refusal_message
from moldau.cluster.kraft.peers import PeerUnavailable
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
    VoteAnswer,
    VoteRequest,
)
from moldau.cluster.raft.voters import ReplicaKey, Voter, VoterEndpoint
from moldau.cluster.snapshots import SnapshotId
from moldau.engine.ports import ClientPorts
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages import data
from moldau.protocol.messages import raft as wire
from moldau.server.quorum import peer_links
from moldau.server.quorum import peers as peers_module
from moldau.server.quorum.peers import QuorumPeers
from moldau.sim.network import SimNetwork

CLUSTER = "cluster"
OWN = ReplicaKey(9, b"own directory id")
DIRECTORY = b"its directory id"
NONE = ErrorCode.NONE
SOON_S = 0.1
"""Longer than any question and answer on the simulated network."""


def vote(node=1, *, directory=bytes(16), epoch=5, is_pre_vote=False):
    return VoteRequest(
        CLUSTER, epoch, OWN, ReplicaKey(node, directory), LogEnd(4, 100), is_pre_vote
    )


def fetch(epoch=5, offset=7):
    return FetchRequest(CLUSTER, OWN, epoch, LogEnd(4, offset), 3, 0.5)


def says(answer, leader=None, records=b""):
    """Return what answers every request alike."""
    return lambda message: answer_message(message, answer, leader, records)


def votes(epoch=5, leader=-1, granted=True):
    return says(VoteAnswer(NONE, epoch, leader, granted))


def hears_of(leader, network_address=None):
    """Return the answer of a node that does not lead, but knows who does and where."""
    endpoint = network_address and NodeEndpoint(leader, *network_address)
    return says(FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, leader), endpoint)


def parks(_message):
    """Answer nothing."""


class Quorum:
    """Nodes on a network, and the way of node 9 to them."""

    def __init__(self, world):
        self.world = world
        self.network = SimNetwork(world)
        self.nodes = {number: QuorumNode(self.network, number) for number in (1, 2, 3)}
        self.known = {number: node.address for number, node in self.nodes.items()}
        self.peers = None

    async def start(self, *numbers):
        for number in numbers:
            await self.nodes[number].start()

    def connect(self, *bootstrap, timeout_ms=2_000):
        own = Voter(OWN, (VoterEndpoint("CONTROLLER", "node-9", PORT),))
        ports = ClientPorts(
            self.network.host("node-9"), self.world.clock, self.world.random("peers")
        )
        self.peers = QuorumPeers(
            own,
            [Address(f"node-{number}", PORT) for number in bootstrap],
            self.known.get,
            ports,
            client_id="node-9-quorum",
            request_timeout_ms=timeout_ms,
            fetch_bytes=1_000,
        )
        return self.peers


def in_quorum(*bootstrap):
    """Run a test with three nodes, and the way to them, which knows some bootstrap addresses."""

    def decorated(test):
        @functools.wraps(test)
        def run(world):
            async def main():
                quorum = Quorum(world)
                await quorum.start(1, 2, 3)
                quorum.connect(*bootstrap)
                await test(quorum, quorum.peers, quorum.nodes[1])
                await quorum.peers.close()
                await asyncio.sleep(1)
                streams = [one for node in quorum.nodes.values() for one in node.streams]
                assert all(one.over for one in streams)

            world.run(main())

        del run.__wrapped__
        return run

    return decorated


# Questions and answers


@in_quorum()
async def test_votes_travel_over_one_connection_in_the_newest_version(quorum, peers, node):
    node.answer = votes(epoch=6, leader=2, granted=False)
    for is_pre_vote in (True, False):
        request = vote(directory=DIRECTORY, is_pre_vote=is_pre_vote)
        assert await peers.ask(1, request) == VoteAnswer(NONE, 6, 2, granted=False)
        message, version = node.asked.pop()
        [partition] = message.topics[0].partitions
        assert (version, message.voter_id, partition.pre_vote) == (2, 1, is_pre_vote)
        assert partition.voter_directory_id == DIRECTORY
    assert len(node.streams) == 1


@in_quorum()
async def test_an_epoch_is_begun_and_ended_in_the_newest_version(quorum, peers, node):
    node.answer = says(BeginQuorumEpochAnswer(NONE, 5, 9))
    begin = BeginQuorumEpochRequest(CLUSTER, 5, 9, ReplicaKey(1, DIRECTORY))
    assert await peers.ask(1, begin) == BeginQuorumEpochAnswer(NONE, 5, 9)
    node.answer = says(EndQuorumEpochAnswer(ErrorCode.FENCED_LEADER_EPOCH, 6, 2))
    end = EndQuorumEpochRequest(CLUSTER, 5, 9, (ReplicaKey(1, DIRECTORY),))
    told = await peers.ask(1, end)
    assert told == EndQuorumEpochAnswer(ErrorCode.FENCED_LEADER_EPOCH, 6, 2)
    (begun, first), (ended, second) = node.asked
    assert (first, second) == (1, 1)
    assert [one.host for one in begun.leader_endpoints + ended.leader_endpoints] == ["node-9"] * 2


@in_quorum()
async def test_fetched_batches_are_returned_whole(quorum, peers, node):
    batches = [make_batch(base_offset=offset, leader_epoch=4) for offset in (7, 8)]
    answer = FetchAnswer(NONE, 5, 1, high_watermark=9)
    node.answer = says(answer, records=b"".join(batches) + batches[0][:30])
    told = await peers.ask(1, fetch())
    assert (told.high_watermark, told.epoch, told.leader) == (9, 5, 1)
    assert (told.batches[0].base_offset, told.batches[-1].end_offset) == (7, 9)
    assert {one.epoch for one in told.batches} == {4}
    [(message, version)] = node.asked
    assert (version, message.max_bytes) == (18, 1_000)


@in_quorum()
async def test_damaged_batches_are_no_answer(quorum, peers, node):
    batch = bytearray(make_batch(base_offset=7, leader_epoch=4))
    batch[-1] ^= 1
    node.answer = says(FetchAnswer(NONE, 5, 1, high_watermark=9), records=bytes(batch))
    with pytest.raises(PeerUnavailable):
        await peers.ask(1, fetch())


@in_quorum()
async def test_a_refused_fetch_has_no_batches(quorum, peers, node):
    node.answer = hears_of(2)
    told = await peers.ask(1, fetch())
    assert told == FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 2)
    node.answer = lambda message: refusal_message(message, ErrorCode.INCONSISTENT_CLUSTER_ID)
    told = await peers.ask(1, fetch())
    assert told == FetchAnswer(ErrorCode.INCONSISTENT_CLUSTER_ID, 0, -1)


@in_quorum()
async def test_a_part_of_a_snapshot_is_fetched(quorum, peers, node):
    snapshot = SnapshotId(50, 3)
    answer = FetchSnapshotAnswer(NONE, 5, 1, snapshot, 4, size=10)
    node.answer = says(answer, records=b"abc")
    told = await peers.ask(1, FetchSnapshotRequest(CLUSTER, OWN, 5, snapshot, 4))
    assert told == FetchSnapshotAnswer(NONE, 5, 1, snapshot, 4, b"abc", 10)


# Versions


@pytest.mark.parametrize("newest", [0, 1])
def test_a_pre_vote_is_not_sent_to_a_node_that_would_take_it_for_a_vote(world, newest):
    @in_quorum()
    async def check(quorum, peers, node):
        node.newest[VOTE] = newest
        told = await peers.ask(1, vote(is_pre_vote=True))
        assert told == VoteAnswer(ErrorCode.UNSUPPORTED_VERSION, 5, -1)
        assert node.asked == []

    check(world)


NAMING = [
    (VOTE, lambda directory: vote(directory=directory), VoteAnswer),
    (
        BEGIN,
        lambda directory: BeginQuorumEpochRequest(CLUSTER, 5, 9, ReplicaKey(1, directory)),
        BeginQuorumEpochAnswer,
    ),
    (
        END,
        lambda directory: EndQuorumEpochRequest(CLUSTER, 5, 9, (ReplicaKey(1, directory),)),
        EndQuorumEpochAnswer,
    ),
]


@pytest.mark.parametrize(("key", "request_for", "answer"), NAMING)
def test_voters_without_directories_are_asked_in_version_0_too(world, key, request_for, answer):
    @in_quorum()
    async def check(quorum, peers, node):
        node.newest[key] = 0
        node.answer = says(answer(NONE, 5, 1))
        assert await peers.ask(1, request_for(bytes(16))) == answer(NONE, 5, 1)
        assert node.asked[0][1] == 0

    check(world)


@pytest.mark.parametrize(("key", "request_for", "answer"), NAMING)
def test_a_voter_with_a_directory_is_asked_only_by_that(world, key, request_for, answer):
    @in_quorum()
    async def check(quorum, peers, node):
        node.newest[key] = 0
        node.answer = says(answer(NONE, 5, 1))
        with pytest.raises(PeerUnavailable, match="version 0"):
            await peers.ask(1, request_for(DIRECTORY))
        assert node.asked == []

    check(world)


@in_quorum()
async def test_the_log_is_fetched_from_version_12_on(quorum, peers, node):
    node.answer = says(FetchAnswer(NONE, 5, 1, high_watermark=3))
    node.newest[FETCH] = 12
    assert (await peers.ask(1, fetch())).high_watermark == 3
    node = quorum.nodes[2]
    node.answer = says(FetchAnswer(NONE, 5, 1, high_watermark=3))
    node.newest[FETCH] = 11
    with pytest.raises(PeerUnavailable, match="version 11"):
        await peers.ask(2, fetch())
    assert node.asked == []


@in_quorum()
async def test_a_node_that_is_no_controller_is_no_peer(quorum, peers, node):
    del node.newest[VOTE]
    with pytest.raises(PeerUnavailable, match="Vote"):
        await peers.ask(1, vote())


# Waiting


@in_quorum()
async def test_a_vote_does_not_wait_for_a_parked_fetch(quorum, peers, node):
    node.answer = parks
    fetching = asyncio.ensure_future(peers.ask(1, fetch()))
    await asyncio.sleep(SOON_S)
    node.answer = votes()
    assert (await peers.ask(1, vote())).granted
    vote_stream = len(node.streams)
    assert vote_stream == 2
    assert not fetching.done()
    fetching.cancel()


@in_quorum()
async def test_a_fetch_does_not_wait_for_one_that_was_given_up(quorum, peers, node):
    node.answer = parks
    given_up = []
    for _ in range(2):
        given_up.append(asyncio.ensure_future(peers.ask(1, fetch())))
        await asyncio.sleep(SOON_S)
    node.answer = says(FetchAnswer(NONE, 5, 1, high_watermark=3))
    async with asyncio.timeout(SOON_S):
        assert (await peers.ask(1, fetch())).high_watermark == 3
    for fetching in given_up:
        with pytest.raises(PeerUnavailable, match="asked anew"):
            await fetching
    assert [stream.over for stream in node.streams] == [True, True, False]


@in_quorum()
async def test_a_fetch_does_not_wait_for_one_that_was_cancelled(quorum, peers, node):
    node.answer = parks
    fetching = asyncio.ensure_future(peers.ask(1, fetch()))
    await asyncio.sleep(SOON_S)
    fetching.cancel()
    node.answer = says(FetchAnswer(NONE, 5, 1, high_watermark=3))
    await asyncio.sleep(0)
    for _ in range(3):
        assert (await peers.ask(1, fetch())).high_watermark == 3
    assert len(node.streams) == 2
    assert not peers._links._fetching


@in_quorum()
async def test_a_node_that_was_tried_in_vain_is_left_alone_for_a_moment(quorum, peers, node):
    node.kill()
    with pytest.raises(PeerUnavailable, match="refused"):
        await peers.ask(1, vote())
    before = quorum.world.clock.monotonic()
    with pytest.raises(PeerUnavailable, match="a moment ago"):
        await peers.ask(1, vote())
    with pytest.raises(PeerUnavailable):
        await peers.ask(1, fetch())
    with pytest.raises(PeerUnavailable, match="a moment ago"):
        await peers.ask(1, fetch())
    assert quorum.world.clock.monotonic() - before < SOON_S


@in_quorum()
async def test_a_node_that_is_back_is_reached_again_soon_however_long_it_was_away(
    quorum, peers, node
):
    node.kill()
    tries_s = []
    for _ in range(1_000):
        with pytest.raises(PeerUnavailable) as raised:
            await peers.ask(1, vote())
        if "refused" in str(raised.value):
            tries_s.append(quorum.world.clock.monotonic())
        await asyncio.sleep(0.01)
    waits_s = [later - earlier for earlier, later in itertools.pairwise(tries_s)]
    assert waits_s[0] < 0.05
    assert 0.1 < max(waits_s) < 0.3
    await node.start()
    node.answer = votes()
    await asyncio.sleep(0.25)
    assert (await peers.ask(1, vote())).granted


@in_quorum()
async def test_a_connection_that_is_lost_is_no_answer_and_soon_another_one(quorum, peers, node):
    node.answer = parks
    asking = asyncio.ensure_future(peers.ask(1, vote()))
    await asyncio.sleep(SOON_S)
    node.kill()
    with pytest.raises(PeerUnavailable):
        await asking
    await node.start()
    node.answer = votes()
    await asyncio.sleep(SOON_S)
    assert (await peers.ask(1, vote())).granted


@in_quorum()
async def test_a_machine_that_is_gone_without_a_word_is_not_waited_for_long(quorum, peers, node):
    quorum.network.crash(node.name, silent=True)
    async with asyncio.timeout(1.5):
        with pytest.raises(PeerUnavailable, match="no answer in time"):
            await peers.ask(1, vote())


@in_quorum()
async def test_an_answer_that_does_not_come_in_time_is_none(quorum, peers, node):
    node.answer = parks
    async with asyncio.timeout(2.5):
        with pytest.raises(PeerUnavailable):
            await peers.ask(1, vote())


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: wire.VoteResponse(),
        lambda _: wire.VoteResponse(topics=[wire.VoteTopicResponse("other")]),
        lambda message: answer_message(message, VoteAnswer(NONE, -7, 3), None),
    ],
)
def test_an_answer_that_makes_no_sense_is_none_and_the_next_one_may(world, answer):
    @in_quorum()
    async def check(quorum, peers, node):
        node.answer = answer
        with pytest.raises(PeerUnavailable):
            await peers.ask(1, vote())
        node.answer = votes()
        assert (await peers.ask(1, vote())).granted

    check(world)


# Where nodes are


@in_quorum()
async def test_a_node_without_an_address_is_not_asked(quorum, peers, node):
    with pytest.raises(PeerUnavailable, match="node 4 is not known"):
        await peers.ask(4, vote())


@in_quorum()
async def test_a_node_that_has_moved_is_asked_where_it_is_now(quorum, peers, node):
    node.answer = votes()
    await peers.ask(1, vote())
    await node.start(9999)
    quorum.known[1] = node.address
    assert (await peers.ask(1, vote())).granted
    assert [stream.over for stream in node.streams] == [True, False]


@in_quorum()
async def test_another_node_at_the_address_is_not_taken_for_the_one_that_is_meant(
    quorum, peers, node
):
    node.answer = votes()
    quorum.known[2] = node.address
    with pytest.raises(PeerUnavailable):
        await peers.ask(2, vote())
    assert node.asked == []


@in_quorum()
async def test_a_leader_is_found_where_an_answer_says_that_it_is(quorum, peers, node):
    del quorum.known[2]
    node.answer = hears_of(2, quorum.nodes[2].address)
    quorum.nodes[2].answer = says(FetchAnswer(NONE, 5, 2, high_watermark=3))
    with pytest.raises(PeerUnavailable):
        await peers.ask(2, fetch())
    await peers.ask(1, fetch())
    assert (await peers.ask(2, fetch())).high_watermark == 3


@in_quorum()
async def test_the_entries_of_voters_count_more_than_what_answers_say(quorum, peers, node):
    node.answer = hears_of(2, Address("nowhere", 1))
    quorum.nodes[2].answer = says(FetchAnswer(NONE, 5, 2, high_watermark=3))
    await peers.ask(1, fetch())
    assert (await peers.ask(2, fetch())).high_watermark == 3
    del quorum.known[2]
    with pytest.raises(PeerUnavailable, match="node 2 is not known"):
        await peers.ask(2, fetch())
    await peers.ask(1, fetch())  # and now it is heard that node 2 is nowhere
    quorum.known[2] = quorum.nodes[2].address
    assert (await peers.ask(2, fetch())).high_watermark == 3


@in_quorum()
async def test_of_leaders_that_answers_name_only_the_latest_are_remembered(quorum, peers, node):
    numbers = range(100, 100 + peers_module.TOLD_MAX + 1)
    for number in numbers:
        node.answer = hears_of(number, Address("node-2", PORT))
        await peers.ask(1, fetch())
    with pytest.raises(PeerUnavailable, match="node 100 is not known"):
        await peers.ask(100, vote())
    with pytest.raises(PeerUnavailable, match="belongs to another broker"):
        await peers.ask(101, vote())


def test_the_connections_have_an_end(world, monkeypatch):
    monkeypatch.setattr(peer_links, "LINKS_MAX", 2)

    @in_quorum()
    async def check(quorum, peers, node):
        for number in (1, 2, 1, 3):
            quorum.nodes[number].answer = votes()
            assert (await peers.ask(number, vote(number))).granted
        await asyncio.sleep(SOON_S)
        is_over = [one.over for node in quorum.nodes.values() for one in node.streams]
        assert is_over == [False, True, False]
        assert (await peers.ask(2, vote(2))).granted

    check(world)


# Bootstrap addresses


def heard(quorum):
    """Return how many requests each node has got."""
    return [len(node.asked) for node in quorum.nodes.values()]


@in_quorum(1, 2, 3)
async def test_any_node_is_one_bootstrap_address_after_the_other(quorum, peers, node):
    for one in quorum.nodes.values():
        one.answer = hears_of(2)
    for _ in range(6):
        assert (await peers.ask(None, fetch())).leader == 2
    assert heard(quorum) == [2, 2, 2]


@in_quorum(9, 1, 9)
async def test_a_node_does_not_ask_itself(quorum, peers, node):
    node.answer = hears_of(2)
    for _ in range(3):
        await peers.ask(None, fetch())
    assert heard(quorum) == [3, 0, 0]


@in_quorum(1, 2)
async def test_an_address_that_was_tried_in_vain_is_passed_over(quorum, peers, node):
    node.kill()
    quorum.nodes[2].answer = hears_of(3)
    failures = 0
    for _ in range(5):
        try:
            await peers.ask(None, fetch())
        except PeerUnavailable:
            failures += 1
    assert failures == 1
    assert heard(quorum) == [0, 4, 0]


@in_quorum(1, 2)
async def test_without_an_address_to_try_nobody_is_waited_for(quorum, peers, node):
    for number in (1, 2):
        quorum.nodes[number].kill()
        with pytest.raises(PeerUnavailable):
            await peers.ask(None, fetch())
    with pytest.raises(PeerUnavailable, match="no bootstrap address"):
        await peers.ask(None, fetch())


@in_quorum()
async def test_without_bootstrap_addresses_nobody_can_be_asked_for_the_leader(quorum, peers, node):
    with pytest.raises(PeerUnavailable, match="no bootstrap address"):
        await peers.ask(None, fetch())


@in_quorum(1)
async def test_whoever_is_at_a_bootstrap_address_is_welcome(quorum, peers, node):
    node.number = 77
    node.answer = hears_of(2)
    assert (await peers.ask(None, fetch())).leader == 2


# The end


@in_quorum(1)
async def test_the_end_fails_what_is_under_way_and_what_comes_later(quorum, peers, node):
    node.answer = parks
    asking = [asyncio.ensure_future(peers.ask(1, one)) for one in (vote(), fetch())]
    asking.append(asyncio.ensure_future(peers.ask(None, fetch())))
    await asyncio.sleep(SOON_S)
    quorum.network.crash("node-2", silent=True)
    asking.append(asyncio.ensure_future(peers.ask(2, vote(2))))  # still connecting
    await asyncio.sleep(0)
    await peers.close()
    for one in asking:
        with pytest.raises(PeerUnavailable):
            await one
    for to in (1, 2, None):
        with pytest.raises(PeerUnavailable, match="stopping"):
            await peers.ask(to, fetch())


@in_quorum()
async def test_nothing_is_left_of_an_attempt_to_reach_where_a_node_was(quorum, peers, node):
    quorum.network.crash(node.name, silent=True)
    asking = asyncio.ensure_future(peers.ask(1, vote()))
    await asyncio.sleep(SOON_S)
    quorum.known[1] = Address(node.name, 9999)
    moved = asyncio.ensure_future(peers.ask(1, vote()))
    await asyncio.sleep(0)
    await peers.close()
    for one in (asking, moved):
        with pytest.raises(PeerUnavailable):
            await one
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_messages_have_the_apis_that_the_other_nodes_are_asked_in():
    kinds = (wire.VoteRequest, wire.BeginQuorumEpochRequest, wire.EndQuorumEpochRequest)
    assert [kind.KEY for kind in (data.FetchRequest, *kinds)] == [FETCH, VOTE, BEGIN, END]
