"""Permissions: what routes declare is Kafka's table, and what is declared is checked.

`tests/golden/api_permissions.tsv` has the rows of the page "Operations and Resources on Protocols"
of Kafka's documentation. Rows whose source is `code` are checks of Kafka's brokers (KafkaApis,
ControllerApis) that the page leaves out or, for ElectLeaders, names differently.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from kits.log_kit import HandClock
from kits.request_kit import connection, session
from moldau.base.errors import InvariantViolated
from moldau.observe.requests import RequestMetrics
from moldau.protocol.errors import ErrorCode
from moldau.protocol.registry import decode_response, encode_request, find_api
from moldau.security.authorizer import ALLOW_ALL, Resource
from moldau.security.operations import CLUSTER_NAME, AclOperation, AclResourceType
from moldau.server.api_permissions import API_PERMISSIONS, PREPARE_TRANSACTION
from moldau.server.network.dispatch import Dispatcher, Route
from moldau.server.network.permissions import DENIED, Check, unchecked
from moldau.testing import TestBroker

GOLDEN = Path(__file__).parents[2] / "golden"
NOT_SERVED = {"GetTelemetrySubscriptions", "PushTelemetry"}
HEARTBEAT = 12
NAME = "the resource"


def rows(file):
    lines = (GOLDEN / file).read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


class Denying:
    """Denies one operation on one type of resource, and keeps what it was asked."""

    def __init__(self, *denied):
        self.denied = denied
        self.asked = []

    def allows(self, asker, operation, resource):
        self.asked.append((asker, operation, resource))
        return (operation, resource.type) != self.denied


@pytest.fixture(scope="module")
def routes():
    with TestBroker() as broker:
        return broker._life._broker._dispatcher.routes


def declared():
    return {
        key: {(one.operation.name, one.resource.name) for one in permissions}
        for key, permissions in API_PERMISSIONS.items()
    }


def test_every_api_declares_the_permissions_of_kafkas_table():
    kafkas = {}
    for key, name, operation, resource, _ in rows("api_permissions.tsv"):
        assert find_api(int(key)).name == name
        permissions = kafkas.setdefault(int(key), set())
        if operation != "-":
            permissions.add((operation, resource))
    assert declared() == kafkas


def test_the_table_has_every_api_that_is_served(routes):
    names = {name for _, name, *_ in rows("api_ranges.tsv")} - NOT_SERVED
    assert {name for _, name, *_ in rows("api_permissions.tsv")} == names
    assert {key: route.permissions for key, route in routes.items()} == API_PERMISSIONS


def cases(check):
    return [
        pytest.param(key, one, id=f"{find_api(key).name}-{one.operation.name}-{one.resource.name}")
        for key, permissions in API_PERMISSIONS.items()
        for one in permissions
        if one.check is check
    ]


def request_of(api):
    """Make a request whose group or transaction has a name."""
    request = api.request()
    for field in ("group_id", "transactional_id"):
        if hasattr(request, field):
            setattr(request, field, NAME)
    return request


def guarded(key, authorizer, handled, permissions=None):
    """Return what dispatches requests to a handler that only notes them."""
    api = find_api(key)
    if permissions is None:
        permissions = [one for one in API_PERMISSIONS[key] if one.check is Check.BY_DISPATCH]

    def handle(request, context):
        handled.append(request)
        return api.response()

    versions = f"{api.versions.first}-{api.versions.last}"
    route = Route(key, versions, handle, RequestMetrics(), permissions)
    route.fast_path = lambda *_: pytest.fail("a fast path was taken without a check")
    return Dispatcher([route], HandClock(), None, authorizer=authorizer).handle


def answer(dispatch, key, version, asker=None):
    api = find_api(key)
    frame = b"".join(encode_request(api, version, 1, "client", request_of(api)))[4:]
    parts = dispatch(connection(asker), memoryview(frame))
    return decode_response(api, version, memoryview(b"".join(parts))[4:])


@pytest.mark.parametrize(
    ("key", "permission"),
    [case for case in cases(Check.BY_DISPATCH) if PREPARE_TRANSACTION not in case.values],
)
def test_a_denial_is_the_error_of_the_whole_response_in_every_version(key, permission, routes):
    operation, resource = permission.operation, permission.resource
    asker = session()
    for version in routes[key].versions:
        handled, authorizer = [], Denying(operation, resource)
        response = answer(guarded(key, authorizer, handled), key, version, asker)
        assert response.error_code == DENIED[resource] != ErrorCode.NONE
        assert not handled
        name = CLUSTER_NAME if resource is AclResourceType.CLUSTER else NAME
        assert authorizer.asked[-1] == (asker, operation, Resource(resource, name))


def test_two_phase_commit_is_asked_for_only_where_it_is_meant():
    request = request_of(find_api(22))
    assert PREPARE_TRANSACTION.name(request) is None
    request.enable_2pc = True
    assert PREPARE_TRANSACTION.name(request) == NAME


def test_a_permission_on_a_resource_that_is_not_named_is_not_needed():
    handled, authorizer = [], Denying(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID)
    dispatch = guarded(22, authorizer, handled)
    api = find_api(22)
    frame = b"".join(encode_request(api, 4, 1, "client", api.request(None, 1000)))[4:]
    dispatch(connection(), memoryview(frame))
    assert handled
    assert not authorizer.asked


def test_what_is_allowed_reaches_the_handler():
    handled, authorizer = [], Denying(AclOperation.DELETE, AclResourceType.GROUP)
    response = answer(guarded(HEARTBEAT, authorizer, handled), HEARTBEAT, 4)
    assert response.error_code == ErrorCode.NONE
    assert len(handled) == 1


def test_no_authorizer_can_be_used_while_a_handler_leaves_out_a_check():
    permissions = [unchecked(AclOperation.READ, AclResourceType.GROUP)]
    with pytest.raises(InvariantViolated, match="Heartbeat"):
        guarded(HEARTBEAT, Denying(), [], permissions)


def module_of(handler):
    return getattr(handler, "__module__", None) or type(handler).__module__


def asked_in(module):
    """List the permissions that a module's code asks for by `context.allows`."""
    tree = ast.parse(Path(sys.modules[module].__file__).read_text())
    return {
        (node.args[0].attr, node.args[1].attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "allows"
    }


def test_handlers_ask_for_the_permissions_that_are_theirs_to_check_and_for_no_other(routes):
    theirs = {}
    for route in routes.values():
        found = theirs.setdefault(module_of(route.handler), set())
        found.update(
            (one.operation.name, one.resource.name)
            for one in route.permissions
            if one.check is Check.BY_HANDLER
        )
    assert {module: asked_in(module) for module in theirs} == theirs
    assert any(theirs.values())


def test_without_acls_everything_is_allowed_and_nothing_stands_before_a_handler():
    assert ALLOW_ALL.allows(session(), AclOperation.READ, Resource(AclResourceType.TOPIC, "t"))
    handler = [].append
    route = Route(HEARTBEAT, "0-4", handler, RequestMetrics(), API_PERMISSIONS[HEARTBEAT])
    Dispatcher([route], HandClock(), None)
    assert route.handler is handler
