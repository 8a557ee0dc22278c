"""`kafka-metadata-quorum` prints what Kafka's command prints, and asks for what it asks for."""

from __future__ import annotations

import asyncio

import pytest

from kits.admin_kit import AdminBroker
from kits.kafka_command_kit import ours
from moldau.base.clock import SystemClock
from moldau.base.ids import uuid_text
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import (
    DescribeClusterResponse,
    DescribeQuorumPartitionResponse,
    DescribeQuorumResponse,
    DescribeQuorumTopicResponse,
    QuorumListener,
    QuorumNode,
    QuorumReplicaState,
)
from moldau.protocol.messages.raft import AddRaftVoterResponse, RemoveRaftVoterResponse

DESCRIBE, CLUSTER, ADD, REMOVE = 55, 60, 80, 81
NAME = "kafka-metadata-quorum"
DIRECTORY, NONE = bytes(15) + b"\1", bytes(16)
ID = uuid_text(DIRECTORY)
VOTERS = [QuorumReplicaState(1, NONE, 8, 700, 500), QuorumReplicaState(2, NONE, 10, 900, 900)]
OBSERVERS = [QuorumReplicaState(3, DIRECTORY, -1, -1, -1)]
LISTENERS = [QuorumListener("C", "h", 1), QuorumListener("D", "::1", 2)]


class Asked:
    """Runs the command on a broker of a quorum that node 2 leads."""

    def __init__(self, voters=VOTERS, observers=OBSERVERS, refusal=()):
        partition = DescribeQuorumPartitionResponse(0, 0, "", 2, 5, 9, voters, observers)
        topics = [DescribeQuorumTopicResponse("__cluster_metadata", [partition])]
        nodes = [QuorumNode(1, LISTENERS)]
        self.answers = {
            DESCRIBE: DescribeQuorumResponse(error_message="", topics=topics, nodes=nodes),
            CLUSTER: DescribeClusterResponse(cluster_id="the-cluster"),
            ADD: AddRaftVoterResponse(0, *refusal),
            REMOVE: RemoveRaftVoterResponse(0, *refusal),
        }
        self.requests = []

    def run(self, *arguments):
        return asyncio.run(self._run(arguments))

    async def _run(self, arguments):
        async with AdminBroker() as broker:
            for key, response in self.answers.items():
                broker.serve(key, lambda one, response=response: one.answer(response))
            where = ("--bootstrap-server", broker.address)
            output = await asyncio.to_thread(ours, NAME, *where, *arguments)
            self.requests = [one for key in (ADD, REMOVE) for one in broker.requests(key)]
        return output


def test_the_status_is_told_in_short():
    output = Asked().run("describe", "--status")
    assert (output.status, output.stderr) == (0, "")
    assert output.stdout.splitlines() == [
        "ClusterId:              the-cluster",
        "LeaderId:               2",
        "LeaderEpoch:            5",
        "HighWatermark:          9",
        "MaxFollowerLag:         2",
        "MaxFollowerLagTimeMs:   400",
        'CurrentVoters:          [{"id": 1, "endpoints": ["C://h:1", "D://[::1]:2"]}, {"id": 2}]',
        f'CurrentObservers:       [{{"id": 3, "directoryId": "{ID}"}}]',
    ]


def test_nobody_lags_behind_a_leader_that_is_last():
    output = Asked(voters=VOTERS[1:]).run("describe", "--status")
    assert "MaxFollowerLagTimeMs:   0\n" in output.stdout
    unheard = QuorumReplicaState(1, NONE, -1, -1, -1)
    output = Asked(voters=[unheard, VOTERS[1]]).run("describe", "--status")
    assert "MaxFollowerLag:         11\nMaxFollowerLagTimeMs:   -1\n" in output.stdout


def test_how_far_each_node_is_stands_in_a_table_with_the_leader_first():
    output = Asked().run("describe", "--replication")
    assert [line.split() for line in output.stdout.splitlines()[1:]] == [
        ["2", uuid_text(NONE), "10", "0", "900", "900", "Leader"],
        ["1", uuid_text(NONE), "8", "2", "700", "500", "Follower"],
        ["3", ID, "-1", "11", "-1", "-1", "Observer"],
    ]


