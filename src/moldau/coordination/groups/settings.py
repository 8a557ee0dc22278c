"""The settings of the classic group protocol, under the names of Kafka's configs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member's first JoinGroup may wait for the end of a rebalance.

A new member cannot send heartbeats yet, so a session timeout cannot detect that it is gone. A
client that gave up and joined again under another id would otherwise stay in the group twice until
the rebalance ends. Kafka has the same constant."""

PENDING_MEMBERS_MAX: Final = 10_000
"""Member ids of one group that were given out and not used yet (KIP-394).

Kafka has no limit: a client that asks for one id after the other fills the memory with ids and
timers. With this limit, ten thousand members of a group may still start at the same time."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Kafka's configs, with Kafka's defaults."""

    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms"""
    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms"""
    max_size: int = 2**31 - 1
    """group.max.size"""
