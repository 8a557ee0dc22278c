"""What a route declares about permissions: an operation on a type of resource, and who checks it.

Kafka answers a denial in two ways, and the declaration says which one applies (ADR 0013).

- The request as a whole needs the permission, and a denial is the one error code of its response.
  Dispatch checks it before the handler is called.
- Each topic, group or other element of the request needs it, and a denial stands in the answer to
  that element; or a permission on the cluster makes one on each element needless. Only the handler
  can fill in such an answer, so it checks by `RequestContext.allows`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import Any, Final, NamedTuple

from moldau.protocol.errors import ErrorCode
from moldau.security.operations import CLUSTER_NAME, AclOperation, AclResourceType


class Check(Enum):
    """Who checks a permission."""

    BY_DISPATCH = "before the handler is called"
    BY_HANDLER = "by RequestContext.allows, for each element"
    MISSING = "the handler has to check each element, and does not yet"


class Permission(NamedTuple):
    """One permission that an API needs, or may need."""

    operation: AclOperation
    resource: AclResourceType
    check: Check
    name: Callable[[Any], str | None] | None = None
    """Reads the resource's name from a request, for dispatch; None if it needs no such permission.

    It is called only where an authorizer is in force."""


DENIED: Final = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    AclResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""How a denial is answered."""


def on_cluster(operation: AclOperation) -> Permission:
    """Declare that a request as a whole needs a permission on the cluster."""
    return Permission(operation, AclResourceType.CLUSTER, Check.BY_DISPATCH, lambda _: CLUSTER_NAME)


def on_one(operation: AclOperation, resource: AclResourceType, field: str) -> Permission:
    """Declare that a request as a whole needs a permission on the resource that a field names."""
    return Permission(operation, resource, Check.BY_DISPATCH, attrgetter(field))


def on_each(operation: AclOperation, resource: AclResourceType) -> Permission:
    """Declare that the handler checks a permission on each element."""
    return Permission(operation, resource, Check.BY_HANDLER)


def unchecked(operation: AclOperation, resource: AclResourceType) -> Permission:
    """Declare that the handler has to check a permission on each element, and does not yet."""
    return Permission(operation, resource, Check.MISSING)
