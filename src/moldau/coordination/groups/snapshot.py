"""The state of a classic group that survives a restart: the fields of its record.

The group machine writes and reads snapshots; `records` translates them to Kafka's bytes and back,
in every version. A generation without an assignment is never written. A snapshot holds a generation
with its assignment, or a group without members.
"""

from __future__ import annotations

from typing import NamedTuple

NO_STATE_TIMESTAMP = -1
"""Records before version 2 do not say when the group entered its state."""

NO_REBALANCE_TIMEOUT_MS = -1
"""Records of version 0 have no rebalance timeout. The session timeout is used for both."""


class MemberSnapshot(NamedTuple):
    """One member, with its subscription for the protocol that the group chose."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupSnapshot(NamedTuple):
    """One group. Without members it has neither protocol nor leader."""

    protocol_type: str
    """Empty for a group that never had members."""
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp: int
    """Milliseconds since 1970. The retention of an empty group's offsets starts here."""
    members: tuple[MemberSnapshot, ...] = ()
