"""A promise is durable before anybody hears of it: effects wait for the quorum state before them.

A node that forgets its vote may vote again, and two leaders of one epoch are the end of a quorum.
So this is not left to each place that answers a vote. All effects leave the core through this
queue, and behind a quorum state that is being written nothing leaves at all. What the core decides
in the meantime stands on that state already. Nobody sees it, so a crash takes both back together.
"""

from __future__ import annotations

from collections import deque

from moldau.cluster.raft.effects import Effect, PersistQuorumState


class Outbox:
    """Effects in their order."""

    __slots__ = ("_is_writing", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[Effect] = deque()
        self._is_writing = False

    def put(self, effect: Effect) -> None:
        self._waiting.append(effect)

    def written(self) -> None:
        """Go on: the quorum state that was given out is durable."""
        self._is_writing = False

    def take(self) -> list[Effect]:
        """Return what may be carried out now, up to the next quorum state and including it."""
        taken: list[Effect] = []
        while self._waiting and not self._is_writing:
            effect = self._waiting.popleft()
            self._is_writing = isinstance(effect, PersistQuorumState)
            taken.append(effect)
        return taken
