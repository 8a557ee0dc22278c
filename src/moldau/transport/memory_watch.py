"""The timer behind a memory budget: looks for those that hold up others, and closes them.

It runs only while somebody waits for memory. What is decided is decided by the budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from moldau.base.memory_budget import TICK_S, Eviction, MemoryBudget

logger = logging.getLogger(__name__)


def watch_memory(loop: asyncio.AbstractEventLoop, budget: MemoryBudget) -> None:
    """Close connections that hold up others, for as long as this loop runs."""
    if budget.is_limited:
        budget.changed.append(_Watch(loop, budget).look)


class _Watch:
    """Ticks on one loop while its budget needs ticks."""

    def __init__(self, loop: asyncio.AbstractEventLoop, budget: MemoryBudget) -> None:
        self._loop = loop
        self._budget = budget
        self._ticking = False
        self._relieving = False

    def look(self) -> None:
        """Begin to tick if the budget needs it."""
        if self._budget.needs_ticks and not self._ticking:
            self._ticking = True
            self._loop.call_later(TICK_S, self._tick)
        if self._budget.is_over_ceiling and not self._relieving:
            # Later: whoever is at work now may be the one to be closed.
            self._relieving = True
            self._loop.call_soon(self._relieve)

    def _tick(self) -> None:
        self._ticking = False
        _close(self._budget.tick())
        self.look()

    def _relieve(self) -> None:
        self._relieving = False
        _close(self._budget.evict_largest())


def _close(evictions: Iterable[Eviction]) -> None:
    for holding, reason in evictions:
        logger.warning("closing %s: %s", holding.holder.peer, reason)
        holding.holder.abort()
