"""Elections on demand, and brokers that are taken out of the cluster for good."""

from __future__ import annotations

import pytest

from kits.admin_kit import AdminBroker, admin_of, hang_up, in_turn
from kits.leaks import run_without_leaks
from moldau.client.admin import ElectionType
from moldau.client.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    ElectionNotNeeded,
    UnsupportedVersion,
)
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.brokers import UnregisterBrokerResponse
from moldau.protocol.messages.reassignment import (
    ElectLeadersPartitionResult,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
)

ELECT, UNREGISTER = 43, 64
GONE = UnregisterBrokerResponse(0, ErrorCode.BROKER_ID_NOT_REGISTERED, "no such broker")


def elected(**codes):
    """Answer for partitions of the topic t, given as p0=code."""
    results = [ElectLeadersPartitionResult(int(one[1:]), codes[one], "why") for one in codes]
    return ElectLeadersResponse(replica_election_results=[ElectLeadersTopicResult("t", results)])


def asked(key, answer, work, newest=None):
    """Run work on an admin of a broker with this answer; return its result and the requests."""

    async def run():
        async with AdminBroker() as broker:
            broker.serve(key, answer, newest)
            async with admin_of([broker]) as admin:
                return await work(admin), broker.requests(key)

    return run_without_leaks(run())


def test_each_partition_has_its_own_result():
    answer = elected(p0=0, p1=ErrorCode.ELECTION_NOT_NEEDED)
    results, (request,) = asked(
        ELECT, in_turn(answer), lambda admin: admin.elect_leaders([("t", 0), ("t", 1)])
    )
    assert results.ok == {("t", 0): None}
    assert isinstance(results.errors["t", 1], ElectionNotNeeded)
    assert request.election_type == ElectionType.PREFERRED
    assert [(one.topic, one.partitions) for one in request.topic_partitions] == [("t", [0, 1])]


def test_without_partitions_all_are_meant():
    results, (request,) = asked(
        ELECT,
        in_turn(elected()),
        lambda admin: admin.elect_leaders(election_type=ElectionType.UNCLEAN),
    )
    assert len(results) == 0
    assert (request.election_type, request.topic_partitions) == (ElectionType.UNCLEAN, None)


def test_an_old_broker_elects_no_unclean_leaders():
    with pytest.raises(UnsupportedVersion):
        asked(
            ELECT,
            in_turn(elected()),
            lambda admin: admin.elect_leaders(election_type=ElectionType.UNCLEAN),
            newest=0,
        )


def test_elections_are_asked_for_again_until_a_controller_is_there():
    answers = in_turn(
        ElectLeadersResponse(error_code=ErrorCode.NOT_CONTROLLER), hang_up, elected(p0=0)
    )
    results, requests = asked(ELECT, answers, lambda admin: admin.elect_leaders([("t", 0)]))
    assert (list(results.ok), len(requests)) == ([("t", 0)], 3)
    refused = ElectLeadersResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(ClusterAuthorizationFailed):
        asked(ELECT, in_turn(refused), lambda admin: admin.elect_leaders())


def unregister(*answers):
    return asked(UNREGISTER, in_turn(*answers), lambda admin: admin.unregister_broker(4))[1]


def test_a_broker_is_unregistered():
    (request,) = unregister(UnregisterBrokerResponse(error_message=None))
    assert request.broker_id == 4


def test_a_broker_that_is_gone_after_an_answer_was_lost_was_unregistered():
    assert len(unregister(hang_up, GONE)) == 2


@pytest.mark.parametrize(
    "answers", [[GONE], [UnregisterBrokerResponse(0, ErrorCode.NOT_CONTROLLER, None), GONE]]
)
def test_a_broker_that_never_was_there_is_an_error(answers):
    with pytest.raises(BrokerError, match="no such broker"):
        unregister(*answers)
