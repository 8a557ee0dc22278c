"""How the transactions of one broker have ended since it started: numbers for the metrics.

All shards of a broker share one object, so its numbers do not go back when a shard moves away.
"""

from __future__ import annotations


class TransactionCounters:
    """Changed on the event loop only; another thread may read it."""

    __slots__ = ("aborted", "committed", "timed_out")

    def __init__(self) -> None:
        self.committed = 0
        self.aborted = 0
        """Aborted by their producers, by newer producers, or by a timeout."""
        self.timed_out = 0
        """Aborted by a timeout."""
