"""Where other nodes reach the controller in this process, as it tells them itself."""

from __future__ import annotations

from moldau.cluster.model import Endpoint
from moldau.server.network.listeners import Listeners


def controller_endpoints(listeners: Listeners) -> tuple[Endpoint, ...]:
    """Return the controllers' listeners as the metadata names them."""
    return tuple(
        Endpoint(
            one.name,
            one.advertised_host,
            one.advertised_port or one.port,
            one.security_protocol,
        )
        for one in listeners.controller
    )
