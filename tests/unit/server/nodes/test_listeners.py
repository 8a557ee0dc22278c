"""Which listener serves what: nodes on the controller's, clients on the others, nothing on both."""

from __future__ import annotations

import pytest

from kits.node_kit import Nodes
from kits.request_kit import connection, context, session
from kits.slicing import finished
from moldau.base.errors import ProtocolError
from moldau.cluster.model import ResourceType
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.brokers import BrokerRegistrationRequest
from moldau.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.protocol.messages.data import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.metadata import ApiVersionsRequest
from moldau.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from moldau.protocol.registry import api_of, encode_request
from moldau.server.nodes.forwarding import FORWARDED

FETCH, API_VERSIONS, ADD_PARTITIONS, DESCRIBE_CLUSTER = 1, 18, 24, 60
OF_NODES = {56, 58, 59, 62, 63, 67, 70, 73}
"""AlterPartition, Envelope, FetchSnapshot, BrokerRegistration, BrokerHeartbeat,
AllocateProducerIds, ControllerRegistration, AssignReplicasToDirs."""
ALTER_CONFIGS, INCREMENTAL = 33, 44


def with_nodes(test):
    """Run a test with a voter and a broker that observes it."""

    def run(world):
        async def scenario():
            nodes = Nodes(world)
            voter, broker = nodes.node(1), nodes.node(2)
            await voter.start()
            await broker.start()
            await test(voter, broker)
            await broker.stop()
            await voter.stop()

        world.run(scenario())

    return run


def frame_of(request, version):
    parts = encode_request(api_of(type(request)), version, 1, "test", request)
    return memoryview(b"".join(parts)[4:])


@with_nodes
async def test_a_controller_serves_nodes_and_what_they_forward_and_nothing_else(voter, broker):
    served = set(voter._controller_dispatcher.routes)
    assert served == OF_NODES | {FETCH, API_VERSIONS, DESCRIBE_CLUSTER} | set(FORWARDED)
    assert broker._controller_dispatcher is None


@with_nodes
async def test_no_broker_serves_what_is_for_nodes(voter, broker):
    for node in (voter, broker):
        assert not OF_NODES & set(node._dispatcher.routes)
        with pytest.raises(ProtocolError, match="API key 62 is unknown or not served"):
            node._dispatcher.handle(connection(), frame_of(BrokerRegistrationRequest(), 0))


@with_nodes
async def test_what_is_advertised_is_what_is_served(voter, broker):
    for dispatcher in (voter._controller_dispatcher, voter._dispatcher, broker._dispatcher):
        route = dispatcher.routes[API_VERSIONS]
        answer = route.handler(ApiVersionsRequest(), context(version=2))
        assert {one.api_key for one in answer.api_keys} == set(dispatcher.routes)


@with_nodes
async def test_every_request_of_nodes_needs_the_permission_of_a_node(voter, broker):
    for key in OF_NODES:
        (permission,) = voter._controller_dispatcher.routes[key].permissions
        assert permission.operation.name == "CLUSTER_ACTION"


@with_nodes
async def test_brokers_forward_what_the_controller_answers(voter, broker):
    forwarded = {key for key, route in broker._dispatcher.routes.items() if route.forward}
    assert forwarded == set(FORWARDED)
    assert not any(route.forward for route in voter._dispatcher.routes.values())


@with_nodes
async def test_levels_of_loggers_are_not_forwarded(voter, broker):
    config = IncrementalAlterableConfig("moldau.server", 0, "DEBUG")

    def resource(kind):
        return IncrementalAlterConfigsRequest(
            [IncrementalAlterConfigsResource(kind, "2", [config])]
        )

    for key, route in broker._dispatcher.routes.items():
        assert (route.is_own is not None) == (key in {ALTER_CONFIGS, INCREMENTAL})
    is_own = broker._dispatcher.routes[INCREMENTAL].is_own
    assert is_own(resource(ResourceType.BROKER_LOGGER))
    assert not is_own(resource(ResourceType.BROKER))
    assert not is_own(resource(ResourceType.TOPIC))


@with_nodes
async def test_followers_are_served_on_the_listener_of_brokers_only(voter, broker):
    is_for_brokers = voter._dispatcher.routes[FETCH].handler._is_for_brokers
    assert is_for_brokers(session(listener="PLAINTEXT"))
    assert not is_for_brokers(session(listener="CLIENTS"))
    assert not is_for_brokers(session(listener="CONTROLLER"))


@with_nodes
async def test_transactions_of_other_brokers_are_served_on_their_listener_only(voter, broker):
    """Versions 4 and later may add internal topics, and name producers of anybody."""
    handler = voter._dispatcher.routes[ADD_PARTITIONS].handler
    topics = [AddPartitionsToTxnTopic("__consumer_offsets", [0])]
    asked = AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("t", 1, 0, False, topics)])

    def refusal(listener, version):
        asker = session(listener=listener)
        return finished(handler(asked, context(version=version, asker=asker))).error_code

    for version in (4, 5):
        assert refusal("CLIENTS", version) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert refusal("PLAINTEXT", version) == ErrorCode.NONE


@with_nodes
async def test_a_controller_serves_no_data(voter, broker):
    fetch = voter._controller_dispatcher.routes[FETCH].handler
    wanted = FetchTopic("words", b"w" * 16, [FetchPartition(0)])
    answer = fetch(FetchRequest(max_wait_ms=0, topics=[wanted]), context(version=13))
    assert answer.error_code != ErrorCode.NONE or all(
        one.error_code for topic in answer.responses for one in topic.partitions
    )
