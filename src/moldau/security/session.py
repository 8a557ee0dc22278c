"""Who is at the other end of a connection, as far as the broker knows.

A session is made when a connection is accepted and lives as long as it does. Permissions are asked
for it, and log lines and answers name its client. It knows no socket: handlers get the session and
never the connection, so that nothing but dispatch and the network decides what is sent.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from moldau.base.network import Address
from moldau.base.tuples import NamedTuple


class SecurityProtocol(IntEnum):
    """How a listener is protected; the codes are those of the wire and of the metadata."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class Principal(NamedTuple):
    """Who a client is, in Kafka's form: a type and a name."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Every client of a listener that authenticates nobody."""


class Session:
    """One connection's client: where it came in, who it is, and what it told of itself."""

    __slots__ = (
        "client_software_name",
        "client_software_version",
        "listener",
        "peer",
        "principal",
        "security_protocol",
    )

    def __init__(
        self,
        listener: str,
        security_protocol: SecurityProtocol,
        peer: Address,
        principal: Principal = ANONYMOUS,
    ) -> None:
        self.listener = listener
        """The name of the listener, which decides on the addresses that the client is told."""
        self.security_protocol = security_protocol
        self.peer = peer
        """The client's address, for log lines; its host is what permissions and limits go by."""
        self.principal = principal
        self.client_software_name = ""
        self.client_software_version = ""
        """Name and version of the client's library; ApiVersions tells them from version 3 on."""
