"""Who may do what: the port that dispatch and handlers ask, and the one that allows everything.

An authorizer decides from a session, an operation and a resource. Who asks it, and what a denial
answers, is decided by the route of the request (`server/network/permissions.py`).
"""

from __future__ import annotations

from typing import Final, Protocol

from moldau.base.tuples import NamedTuple
from moldau.security.operations import AclOperation, AclResourceType
from moldau.security.session import Session


class Resource(NamedTuple):
    """One thing that an operation is to be done to."""

    type: AclResourceType
    name: str


class Authorizer(Protocol):
    """Decides on permissions. It is asked on the event loop and does not wait."""

    def allows(self, session: Session, operation: AclOperation, resource: Resource) -> bool:
        """Tell whether the session's client may do this."""
        ...


class AllowAll:
    """Allows everything, as Kafka does where no authorizer is configured."""

    def allows(self, session: Session, operation: AclOperation, resource: Resource) -> bool:
        """Tell that it may."""
        del session, operation, resource
        return True


ALLOW_ALL: Final = AllowAll()
