"""Has leaders probed that owe this broker the answer to a fetch.

A leader that keeps up answers a fetch at the latest when its wait is over. One whose process is
paused, or whose machine is cut off, does not, and its connections stay. It leads until its session
expires, which takes seconds. Clients that are told so meanwhile send to it and wait for their own
time-outs, which may end long after another broker leads.

So its process is probed (`process_watch`), over a connection of its own: a slow answer with many
records is not silence. This costs a look at a few fetchers now and then, and no request as long as
leaders answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from moldau.base.ids import BrokerId

LOOK_S: Final = 0.1

OVERDUE_S: Final = 0.25
"""How much longer than its wait a fetch may take: clients that give up after a second ask then who
leads, and have to hear of the silence."""


class SilentLeaders:
    """Looks for them until cancelled. Owned by the event loop's thread."""

    def __init__(
        self,
        waiting_for: Callable[[float], Collection[BrokerId]],
        probe: Callable[[BrokerId], None],
    ) -> None:
        """`waiting_for` returns the leaders whose answers are so many seconds overdue."""
        self._waiting_for = waiting_for
        self._probe = probe

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for leader in self._waiting_for(OVERDUE_S):
                self._probe(leader)
