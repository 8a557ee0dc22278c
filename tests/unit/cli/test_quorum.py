"""`moldau quorum` on a broker that tells of three voters and of a node that follows."""

from __future__ import annotations

import asyncio

import pytest

from kits.admin_kit import AdminBroker
from kits.cli_kit import moldau
from moldau.base.clock import SystemClock
from moldau.base.ids import uuid_text
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import (
    DescribeQuorumPartitionResponse,
    DescribeQuorumResponse,
    DescribeQuorumTopicResponse,
    QuorumListener,
    QuorumNode,
    QuorumReplicaState,
)
from moldau.protocol.messages.raft import AddRaftVoterResponse, RemoveRaftVoterResponse

DESCRIBE, ADD, REMOVE = 55, 80, 81
NOW_MS = 100_000
DIRECTORIES = {number: bytes(15) + bytes([number]) for number in range(1, 10)}
IDS = {number: uuid_text(one) for number, one in DIRECTORIES.items()}


def replica(node, directory=None, fetched_ms=NOW_MS, end=10):
    found = DIRECTORIES[directory or node]
    return QuorumReplicaState(node, found, end, fetched_ms, fetched_ms)


VOTERS = [replica(1), replica(2, fetched_ms=NOW_MS - 500, end=8), replica(3)]
FOLLOWER = replica(4, fetched_ms=NOW_MS - 90_400)


class Asked:
    """Runs commands on a broker of a quorum that node 1 leads."""

    def __init__(self, voters=VOTERS, observers=(FOLLOWER,), refusal=()):
        partition = DescribeQuorumPartitionResponse(0, 0, "", 1, 5, 9, voters, list(observers))
        topics = [DescribeQuorumTopicResponse("__cluster_metadata", [partition])]
        nodes = [QuorumNode(one.replica_id, [QuorumListener("C", "h", 1)]) for one in voters]
        self.answers = {
            DESCRIBE: DescribeQuorumResponse(error_message="", topics=topics, nodes=nodes),
            ADD: AddRaftVoterResponse(0, *refusal),
            REMOVE: RemoveRaftVoterResponse(0, *refusal),
        }
        self.requests = []

    def run(self, *words, form="json"):
        return asyncio.run(self._run(words, form))

    async def _run(self, words, form):
        async with AdminBroker() as broker:
            for key, response in self.answers.items():
                broker.serve(key, lambda one, response=response: one.answer(response))
            where = ("-b", broker.address, "-o", form)
            ran = await asyncio.to_thread(moldau, "quorum", *words, *where)
            self.requests = [one for key in (ADD, REMOVE) for one in broker.requests(key)]
        return ran

    def named(self):
        """Return the voter that the one request has named."""
        (request,) = self.requests
        return request.voter_id, request.voter_directory_id


def test_the_status_tells_of_every_node(monkeypatch):
    monkeypatch.setattr(SystemClock, "wall_ms", staticmethod(lambda: NOW_MS + 200))
    told = Asked().run("status").data
    assert (told["leader"], told["leader_epoch"], told["high_watermark"]) == (1, 5, 9)
    assert told["voters"][1] == {
        "node": 2, "role": "voter", "directory_id": IDS[2], "endpoints": ["C://h:1"],
        "end_offset": 8, "lag": 2, "silent_for": "700ms ago",
        "last_fetch_ms": NOW_MS - 500, "last_caught_up_ms": NOW_MS - 500,
    }  # fmt: skip
    rows = Asked().run("status", form="table").out.splitlines()[4:]
    assert [row.split()[:2] for row in rows] == [
        ["1", "leader"], ["2", "voter"], ["3", "voter"], ["4", "observer"],
    ]  # fmt: skip
    assert rows[3].endswith("1m30s ago")
    assert Asked().run("status", form="name").out == "1\n2\n3\n4\n"


def test_a_cluster_without_a_quorum_is_told_so():
    async def run():
        async with AdminBroker() as broker:
            return await asyncio.to_thread(moldau, "quorum", "status", "-b", broker.address)

    ran = asyncio.run(run())
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("moldau: there is no metadata quorum: ")


