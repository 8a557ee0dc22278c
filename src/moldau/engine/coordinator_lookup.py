"""Which broker coordinates a group, a transactional id or a share partition: the question."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from moldau.base.network import Address
from moldau.engine.broker_errors import UnsupportedVersion, broker_error
from moldau.engine.metadata import BrokerImage
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import FindCoordinatorRequest, FindCoordinatorResponse

FIRST_VERSION_WITH_KINDS = 1
FIRST_VERSION_WITH_MANY_KEYS = 4
"""Before KIP-699 there was one key to a question."""


class CoordinatorKind(IntEnum):
    """What a coordinator looks after, as the protocol numbers it."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


def coordinator_request(kind: CoordinatorKind, key: str, version: int) -> FindCoordinatorRequest:
    """Make the question; UnsupportedVersion where the broker is too old to understand it."""
    if kind is not CoordinatorKind.GROUP and version < FIRST_VERSION_WITH_KINDS:
        raise UnsupportedVersion("the broker only supports group coordinators")
    return FindCoordinatorRequest(key, kind, [key])


def read_coordinator(answer: FindCoordinatorResponse, version: int) -> BrokerImage:
    """Read who it is; a BrokerError says why nobody is."""
    found: Any = answer
    if version >= FIRST_VERSION_WITH_MANY_KEYS:
        if len(answer.coordinators) != 1:
            raise broker_error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        found = answer.coordinators[0]
    if found.error_code != ErrorCode.NONE:
        raise broker_error(found.error_code, found.error_message)
    return BrokerImage(found.node_id, Address(found.host, found.port))
