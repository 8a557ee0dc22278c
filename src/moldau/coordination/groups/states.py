"""The states of a classic group, and which may follow which."""

from __future__ import annotations

from enum import Enum
from typing import Final


class GroupState(Enum):
    """Where a group is between two generations; the values are the names tools print."""

    EMPTY = "Empty"
    """No members; offsets may be there."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The next generation is announced, its members come together."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The members of the generation are fixed, its leader works out the assignment."""
    STABLE = "Stable"
    """Every member may have its assignment."""
    DEAD = "Dead"
    """Deleted, or served by another broker: nothing happens here any more."""


FOLLOWERS: Final = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.DEAD: frozenset[GroupState](),
}
"""The states that may follow each while the group lives; it may end in any."""
