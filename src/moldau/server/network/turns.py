"""How many large requests are worked on at once: a few; the others wait where they were received.

A request of a few megabytes is a hundred thousand objects once it is decoded, fifty megabytes with
its answer. Whoever opens hundreds of connections could have hundreds of them. So a request that is
not decoded within its first slice needs a turn, of which there are few. While it waits nothing is
kept of it but its bytes in the receive buffer of its connection, which is not read from meanwhile.

Most requests of many bytes are a few batches of records; they are decoded at once and need no turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Turn:
    """The right to work on one large request, or the wait for it. It must be ended."""

    __slots__ = ("_turns", "call", "granted")

    def __init__(self, turns: Turns, call: Callable[[], None]) -> None:
        self._turns = turns
        self.call = call
        """Called when it is granted after a wait."""
        self.granted = False

    def end(self) -> None:
        """Give it back, or stop waiting for it."""
        self._turns.end(self)


class Turns:
    """The turns of one broker, given in the order in which they were asked for."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[Turn] = deque()

    def ask(self, call: Callable[[], None]) -> Turn:
        """Return a turn that is granted at once, or will be."""
        turn = Turn(self, call)
        if self._free:
            self._free -= 1
            turn.granted = True
        else:
            self._waiting.append(turn)
        return turn

    def end(self, turn: Turn) -> None:
        if not turn.granted:
            self._waiting.remove(turn)
        elif self._waiting:
            following = self._waiting.popleft()
            following.granted = True
            following.call()
        else:
            self._free += 1
