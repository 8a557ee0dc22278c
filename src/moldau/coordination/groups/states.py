"""The states of a classic group, and which may follow which."""

from __future__ import annotations

from enum import Enum
from typing import Final


class GroupState(Enum):
    """The state of a group; the values are the names that tools print."""

    EMPTY = "Empty"
    """No members. The group may have offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """A rebalance has begun, and the members of the next generation join."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The members of the generation are fixed. The assignment is not committed yet."""
    STABLE = "Stable"
    """The assignment is committed, and every member may fetch its part."""
    DEAD = "Dead"
    """Deleted, or served by another broker. A dead group never changes again."""


FOLLOWERS: Final = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.DEAD: frozenset[GroupState](),
}
"""The states that may follow each. Besides, a group may become DEAD in any state.

STABLE follows only COMPLETING_REBALANCE, and only when the assignment is committed. Members would
otherwise consume partitions by an assignment that a new coordinator does not know."""
