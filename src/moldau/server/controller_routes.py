"""Which APIs a controller's listeners serve: those of other nodes, and what they forward.

Clients never come here, only tools of operators (`--bootstrap-controller`). Of these APIs,
ApiVersions, DescribeCluster and the forwarded ones alone are for them: whoever can send a
BrokerRegistration or an AlterPartition can take a partition over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from moldau.cluster.controller import Controller
from moldau.security.operations import AclOperation
from moldau.server.api_permissions import API_PERMISSIONS
from moldau.server.handlers.api_versions import ApiVersionsHandler
from moldau.server.handlers.controller_registration import ControllerRegistrationHandler
from moldau.server.handlers.describe_controllers import DescribeControllers
from moldau.server.handlers.members import MemberHandlers
from moldau.server.network.dispatch import Dispatcher, Route
from moldau.server.network.permissions import on_cluster
from moldau.server.nodes.controller_endpoints import controller_endpoints
from moldau.server.nodes.forwarding import FORWARDED
from moldau.server.nodes.inner_requests import EnvelopeHandler, while_active
from moldau.server.parts import Parts

NODE_PERMISSIONS: Final = (on_cluster(AclOperation.CLUSTER_ACTION),)


Row = tuple[int, str, Callable[..., Any]]
"""An API's key, the versions served, and who serves them."""


def make_controller_dispatcher(
    parts: Parts, controller: Controller, metadata: Sequence[Row], routes: Sequence[Route]
) -> Dispatcher:
    """Put together what answers other nodes; `routes` are those of this node's broker.

    Their handlers answer what was forwarded, as if the client had asked this broker. `metadata`
    serves the log of the metadata.
    """
    metrics, clock = parts.metrics, parts.ports.clock
    members = MemberHandlers(controller)
    api_versions = ApiVersionsHandler(parts.image, parts.broker_id, parts.kraft_levels)
    forwarded = [
        Route(one.api.key, FORWARDED[one.api.key], one.handler, metrics, one.permissions)
        for one in routes
        if one.api.key in FORWARDED
    ]
    inner = Dispatcher(forwarded, clock, api_versions.unsupported, metrics.lag)
    envelopes = EnvelopeHandler(
        inner.handle,
        FORWARDED,
        parts.ports.memory,
        frame_limit=parts.settings.socket_request_max_bytes,
    )

    def row(key: int, versions: str, handler: Callable[..., Any]) -> Route:
        return Route(key, versions, handler, metrics, NODE_PERMISSIONS)

    own = [
        *(row(*one) for one in metadata),
        Route(18, "0-5", api_versions, metrics, API_PERMISSIONS[18]),
        row(56, "2-3", members.alter_partitions),
        row(58, "0", while_active(controller, envelopes)),
        Route(60, "0-2", _describe_controllers(parts), metrics, API_PERMISSIONS[60]),
        row(62, "0-4", members.register),
        row(63, "0-2", members.heartbeat),
        row(67, "0", members.allocate_producer_ids),
        row(70, "0", ControllerRegistrationHandler(controller)),
        row(73, "0", members.assign_directories),
    ]
    table = [*own, *forwarded]
    api_versions.serve(table)
    return Dispatcher(table, clock, api_versions.unsupported, metrics.lag)


def _describe_controllers(parts: Parts) -> DescribeControllers:
    own = controller_endpoints(parts.settings.listeners)
    return DescribeControllers(parts.image, lambda: parts.store.leader_id, parts.broker_id, own)