def test_a_node_that_follows_is_added_with_the_directory_that_it_has():
    asked = Asked()
    ran = asked.run("add", 4, "--endpoint", "[::1]:2")
    assert ran.data == [
        {"node": 4, "directory_id": IDS[4], "endpoints": ["C://[::1]:2"], "outcome": "added"}
    ]
    assert asked.named() == (4, DIRECTORIES[4])
    (listener,) = asked.requests[0].listeners
    assert (listener.name, listener.host, listener.port) == ("C", "::1", 2)
    asked.run("add", 5, "--directory-id", IDS[6], "--endpoint", "D://h:2")
    assert asked.named() == (5, DIRECTORIES[6])


def test_what_is_as_it_should_be_is_left_alone():
    asked = Asked()
    for words in (("add", 2), ("add", 2, "--directory-id", IDS[2])):
        ran = asked.run(*words)
        assert (ran.status, ran.data[0]["outcome"], asked.requests) == (0, "already a voter", [])
    ran = asked.run("replace", 2, "--wait", "1s")
    assert (ran.status, ran.data[0]["outcome"], asked.requests) == (0, "already a voter", [])


def test_a_voter_is_removed_with_the_directory_that_it_has():
    asked = Asked()
    ran = asked.run("remove", 2, "--yes")
    assert (ran.data[0]["outcome"], asked.named()) == ("removed", (2, DIRECTORIES[2]))


def test_a_lost_voter_is_replaced_step_by_step():
    voters = [replica(1), replica(2), replica(3, fetched_ms=NOW_MS - 9000)]
    asked = Asked(voters, [replica(3, 7)])
    ran = asked.run("replace", 3, "--yes")
    assert (ran.status, ran.data[0]["directory_id"]) == (0, IDS[7])
    assert ran.err.splitlines() == [
        f"moldau: removed voter 3 with directory {IDS[3]}",
        f"moldau: added voter 3 with directory {IDS[7]}",
    ]
    added, removed = asked.requests
    assert added.voter_directory_id == DIRECTORIES[7]
    assert removed.voter_directory_id == DIRECTORIES[3]


@pytest.mark.parametrize("words", [("add", 4, "--endpoint", "h:1"), ("remove", 2), ("replace", 3)])
def test_a_dry_run_changes_nothing(words):
    voters = [replica(1), replica(2), replica(3, fetched_ms=NOW_MS - 900)]
    asked = Asked(voters, [FOLLOWER, replica(3, 7)])
    ran = asked.run(*words, "--dry-run")
    assert (ran.status, asked.requests) == (0, [])
    assert ran.data[0]["outcome"].startswith("would be ")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("add",), 2, "name a NODE, or its file with --config"),
        (("add", 4), 1, "the address of node 4 is missing: use --endpoint HOST:PORT"),
        (("add", 5, "--endpoint", "h:1"), 1, "node 5 is not an observer"),
        (("add", 4, "--endpoint", "h"), 1, "'h' is not an endpoint"),
        (("add", 4, "--directory-id", "x", "--endpoint", "h:1"), 1, "--directory-id: "),
        (("add", 2, "--directory-id", IDS[9]), 1, "moldau quorum replace 2"),
        (("add", "--config", "/nowhere"), 1, "cannot read /nowhere"),
        (("add", 4, "--config", "/nowhere"), 2, "--config names the node"),
        (("remove", 4), 1, "node 4 is not a voter (voters: 1, 2, 3)"),
        (("remove", 2, "--directory-id", IDS[9]), 1, f"node 2 is a voter with directory {IDS[2]}"),
        (("remove", 2), 1, "Use --yes to do it"),
        (("replace", 4, "--wait", "0"), 1, "node 4 is not an observer with a new directory"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_line(words, status, said):
    asked = Asked()
    ran = asked.run(*words)
    assert (ran.status, ran.out, asked.requests) == (status, "", [])
    assert said in ran.err.splitlines()[-1]


def test_what_the_leader_refuses_is_the_whole_line():
    refused = Asked(refusal=(ErrorCode.REQUEST_TIMED_OUT, "Node 4 lags. Try again."))
    ran = refused.run("add", 4, "--endpoint", "h:1")
    assert (ran.status, ran.err) == (1, "moldau: Node 4 lags. Try again.\n")


def test_voters_of_the_settings_are_changed_there():
    static = [QuorumReplicaState(1, bytes(16), 10, NOW_MS, NOW_MS)]
    for words in (("add", 4), ("remove", 1), ("replace", 1)):
        ran = Asked(static, []).run(*words)
        assert ran.status == 1
        assert "controller.quorum.voters sets the voters" in ran.err
