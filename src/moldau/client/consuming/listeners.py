"""How a user hears that partitions come and go.

A listener is any object with these methods, plain or `async`; one that lacks a method is not told.
It is called where the user's code runs, while the user holds no records, so it may commit, seek and
read positions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from moldau.client.errors import InvalidArgument
from moldau.client.records import TopicPartition


class RebalanceListener:
    """Told of partitions; subclass it and override what matters.

    In a rebalance `on_partitions_revoked` comes first, then `on_partitions_assigned`. With an eager
    assignor everything is revoked and assigned anew; with a cooperative one both name only what
    moves.
    """

    def on_partitions_revoked(
        self, partitions: AbstractSet[TopicPartition]
    ) -> Awaitable[None] | None:
        """Finish with these: they are still this member's, and offsets can still be committed."""

    def on_partitions_assigned(
        self, partitions: AbstractSet[TopicPartition]
    ) -> Awaitable[None] | None:
        """Begin with these, at the committed offsets unless this seeks elsewhere.

        Called at the end of a rebalance, with nothing if it brought nothing new, and not at all if
        it left everything as it was.
        """

    def on_partitions_lost(self, partitions: AbstractSet[TopicPartition]) -> Awaitable[None] | None:
        """Let go of these: another member may have them already, so nothing can be committed."""
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
