"""`kafka-leader-election` and `kafka-cluster unregister`, in the words of Kafka's commands."""

from __future__ import annotations

import asyncio
import json

import pytest

from kits.admin_kit import AdminBroker
from kits.kafka_command_kit import ours
from moldau.cli.kafka.leader_election import CHOICES
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.brokers import UnregisterBrokerResponse
from moldau.protocol.messages.reassignment import (
    ElectLeadersPartitionResult,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
)

ELECT, UNREGISTER = 43, 64
ERRORS = "org.apache.kafka.common.errors"
NOT_AVAILABLE = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
ANSWER = ElectLeadersResponse(
    replica_election_results=[
        ElectLeadersTopicResult(
            "t",
            [
                ElectLeadersPartitionResult(0, 0, None),
                ElectLeadersPartitionResult(1, ErrorCode.ELECTION_NOT_NEEDED, "No need."),
                ElectLeadersPartitionResult(2, NOT_AVAILABLE, "It is away."),
                ElectLeadersPartitionResult(3, 0, None),
            ],
        )
    ]
)
ALL = ("--election-type", "preferred", "--all-topic-partitions")


class Asked:
    """Runs a command on a broker that gives one answer to an API."""

    def __init__(self, key, answer):
        self.key, self.answer, self.requests = key, answer, []

    def run(self, *words):
        return asyncio.run(self._run(words))

    async def _run(self, words):
        async with AdminBroker() as broker:
            if self.answer is not None:
                broker.serve(self.key, lambda one: one.answer(self.answer))
            where = ("--bootstrap-server", broker.address)
            output = await asyncio.to_thread(ours, *words, *where)
            self.requests = broker.requests(self.key)
        return output


def elect(*arguments, answer=ANSWER):
    asked = Asked(ELECT, answer)
    return asked.run("kafka-leader-election", *arguments), asked.requests


def test_what_became_of_partitions_is_said_in_three_lines():
    output, (request,) = elect(*ALL)
    assert output.lines == [
        "Successfully completed leader election (PREFERRED) for partitions t-0, t-3",
        "Valid replica already elected for partitions t-1",
        (
            "Error completing leader election (PREFERRED) for partition: t-2:"
            f" {ERRORS}.PreferredLeaderNotAvailableException: It is away."
        ),
    ]
    assert output.stderr == "1 replica(s) could not be elected\n"
    assert output.status == 1
    assert (request.election_type, request.topic_partitions) == (0, None)


def test_one_partition_or_those_of_a_file_are_asked_for(tmp_path):
    done = ElectLeadersResponse()
    output, (request,) = elect(
        "--election-type", "UNCLEAN", "--topic", "t", "--partition", 2, answer=done
    )
    assert (output.status, output.stdout, request.election_type) == (0, "", 1)
    assert [(one.topic, one.partitions) for one in request.topic_partitions] == [("t", [2])]
    file = tmp_path / "partitions.json"
    named = [{"topic": "a", "partition": 1}, {"topic": "b", "partition": 0}]
    file.write_text(json.dumps({"partitions": named}))
    _, (request,) = elect("--election-type", "preferred", "--path-to-json-file", file, answer=done)
    asked = [(one.topic, one.partitions) for one in request.topic_partitions]
    assert asked == [("a", [1]), ("b", [0])]


@pytest.mark.parametrize(
    ("code", "timeout_ms", "line"),
    [
        (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            60_000,
            "Not authorized to perform leader election\n",
        ),
        (ErrorCode.REQUEST_TIMED_OUT, 0, "Timeout waiting for election results\n"),
    ],
)
def test_an_election_that_is_refused_as_a_whole_is_said_on_both_streams(
    code, timeout_ms, line, tmp_path
):
    settings = tmp_path / "settings"
    settings.write_text(f"default.api.timeout.ms={timeout_ms}\n")
    refused = ElectLeadersResponse(error_code=code)
    output, _ = elect(*ALL, "--command-config", settings, answer=refused)
    assert (output.stdout, output.stderr, output.status) == (line, line, 1)


WHERE = ("--bootstrap-server", "localhost:1")
PREFERRED = (*WHERE, "--election-type", "preferred")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--topic", "t"), "Missing required option(s): bootstrap-server, election-type"),
        (WHERE, "Missing required option(s): election-type"),
        (
            PREFERRED,
            f"One and only one of the following options is required: {', '.join(CHOICES)}",
        ),
        ((*PREFERRED, "--topic", "t"), "Missing required option(s): partition"),
        (
            (*PREFERRED, "--all-topic-partitions", "--partition", "1"),
            "Option partition is only allowed if topic is used",
        ),
        (
            (*WHERE, "--election-type", "fair", "--all-topic-partitions"),
            "Cannot parse argument 'fair' of option election-type",
        ),
    ],
)
def test_a_command_line_that_cannot_be_is_refused(arguments, line):
    output = ours("kafka-leader-election", *arguments)
    assert (output.stdout, output.stderr, output.status) == ("", f"{line}\n", 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "Replica election data is empty"),
        ("{}", 'Replica election data is missing "partitions" field'),
        ('{"partitions": [{"topic": "t"}]}', "does not name topic and partition"),
        ('{"partitions": null}', '"partitions" is no list'),
        (
            json.dumps({"partitions": [{"topic": "t", "partition": 1}] * 2}),
            "Replica election data contains duplicate partitions: [t-1]",
        ),
    ],
)
def test_a_file_that_names_no_partitions_is_refused(tmp_path, text, said):
    file = tmp_path / "partitions.json"
    file.write_text(text)
    output = ours("kafka-leader-election", *PREFERRED, "--path-to-json-file", file)
    assert said in output.stderr
    assert output.status == 1


def unregister(answer):
    asked = Asked(UNREGISTER, answer)
    return asked.run("kafka-cluster", "unregister", "--id", 4), asked.requests


def test_a_broker_is_unregistered():
    output, (request,) = unregister(UnregisterBrokerResponse(error_message=None))
    assert (output.stdout, output.status) == ("Broker 4 is no longer registered.\n", 0)
    assert request.broker_id == 4


def test_a_broker_that_is_not_registered_is_an_error():
    code = ErrorCode.BROKER_ID_NOT_REGISTERED
    output, _ = unregister(UnregisterBrokerResponse(0, code, "No."))
    name = f"{ERRORS}.BrokerIdNotRegisteredException"
    assert (output.stdout, output.stderr, output.status) == ("", f"{name}: No.\n", 1)


def test_a_cluster_that_unregisters_no_brokers_is_said_to_and_that_is_no_failure():
    output, _ = unregister(None)
    said = "The target cluster does not support the broker unregistration API.\n"
    assert (output.stdout, output.status) == (said, 0)


def test_the_id_is_required():
    output = ours("kafka-cluster", "unregister", *WHERE)
    assert output.stderr.startswith("argument --id/-i is required\n")
    assert output.status == 1
