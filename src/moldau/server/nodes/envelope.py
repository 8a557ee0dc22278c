"""A client's request inside a request of a broker: Envelope (KIP-590).

The controller decides on changes. A broker that is not the controller puts the client's request,
header and all, into an envelope with the client's name and address, and passes the answer on as it
comes. Neither of them reads what the other has written: the broker need not know the request's
form, and the controller answers as if the client had asked it.

Both forms of the envelope are here: how it is sealed, and how it is opened.
"""

from __future__ import annotations

import ipaddress
from struct import Struct
from typing import Final

from moldau.base.errors import ProtocolError
from moldau.protocol.compiler import decode, encode
from moldau.protocol.messages.brokers import EnvelopeRequest
from moldau.protocol.messages.security import DefaultPrincipal
from moldau.security.session import ANONYMOUS, Principal, Session

PRINCIPAL_VERSION: Final = 0

_VERSION: Final = Struct(">h")


def seal(frame: bytes, session: Session) -> EnvelopeRequest:
    """Put a client's request, without the size before it, into an envelope."""
    return EnvelopeRequest(frame, encode_principal(session.principal), _packed(session.peer.host))


def encode_principal(principal: Principal) -> bytes:
    """Write who a client is, in the form of Kafka's default principals."""
    data = DefaultPrincipal(principal.type, principal.name)
    return _VERSION.pack(PRINCIPAL_VERSION) + encode(data, PRINCIPAL_VERSION)


def decode_principal(data: bytes | None) -> Principal:
    """Read who a client is; nobody in particular where the broker did not say."""
    if data is None:
        return ANONYMOUS
    if len(data) < _VERSION.size:
        raise ProtocolError("the principal of an envelope has no version")
    (version,) = _VERSION.unpack_from(data)
    read = decode(DefaultPrincipal, version, memoryview(data)[_VERSION.size :])
    return Principal(read.type, read.name)


def client_host(packed: bytes) -> str:
    """Return a client's address as text; empty if the broker did not know it."""
    try:
        return str(ipaddress.ip_address(packed)) if packed else ""
    except ValueError as error:
        raise ProtocolError(f"the address of an envelope has {len(packed)} bytes") from error


def _packed(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return b""  # a name, as machines of the simulation have
