"""What of a classic group survives a restart: the values of its record in __consumer_offsets.

The group machine writes and reads these; `records` turns them into Kafka's bytes and back, in
every version. A generation that is not yet decided is never written: a snapshot holds the last
one whose assignment stood, or a group without members.
"""

from __future__ import annotations

from typing import NamedTuple

NO_STATE_TIMESTAMP = -1
"""A record older than version 2 does not tell when the group entered its state."""

NO_REBALANCE_TIMEOUT_MS = -1
"""A record of version 0 knows one time-out only: the session's serves for both."""


class MemberSnapshot(NamedTuple):
    """One member, with its subscription in the form of the protocol the group chose."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupSnapshot(NamedTuple):
    """One group; an empty one has neither protocol nor leader."""

    protocol_type: str
    """Empty for a group that only ever committed offsets."""
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp: int
    """Milliseconds since 1970; expiry of an empty group's offsets counts from here."""
    members: tuple[MemberSnapshot, ...] = ()
