"""The sessions of one broker with ZooKeeper, one after the other: each is a life of the broker.

A session that has expired never comes back, and with it go the broker's node and its controllership
(ADR 0016). So its end is told before anything else happens. A new one is opened in the background,
for as long as it takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from moldau.cluster.store import StoreFailed
from moldau.cluster.zookeeper.client.port import (
    SessionState,
    ZooKeeper,
    ZooKeeperError,
    ZooKeeperSession,
)

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Between two tries to open a session; each try waits for an answer by itself."""


class Lives:
    """Opens sessions and tells of their ends. Owned by the event loop's thread."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper
        self._session: ZooKeeperSession | None = None
        self._number = 0
        self._reopening: asyncio.Task[None] | None = None
        self._is_closed = False
        self.on_ended: Callable[[], None] = lambda: None
        """Called at once when a session has expired."""
        self.on_begun: Callable[[], None] = lambda: None
        """Called when there is a session again."""

    @property
    def session(self) -> ZooKeeperSession:
        """The session of this life; StoreFailed while there is none."""
        if self._session is None:
            raise StoreFailed("there is no session with ZooKeeper")
        return self._session

    @property
    def is_connected(self) -> bool:
        """Whether there is a session, and its connection was not lost."""
        return self._session is not None and self._session.state is SessionState.CONNECTED

    @property
    def number(self) -> int:
        """Which life this is: what was begun in an earlier one has no meaning any more."""
        return self._number

    async def begin(self) -> None:
        """Open the first session; ConnectionTimedOut if no server answers."""
        await self._open()

    async def _open(self) -> None:
        self._number += 1
        number = self._number
        session = await self._zookeeper.open_session(lambda state: self._heard(number, state))
        if self._is_closed:
            await session.close()
        elif session.state is not SessionState.EXPIRED:
            self._session = session

    def _heard(self, number: int, state: SessionState) -> None:
        if number != self._number or self._is_closed:
            return
        if state is SessionState.SUSPENDED:
            logger.warning(
                "the connection to ZooKeeper is lost; nothing can be changed until it is back"
            )
            return
        if state is SessionState.CONNECTED:
            logger.warning("the connection to ZooKeeper is back")
            return
        logger.warning("the session with ZooKeeper has expired, a new one is opened")
        was_open, self._session = self._session is not None, None
        if was_open:
            self.on_ended()
            self._reopening = asyncio.ensure_future(self._reopen())

    async def _reopen(self) -> None:
        while not self._is_closed and self._session is None:
            try:
                await self._open()
            except ZooKeeperError as error:
                logger.debug("no session with ZooKeeper yet: %s", error)
            if self._session is None:
                await asyncio.sleep(RETRY_S)
        if not self._is_closed:
            logger.warning("there is a session with ZooKeeper again")
            self.on_begun()

    async def close(self) -> None:
        """End the session, and with it the broker's own nodes."""
        self._is_closed = True
        if self._reopening is not None:
            self._reopening.cancel()
            await asyncio.gather(self._reopening, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            await session.close()
