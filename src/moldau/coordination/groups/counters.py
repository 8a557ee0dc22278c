"""What the groups of one broker have done since it started: numbers for the metrics.

All shards of a broker share one object, so its numbers do not go back when a shard moves away.
"""

from __future__ import annotations


class GroupCounters:
    """Changed on the event loop only; another thread may read it."""

    __slots__ = ("offset_commits", "rebalances")

    def __init__(self) -> None:
        self.rebalances = 0
        """Generations that became stable."""
        self.offset_commits = 0
        """Offsets, not requests. Those of a transaction count when they are sent."""
