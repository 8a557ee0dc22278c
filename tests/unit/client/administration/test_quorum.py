"""The quorum as the admin tells of it, and changes of voters whose answers get lost."""

from __future__ import annotations

import pytest

from kits.admin_kit import AdminBroker, admin_of, hang_up, in_turn
from kits.leaks import run_without_leaks
from moldau.client.admin import ControllerEndpoint, MetadataQuorum, QuorumReplica
from moldau.client.errors import (
    BrokerError,
    CorruptAnswer,
    InvalidArgument,
    RequestTimedOut,
    UnsupportedVersion,
)
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
FIRST, SECOND, THIRD = bytes(15) + b"\1", bytes(15) + b"\2", bytes(15) + b"\3"
PLACE = ControllerEndpoint("CONTROLLER", "h", 1)
STATE = {1: QuorumReplicaState(1, FIRST, 10, 900, 900), 2: QuorumReplicaState(2, SECOND, 8, 700, 0)}
UNHEARD = QuorumReplicaState(3, THIRD, -1, -1, -1)


def quorum(*voters, observers=(), error=0, nodes=()):
    partition = DescribeQuorumPartitionResponse(
        0, error, None, 1, 5, 9, list(voters), list(observers)
    )
    topics = [DescribeQuorumTopicResponse("__cluster_metadata", [partition])]
    return DescribeQuorumResponse(error_message="", topics=topics, nodes=list(nodes))


def asking(work, answers, newest=None):
    """Run work on an admin of a broker with these answers; return its result and the requests."""

    async def run():
        async with AdminBroker() as broker:
            for key, answer in answers.items():
                broker.serve(key, answer, newest)
            async with admin_of([broker]) as admin:
                return await work(admin), {key: broker.requests(key) for key in answers}

    return run_without_leaks(run())


def described(*answers, newest=None):
    return asking(
        lambda admin: admin.describe_metadata_quorum(), {DESCRIBE: in_turn(*answers)}, newest
    )[0]


def test_voters_and_observers_are_told_of_with_what_is_known():
    listener = QuorumListener("CONTROLLER", "h", 1)
    told = described(
        quorum(*STATE.values(), observers=[UNHEARD], nodes=[QuorumNode(1, [listener])])
    )
    leader = QuorumReplica(1, FIRST, 10, 900, 900, (PLACE,))
    follower, unheard = QuorumReplica(2, SECOND, 8, 700, 0), QuorumReplica(3, THIRD, *[None] * 3)
    assert told == MetadataQuorum(1, 5, 9, (leader, follower), (unheard,))
    assert told.leader == told.voter(1) == leader
    assert [told.lag(one) for one in (leader, follower, unheard)] == [0, 2, None]
    assert told.is_dynamic
    assert told.has_voter(2, SECOND)
    assert not told.has_voter(2, FIRST)
    assert told.voter(3) is None
    assert str(PLACE) == "CONTROLLER://h:1"
    assert str(ControllerEndpoint("C", "::1", 1)) == "C://[::1]:1"


def test_voters_of_the_settings_have_no_directories():
    told = described(quorum(QuorumReplicaState(2, bytes(16), 3)), newest=0)
    assert told.voters == (QuorumReplica(2, None, 3, None, None),)
    assert not told.is_dynamic
    assert told.leader is None
    assert told.lag(told.voters[0]) is None


def test_the_quorum_is_asked_for_again_while_it_has_no_leader():
    told = described(quorum(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), hang_up, quorum(STATE[1]))
    assert told.leader_id == 1


def test_an_answer_about_something_else_is_refused():
    with pytest.raises(CorruptAnswer):
        described(DescribeQuorumResponse(error_message=""))


def add(admin):
    return admin.add_raft_voter(2, SECOND, [PLACE])


def remove(admin):
    return admin.remove_raft_voter(2, SECOND)


def test_a_voter_is_asked_for_with_all_that_names_it():
    _, requests = asking(add, {ADD: in_turn(AddRaftVoterResponse())})
    (asked,) = requests[ADD]
    assert (asked.voter_id, asked.voter_directory_id) == (2, SECOND)
    assert [(one.name, one.host, one.port) for one in asked.listeners] == [PLACE]
    _, requests = asking(remove, {REMOVE: in_turn(RemoveRaftVoterResponse())})
    (asked,) = requests[REMOVE]
    assert (asked.voter_id, asked.voter_directory_id) == (2, SECOND)


@pytest.mark.parametrize(
    ("change", "key", "response", "code", "voters"),
    [
        (add, ADD, AddRaftVoterResponse, ErrorCode.DUPLICATE_VOTER, STATE.values()),
        (remove, REMOVE, RemoveRaftVoterResponse, ErrorCode.VOTER_NOT_FOUND, [STATE[1]]),
    ],
)
def test_a_change_is_done_that_was_asked_for_twice_because_the_answer_was_lost(
    change, key, response, code, voters
):
    refused = response(0, code, "no")
    done = in_turn(quorum(*voters))
    _, requests = asking(change, {key: in_turn(hang_up, refused), DESCRIBE: done})
    assert len(requests[key]) == 2
    for answers in (
        {key: in_turn(refused), DESCRIBE: done},  # nobody has asked for it before
        {key: in_turn(hang_up, refused), DESCRIBE: in_turn(quorum(UNHEARD, STATE[1], STATE[2])
         if change is remove else quorum(STATE[1]))},
    ):  # fmt: skip
        with pytest.raises(BrokerError, match="no") as caught:
            asking(change, answers)
        assert caught.value.code is code


def test_what_the_leader_has_given_up_is_not_asked_for_again():
    late = AddRaftVoterResponse(0, ErrorCode.REQUEST_TIMED_OUT, "it lags")
    with pytest.raises(RequestTimedOut, match="it lags"):
        asking(add, {ADD: in_turn(late, AddRaftVoterResponse())})
    moved = AddRaftVoterResponse(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, "ask node 2")
    _, requests = asking(add, {ADD: in_turn(moved, AddRaftVoterResponse())})
    assert len(requests[ADD]) == 2


def test_a_directory_has_an_id_of_sixteen_bytes():
    with pytest.raises(InvalidArgument, match="has 3"):
        asking(lambda admin: admin.remove_raft_voter(2, b"abc"), {})
    with pytest.raises(UnsupportedVersion):
        asking(add, {})
