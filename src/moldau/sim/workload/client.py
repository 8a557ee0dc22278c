"""A client's way to the broker: connect, ask, and again when the connection is lost.

An answer that does not come in time is a lost connection, as it is for Kafka's clients. A broken
protocol is no loss: it is a finding.
"""

from __future__ import annotations

import abc
import asyncio
from typing import Any

from moldau.base.errors import ProtocolError
from moldau.engine.connection import ClientConnection
from moldau.engine.errors import ConnectionLost, CorruptAnswer
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ErrorCode
from moldau.sim.history import Known, PartitionHistory, Violation
from moldau.sim.workload.targets import Targets, TopicTarget

ANSWER_TIMEOUT_S = 5.0
"""Longer than any answer takes that is under way, shorter than a run."""

RETRY_S = 0.05

NO_TIMEOUT_MS = 3_600_000
"""Longer than a run: `Link.answer` has a timeout of its own."""

PASSING_ERRORS = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""What a client is told while a disk is out of use."""
GONE_ERRORS = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Link:
    """One connection, to the broker of one life and era."""

    def __init__(self, connection: ClientConnection, era: int, life: int) -> None:
        self._connection = connection
        self.era = era
        self.life = life
        self.patience_s = ANSWER_TIMEOUT_S
        """How long an answer is waited for; a machine that goes silently never gives it."""

    def known(self, history: PartitionHistory) -> Known:
        """Note what is known before a question on this connection."""
        return history.known(self.era, self.life)

    def send(self, request: Any, version: int | None, *, answered: bool = True) -> Any:
        """Send a request; the future returned is for `answer`."""
        if version is None:
            version = self._connection.agreed_version(type(request))
        future = self._connection.send(request, version, answered=answered)
        future.add_done_callback(ignore_failure)
        return future

    async def answer(self, future: asyncio.Future[Any], patience_s: float | None = None) -> Any:
        """Wait for an answer; ConnectionLost if there will be none."""
        try:
            async with asyncio.timeout(patience_s or self.patience_s):
                return await future
        except TimeoutError:
            raise ConnectionLost("no answer came in time") from None
        except (ConnectionLost, CorruptAnswer) as lost:
            if isinstance(lost.__cause__, ProtocolError):
                raise Violation(f"protocol: {lost.__cause__}") from lost
            raise

    async def call(
        self, request: Any, version: int | None = None, *, patience_s: float | None = None
    ) -> Any:
        """Ask and wait; for longer, if the answer is known to take long."""
        return await self.answer(self.send(request, version), patience_s)

    def close(self) -> None:
        self._connection.close()


def ignore_failure(future: asyncio.Future[Any]) -> None:
    """Let a request fail unheard: of several in flight, a client waits for the first alone."""
    if not future.cancelled():
        future.exception()


class Client:
    """Somebody on a host of its own who can reach the broker."""

    def __init__(self, targets: Targets, name: str) -> None:
        self.targets = targets
        self.name = name
        self.chance = targets.random(name)
        self._network = targets.network.host(name)
        self._settings = ConnectionSettings(client_id=name, request_timeout_ms=NO_TIMEOUT_MS)
        self._life = 0

    async def connect(self) -> Link | None:
        """Connect, however long that takes; None if the run stops before."""
        broker = self.targets.broker
        while True:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    connection = await ClientConnection.open(
                        self._network, broker.address, self._settings
                    )
            except (OSError, ConnectionLost):
                if self.targets.stopped and not self.targets.calm:
                    return None
                await asyncio.sleep(RETRY_S)
            else:
                self._life = broker.life
                return Link(connection, self.targets.era, broker.life)

    @property
    def disk_failed(self) -> bool:
        """Whether a disk was broken in the life of the broker that this client talks to.

        What that one sent may arrive when the next one already runs.
        """
        return self._life in self.targets.disk_failed_lives

    def check_refusal(self, topic: TopicTarget, what: str, code: int, message: str | None) -> None:
        """Raise Violation unless there is a reason for this error."""
        error = ErrorCode.of(code)
        if error in GONE_ERRORS and topic.deleting:
            return
        if error in PASSING_ERRORS and self.disk_failed:
            return
        raise Violation(f"errors: {what} of {topic.name} was refused: {error.name} {message or ''}")


class Worker(Client, abc.ABC):
    """A client that works by itself and keeps a connection while it does."""

    async def run(self) -> None:
        """Work until the run stops, over as many connections as that takes."""
        while not self.finished:
            link = await self.connect()
            if link is None:
                return
            try:
                await self.work(link)
            except (ConnectionLost, OSError):
                self.connection_lost()
                await asyncio.sleep(RETRY_S)
            finally:
                link.close()

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.targets.stopped

    @abc.abstractmethod
    async def work(self, link: Link) -> None:
        """Do something with a connection, until there is no more of it or the run stops."""
        ...

    def connection_lost(self) -> None:
        """Learn that what has not been answered will not be."""
        self.targets.seen["connection lost"] += 1
