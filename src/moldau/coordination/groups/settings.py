"""The settings that the classic group protocol obeys, under the names of Kafka's configs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member's first JoinGroup may wait for the end of a rebalance.

A new member cannot heartbeat yet, so its session says nothing about it. One that gave up waiting
and joined again under another id would otherwise stay in the group for as long as the rebalance
lasts. Kafka has the same constant."""

PENDING_MEMBERS_MAX: Final = 10_000
"""Ids given out to members of one group that have yet to come back with them (KIP-394).

Kafka counts them nowhere: a client that asks for one after the other would fill the memory with
ids and timers. A group of this size may still start at once."""


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
