"""What a broker on ZooKeeper serves to other brokers, on the listener between brokers.

The commands of the controller, and what brokers ask the controller, which may be this broker. No
client is served these: whoever can send one can take a partition over. So where clients have a
listener of their own, such a request there is one of an unknown kind, and ends its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from moldau.base.errors import ProtocolError
from moldau.cluster.zookeeper.store import ZooKeeperStore
from moldau.security.operations import AclOperation
from moldau.server.handlers.commands import CommandHandlers
from moldau.server.handlers.members import MemberHandlers
from moldau.server.network.dispatch import Dispatcher, RequestContext, Route
from moldau.server.network.permissions import on_cluster
from moldau.server.nodes.forwarding import FORWARDED
from moldau.server.nodes.inner_requests import EnvelopeHandler, while_active
from moldau.server.parts import Parts
from moldau.server.zookeeper.role_answers import RoleAnswers

NODE_PERMISSIONS: Final = (on_cluster(AclOperation.CLUSTER_ACTION),)


def elected_routes(
    parts: Parts,
    store: ZooKeeperStore,
    routes: Sequence[Route],
    unsupported: Callable[[], Any],
) -> list[Route]:
    """Return what is served to brokers; `routes` are those of clients, for what is forwarded."""
    metrics = parts.metrics
    roles = RoleAnswers(store, parts.broker_id, parts.partitions, parts.replicas)
    commands = CommandHandlers(store, parts.broker_id, parts.broker_epoch, roles, parts.replicas)
    members = MemberHandlers(parts.controller)
    forwarded = [
        Route(one.api.key, FORWARDED[one.api.key], one.handler, metrics, one.permissions)
        for one in routes
        if one.api.key in FORWARDED
    ]
    inner = Dispatcher(forwarded, parts.ports.clock, unsupported, metrics.lag)
    envelopes = EnvelopeHandler(
        inner.handle,
        FORWARDED,
        parts.ports.memory,
        frame_limit=parts.settings.socket_request_max_bytes,
    )

    listener = parts.settings.listeners.inter_broker
    return [
        Route(key, versions, _only_on(listener, handler), metrics, NODE_PERMISSIONS)
        for key, versions, handler in (
            (4, "5-7", commands.leader_and_isr),
            (5, "3-4", commands.stop_replica),
            (6, "8", commands.update_metadata),
            (7, "2-3", members.shut_down),
            (56, "2-3", members.alter_partitions),
            (58, "0", while_active(parts.controller, envelopes)),
            (67, "0", members.allocate_producer_ids),
        )
    ]


def _only_on(listener: str, handler: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(request: Any, context: RequestContext) -> Any:
        if context.session.listener != listener:
            raise ProtocolError("a request for brokers came in on a listener for clients")
        return handler(request, context)

    return guarded