def test_times_may_be_told_as_people_reckon(monkeypatch):
    monkeypatch.setattr(SystemClock, "wall_ms", staticmethod(lambda: 1000))
    asked = ("describe", "--replication", "--human-readable")
    rows = Asked().run(*asked).stdout.splitlines()
    assert "100 ms ago" in rows[1]
    assert "500 ms ago" in rows[2]
    monkeypatch.setattr(SystemClock, "wall_ms", staticmethod(lambda: 800))
    output = Asked().run(*asked)
    assert output.stderr.splitlines() == [
        "Error while computing relative time, possible drift in system clock.",
        "Current timestamp is 800, last fetch timestamp is 900",
    ]


def test_a_leader_that_is_being_removed_is_no_error_of_java():
    output = Asked(voters=VOTERS[:1]).run("describe", "--status")
    assert output.stderr == "Node 2 leads, and is being removed from the voters: try again\n"


@pytest.fixture
def config(tmp_path):
    (tmp_path / "meta.properties").write_text(f"directory.id={ID}\n")
    file = tmp_path / "server.properties"
    file.write_text(
        f"node.id=4\nprocess.roles=controller\nlisteners=C://h:1,D://[::1]:2\nlog.dirs={tmp_path}\n"
        "controller.listener.names=C,D\n"
    )
    return file


@pytest.mark.parametrize("option", ["--command-config", "--config"])
def test_a_controller_is_added_as_its_own_file_names_it(config, option):
    asked = Asked()
    named = f"controller 4 with directory id {ID} and endpoints: C://h:1, D://[::1]:2\n"
    output = asked.run("add-controller", option, config, "--dry-run")
    assert (output.stdout, asked.requests) == (f"DRY RUN of adding {named}", [])
    assert asked.run("add-controller", option, config).stdout == f"Added {named}"
    (request,) = asked.requests
    assert (request.voter_id, request.voter_directory_id) == (4, DIRECTORY)
    assert [one.port for one in request.listeners] == [1, 2]


def test_a_controller_is_removed_by_its_directory_too():
    asked = Asked()
    named = f" KRaft controller 4 with directory id {ID}\n"
    remove = ("remove-controller", "-i", 4, "-d", ID)
    output = asked.run(*remove, "--dry-run")
    assert (output.stdout, asked.requests) == (f"DRY RUN of removing {named}", [])
    assert asked.run(*remove).stdout == f"Removed {named}"
    (request,) = asked.requests
    assert (request.voter_id, request.voter_directory_id) == (4, DIRECTORY)


def test_what_the_leader_refuses_is_said_with_the_name_that_java_has_for_it(config):
    refused = Asked(refusal=(ErrorCode.DUPLICATE_VOTER, "No."))
    output = refused.run("add-controller", "--command-config", config)
    assert (output.stdout, output.status) == ("", 1)
    package = "org.apache.kafka.common.errors"
    assert output.stderr == f"{package}.DuplicateVoterException: No.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "too few arguments"),
        (("list",), "invalid choice: 'list'"),
        (("describe", "more", "--status"), "unrecognized arguments: 'more'"),
        (("describe",), "One of --status or --replication must be specified with describe"),
        (("describe", "--status", "--replication"), "Only one of --status or --replication"),
        (("describe", "--status", "--human-readable"), "The option --human-readable is only"),
        (("describe", "--status", "--dry-run"), "unrecognized arguments: '--dry-run'"),
        (("add-controller",), "You must supply the configuration file of the controller"),
        (("add-controller", "--status"), "unrecognized arguments: '--status'"),
        (("add-controller", "--config", "/nowhere"), "/nowhere: No such file or directory"),
        (("remove-controller", "-i", 4), 'Missing required argument "[controller-directory-id]"'),
        (("remove-controller", "-d", ID), 'Missing required argument "[controller-id]"'),
        (("remove-controller", "-i", -4, "-d", ID), "Invalid negative --controller-id: -4"),
        (("remove-controller", "-i", 4, "-d", "xx"), "Failed to parse --controller-directory-id"),
        (("describe", "--status", "--bootstrap-controller", "h:1"), "Brokers are asked here"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, said):
    asked = Asked()
    output = asked.run(*arguments)
    assert (output.status, output.stdout, asked.requests) == (1, "", [])
    assert output.stderr.startswith(said)
