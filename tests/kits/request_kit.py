"""Who sends a request in a test: sessions, and the context a handler gets."""

from __future__ import annotations

from types import SimpleNamespace

from moldau.base.network import Address
from moldau.security.authorizer import ALLOW_ALL
from moldau.security.session import ANONYMOUS, SecurityProtocol, Session
from moldau.server.network.dispatch import RequestContext


def session(host="10.1.2.3", port=50000, *, listener="PLAINTEXT", principal=ANONYMOUS):
    return Session(listener, SecurityProtocol.PLAINTEXT, Address(host, port), principal)


def context(version=0, client_id="client", *, memory=None, asker=None, authorizer=ALLOW_ALL):
    return RequestContext(asker or session(), version, client_id, memory, authorizer)


def connection(asker=None):
    """A connection, as far as the dispatcher needs one for a small request."""
    return SimpleNamespace(session=asker or session(), turn=None)
