"""One direction of a connection: messages arrive late, but in order.

Each delay is drawn anew, and each timer takes the oldest message. The timers belong to the
receiver: a process that is paused receives nothing, and one that has ended never will.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Final

from moldau.sim.loop import SimLoop

MEAN_DELAY_S: Final = 0.002
"""One way, with the time that the ensemble takes to agree."""

Message = Callable[[], object]
"""What the receiver does when the message arrives."""


class Pipe:
    """Messages under way to one receiver."""

    def __init__(self, loop: SimLoop, receiver: Context) -> None:
        self._loop = loop
        self._receiver = receiver
        self._messages: deque[Message] = deque()
        self._is_held = False
        self._due_count = 0
        """Messages whose time came while they were held."""

    def __len__(self) -> int:
        return len(self._messages)

    def send(self, message: Message) -> None:
        """Let a message arrive some time."""
        self._messages.append(message)
        delay_s = self._loop.delay_s(MEAN_DELAY_S)
        self._loop.call_later(delay_s, self._arrive, context=self._receiver.copy())

    def _arrive(self) -> None:
        if self._is_held:
            self._due_count += 1
        elif self._messages:
            self._messages.popleft()()

    def hold(self) -> None:
        """Let nothing arrive until `release`."""
        self._is_held = True

    def release(self) -> None:
        """Let arrive what was held."""
        self._is_held = False
        due_count, self._due_count = self._due_count, 0
        for _ in range(due_count):
            self._loop.call_soon(self._arrive, context=self._receiver.copy())

    def lose(self, kept_count: int = 0) -> None:
        """Let only the oldest messages arrive."""
        while len(self._messages) > kept_count:
            self._messages.pop()
