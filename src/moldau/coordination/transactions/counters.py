"""What the transactions of one broker came to since it started: plain numbers for the metrics.

All shards count into one object, so that a shard that moves away takes nothing with it.
"""

from __future__ import annotations


class TransactionCounters:
    """Changed on the event loop only; whoever reads a number sees it whole."""

    __slots__ = ("aborted", "committed", "timed_out")

    def __init__(self) -> None:
        self.committed = 0
        self.aborted = 0
        """By their producers, by newer ones, or because they took too long."""
        self.timed_out = 0
        """Aborts that were decided because a transaction took too long."""
