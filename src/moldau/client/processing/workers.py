"""Workers for asyncio: many records at once, in order per key, committing only finished records.

`KeyedWorkers` reads from an AsyncConsumer and calls an asynchronous handler, up to `concurrency`
times at once. Each record is handled at least once: it never commits past a record whose handler
has not returned. This module owns the handlers' tasks; `workforce` makes the decisions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from moldau.client.consumer import AsyncConsumer
from moldau.client.consuming.listeners import RebalanceListener, assigned, lost, revoked
from moldau.client.errors import ClientClosed, ClientError, CommitFailed, InvalidState
from moldau.client.processing.scheduling import Work
from moldau.client.processing.workforce import Workforce
from moldau.client.records import Record, TopicPartition

logger = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

Handler = Callable[[Record[K, V]], Awaitable[object]]


class KeyedWorkers(Workforce[AsyncConsumer[K, V], Handler[K, V], K, V]):
    """Processes the records of an AsyncConsumer in tasks; see `Workforce` for the settings.

    Handlers that take longer than `drain_timeout_ms` are cancelled on a stop. On a revocation they
    keep running, but their results are ignored.
    """

    _wanted: asyncio.Future[None] | None = None

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _listener(self, users: Any) -> RebalanceListener:
        return _Listener(self, users)

    # Running

    async def run(self) -> None:
        """Process records until `stop`, until the consumer is closed, or until a handler fails.

        If a handler raises, `run` waits for the other handlers, commits the finished records and
        raises that exception. A later `run` starts with the failed record. If cancelled, `run`
        cancels the handlers, without a last commit.
        """
        self._begin()
        try:
            try:
                await self._consume()
            except Exception as error:  # noqa: BLE001 - raised below, after an orderly end
                self._failure = self._failure or error
            await self._wind_up()
        finally:
            await self._cancel_running()
            self._end()
        if self._failure is not None:
            raise self._failure

    async def _consume(self) -> None:
        while self._goes_on:
            try:
                records = await self._poll()
            except ClientClosed:
                return
            self._take_up(records)

    async def _poll(self) -> list[Record[K, V]]:
        """Wait for records, or until something else is to be done."""
        asking = asyncio.ensure_future(self._consumer.poll(timeout_ms=self._poll_ms()))
        self._wanted = asyncio.get_running_loop().create_future()
        try:
            if self._goes_on:
                await asyncio.wait((asking, self._wanted), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._wanted = None
            if not asking.done():
                asking.cancel()
                await asyncio.wait((asking,))
        return [] if asking.cancelled() else asking.result()

    def _wake(self) -> None:
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)

    # Handling

    def _start(self, work: Work) -> object:
        task = asyncio.ensure_future(self._do(work))
        task.add_done_callback(self._done)
        return task

    async def _do(self, work: Work) -> None:
        await self._handle(work.record)

    def _done(self, task: asyncio.Task[None]) -> None:
        error = task.exception() if not task.cancelled() else None
        if task.cancelled():
            error = InvalidState("a handler was cancelled by somebody else")
        self._finished(task, error)

    # Ending, for some partitions or for all

    async def _wind_up(self) -> None:
        """Finish what is under way, commit it, and set the consumer back to what is not."""
        partitions = list(self._progress)
        await self._drain(partitions)
        try:
            await self._commit(partitions)
            self._go_back(partitions)
        except ClientError as error:
            if self._failure is None and not isinstance(error, ClientClosed):
                raise
            logger.warning("what is finished could not be committed: %s", error)

    async def _drain(self, partitions: Collection[TopicPartition]) -> None:
        """Wait until nothing of these is under way, as long as it may take."""
        deadline = self._now() + self._drain_timeout_s
        while not self._is_idle(partitions):
            left_s = deadline - self._now()
            if left_s <= 0:
                self._out_of_time(partitions)
                return
            busy: list[Any] = self._busy(partitions) or list(self._running)
            await asyncio.wait(busy, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)

    async def _cancel_running(self) -> None:
        self._cancelling = True
        self._lanes.drop(list(self._progress))
        running: list[Any] = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        while self._running:  # noqa: ASYNC110 - that they are done has not been heard everywhere
            await asyncio.sleep(0)

    async def give_up(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Finish with partitions that are revoked, and commit what is finished of them."""
        await self._drain(partitions)
        try:
            await self._commit(partitions)
        except ClientError as error:
            logger.warning("what is finished could not be committed: %s", error)
        self._forget(partitions)

    async def _commit(self, partitions: Collection[TopicPartition]) -> None:
        """Commit what is finished; of partitions taken away meanwhile, their revocation does."""
        while offsets := self._uncommitted(partitions):
            try:
                await self._consumer.commit(offsets)
            except CommitFailed:
                if offsets.keys() == self._uncommitted(partitions).keys():
                    raise
            else:
                self._note_committed(offsets)


class _Listener(RebalanceListener):
    """Tells the workers of partitions that come and go, and the user's own listener."""

    def __init__(self, workforce: KeyedWorkers[Any, Any], users: Any) -> None:
        self.workforce = workforce
        self._users = users

    async def on_partitions_revoked(self, partitions: AbstractSet[TopicPartition]) -> None:
        await self.workforce.give_up(partitions)
        await _told(revoked(self._users, partitions))

    async def on_partitions_assigned(self, partitions: AbstractSet[TopicPartition]) -> None:
        await _told(assigned(self._users, partitions))

    async def on_partitions_lost(self, partitions: AbstractSet[TopicPartition]) -> None:
        self.workforce.drop(partitions)
        await _told(lost(self._users, partitions))


async def _told(call: Callable[[], Awaitable[object] | object] | None) -> None:
    outcome = None if call is None else call()
    if isinstance(outcome, Awaitable):
        await outcome
