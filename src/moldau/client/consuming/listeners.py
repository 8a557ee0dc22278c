"""Listeners for rebalances.

A listener is any object with some of these methods, plain or `async`. It runs where the user's code
runs, while the user holds no records. It may commit, seek and read positions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from moldau.client.errors import InvalidArgument
from moldau.client.records import TopicPartition


class RebalanceListener:
    """Receives assigned and revoked partitions; subclass it and override what you need.

    In a rebalance `on_partitions_revoked` comes first, then `on_partitions_assigned`. With an eager
    assignor, all partitions are revoked and assigned again. With a cooperative assignor, both
    methods get only the partitions that move.
    """

    def on_partitions_revoked(
        self, partitions: AbstractSet[TopicPartition]
    ) -> Awaitable[None] | None:
        """Finish work on these partitions; you can still commit their offsets."""

    def on_partitions_assigned(
        self, partitions: AbstractSet[TopicPartition]
    ) -> Awaitable[None] | None:
        """Start with these partitions, at their committed offsets unless you seek elsewhere.

        Called at the end of a rebalance, with an empty set if there are no new partitions. Not
        called if the rebalance changed nothing.
        """

    def on_partitions_lost(self, partitions: AbstractSet[TopicPartition]) -> Awaitable[None] | None:
        """Drop these partitions: another member may own them already. Commits would fail."""
        return self.on_partitions_revoked(partitions)


METHODS = ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost")


def check_listener(listener: Any) -> None:
    """Refuse what would never be told anything, a class among others."""
    if listener is None:
        return
    advice = "Subclass RebalanceListener, override what matters, and give an object of it."
    if isinstance(listener, type):
        raise InvalidArgument(f"listener={listener!r:.100} is a class", advice=advice)
    if not any(callable(getattr(listener, name, None)) for name in METHODS):
        raise InvalidArgument(
            f"listener={listener!r:.100} has none of {', '.join(METHODS)}", advice=advice
        )


Call = Callable[[], Awaitable[object] | object]


def revoked(listener: Any, partitions: AbstractSet[TopicPartition]) -> Call | None:
    """Return the call that tells a listener what it must give up, if it wants to hear it."""
    return _call(listener, "on_partitions_revoked", partitions)


def assigned(listener: Any, partitions: AbstractSet[TopicPartition]) -> Call | None:
    """Return the call that tells a listener what it has got, if it wants to hear it."""
    return _call(listener, "on_partitions_assigned", partitions)


def lost(listener: Any, partitions: AbstractSet[TopicPartition]) -> Call | None:
    """Return the call that tells a listener what is gone; one without a word for it is revoked."""
    told = _call(listener, "on_partitions_lost", partitions)
    return told if told is not None else revoked(listener, partitions)


def _call(listener: Any, name: str, partitions: AbstractSet[TopicPartition]) -> Call | None:
    method = getattr(listener, name, None)
    return None if method is None else partial(method, partitions)
