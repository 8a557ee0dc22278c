"""What the groups of one broker have done since it started: plain numbers for the metrics.

All shards count into one object, so that a shard that moves away takes nothing with it.
"""

from __future__ import annotations


class GroupCounters:
    """Changed on the event loop only; whoever reads a number sees it whole."""

    __slots__ = ("offset_commits", "rebalances")

    def __init__(self) -> None:
        self.rebalances = 0
        """Generations that got their assignment."""
        self.offset_commits = 0
        """Offsets, not requests; those of transactions when they are sent."""
