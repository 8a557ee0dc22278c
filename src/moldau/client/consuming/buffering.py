"""Fetched answers that wait for the user, in the order in which they came.

Pure. An answer leaves once it was handed out whole, or once something made it worthless: then its
state is at a later revision than it.
"""

from __future__ import annotations

from collections import deque

from moldau.client.consuming.decoding import Fetched
from moldau.client.consuming.positions import Stage


class FetchBuffer:
    """Answers that wait for the user, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[Fetched] = deque()

    def add(self, fetched: Fetched) -> None:
        """Keep an answer; its partition has counted its bytes already."""
        self._waiting.append(fetched)

    def first(self) -> Fetched | None:
        """Return the first answer that may be handed out."""
        for fetched in self._waiting:
            if fetched.stale:
                self.clear_stale()
                return self.first()
            if fetched.state.stage is Stage.READY and not fetched.state.paused:
                return fetched
        return None

    def exhausted(self, fetched: Fetched) -> None:
        """Let go of an answer that was handed out whole."""
        self._waiting.remove(fetched)
        if not fetched.stale:
            fetched.state.buffered_size -= fetched.size

    def clear_stale(self) -> None:
        """Let go of everything that has become worthless."""
        self._waiting = deque(fetched for fetched in self._waiting if not fetched.stale)
