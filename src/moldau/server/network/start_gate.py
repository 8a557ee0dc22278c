"""Holds back clients of a broker that is starting, while other brokers are answered.

A broker that is elected, or commanded by an elected one, has to talk to other brokers before it can
serve anybody. Both come in on the same listener. A request of a client waits where it was received,
and nothing behind it is read, until the gate is opened.
"""

from __future__ import annotations

from collections.abc import Collection
from struct import Struct
from typing import Final

from moldau.server.network.connection import Connection, Dispatch
from moldau.server.network.dispatch import Answer
from moldau.server.network.turns import Turns

BETWEEN_BROKERS: Final = frozenset({4, 5, 6, 7, 18, 56, 58, 67})
"""What a broker answers before it serves clients: it may be the controller already."""

_KEY: Final = Struct(">h")


class StartGate:
    """Stands before the dispatch of a broker until it serves.

    Connections that were made before go through it for good; later ones never meet it.
    """

    def __init__(self, dispatch: Dispatch, early: Collection[int]) -> None:
        """`early` are the keys of requests that are answered already."""
        self._dispatch = dispatch
        self._early = early
        self._is_open = False
        self._held: dict[Connection, None] = {}
        self._wait = Turns(0).ask(lambda: None)

    def __call__(self, connection: Connection, frame: memoryview) -> Answer:
        """Answer a request, or have it presented again when the gate is open."""
        if self._is_open or len(frame) < _KEY.size or _KEY.unpack_from(frame)[0] in self._early:
            return self._dispatch(connection, frame)
        self._held[connection] = None
        return self._wait

    def open(self) -> None:
        """Let everybody in."""
        self._is_open = True
        held, self._held = self._held, {}
        for connection in held:
            connection.drained()
