"""DescribeCluster where controllers listen: controllers by the listener asked, never brokers."""

from types import SimpleNamespace

import pytest

from moldau.base.ids import BrokerId
from moldau.cluster.model import Endpoint, RegisteredController
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import DescribeClusterRequest
from moldau.security.session import SecurityProtocol
from moldau.server.handlers.describe_controllers import DescribeControllers
from moldau.server.handlers.discovery import BROKERS, CONTROLLERS


def endpoint(listener, host, port):
    return Endpoint(listener, host, port, SecurityProtocol.PLAINTEXT)


OWN = (endpoint("CONTROLLER", "own", 9093),)


def asked(listener, registered, endpoint_type=CONTROLLERS):
    controllers = {
        BrokerId(node): RegisteredController(BrokerId(node), bytes(16), endpoints)
        for node, endpoints in registered.items()
    }
    image = SimpleNamespace(cluster_id="abc", controllers=controllers)
    handler = DescribeControllers(lambda: image, lambda: 3, BrokerId(1), OWN)
    context = SimpleNamespace(session=SimpleNamespace(listener=listener))
    return handler(DescribeClusterRequest(endpoint_type=endpoint_type), context)


@pytest.mark.parametrize(
    ("listener", "told"),
    [("CONTROLLER", [(2, "b", 1), (3, "c", 2)]), ("SECOND", [(3, "d", 3)]), ("OTHER", [])],
)
def test_controllers_are_named_by_their_address_on_the_listener_of_the_question(listener, told):
    registered = {
        3: (endpoint("CONTROLLER", "c", 2), endpoint("SECOND", "d", 3)),
        2: (endpoint("CONTROLLER", "b", 1),),
    }
    answer = asked(listener, registered)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "abc", 3)
    assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == told


def test_a_sole_controller_which_is_not_registered_names_itself():
    (own,) = asked("CONTROLLER", {}).brokers
    assert (own.broker_id, own.host, own.port) == (1, "own", 9093)


def test_brokers_are_not_named():
    answer = asked("CONTROLLER", {}, BROKERS)
    assert answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert (answer.endpoint_type, answer.brokers) == (CONTROLLERS, [])
