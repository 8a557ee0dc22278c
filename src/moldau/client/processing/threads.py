"""Workers for programs without asyncio: a Consumer, a plain handler, and threads that run it.

    with Consumer(servers, group_id="billing", topics=["orders"],
                  enable_auto_commit=False) as consumer:
        workers = KeyedThreads(consumer, handle, concurrency=8)
        signal.signal(signal.SIGTERM, lambda *_: workers.stop())
        workers.run()

`run` polls the consumer in the calling thread, which also handles rebalances. Handlers run in a
pool of threads and never touch the consumer. One lock guards the state that both sides share
(`workforce`). It is held only to record that a handler has finished.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Collection
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from moldau.client.consumer import Consumer
from moldau.client.consuming.listeners import RebalanceListener, assigned, lost, revoked
from moldau.client.errors import ClientClosed, ClientError, CommitFailed
from moldau.client.processing.scheduling import Work
from moldau.client.processing.workforce import Workforce
from moldau.client.records import Record, TopicPartition

logger = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

PlainHandler = Callable[[Record[K, V]], object]

NOTICE_MS: Final = 100
"""How long a stop, a failure or new room may go unnoticed: a consumer that waits for records is not
disturbed by other threads."""


class KeyedThreads(Workforce[Consumer[K, V], PlainHandler[K, V], K, V]):
    """Processes the records of a Consumer in threads; see `Workforce` for the settings.

    Threads cannot be cancelled. After `drain_timeout_ms`, `run` returns without the handlers that
    still run and ignores their results. Python waits for them before it exits.
    """

    _pool: ThreadPoolExecutor

    def _set_up(self) -> None:
        self._ended = threading.Condition()
        """Told when a handler has ended."""
        self._guard = self._ended

    def _now(self) -> float:
        return self._clock.monotonic()

    def _listener(self, users: Any) -> RebalanceListener:
        return _Listener(self, users)

    def _wake(self) -> None:
        """Leave it to the next look, which is never far."""

    # Running

    def run(self) -> None:
        """Process records until `stop`, until the consumer is closed, or until a handler fails.

        If a handler raises, `run` waits for the other handlers, commits the finished records and
        raises that exception. A later `run` starts with the failed record. Ctrl-C ends `run` at
        once, without a last commit.
        """
        self._begin()
        self._pool = ThreadPoolExecutor(self._concurrency, "moldau-worker")
        try:
            try:
                self._consume()
            except Exception as error:  # noqa: BLE001 - raised below, after an orderly end
                self._failure = self._failure or error
            self._wind_up()
        finally:
            with self._guard:
                self._cancelling = True
                self._running.clear()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._end()
        if self._failure is not None:
            raise self._failure

    def _consume(self) -> None:
        while self._goes_on:
            try:
                records = self._consumer.poll(timeout_ms=min(self._poll_ms(), NOTICE_MS))
            except ClientClosed:
                return
            self._take_up(records)

    # Handling

    def _start(self, work: Work) -> object:
        under_way = object()
        self._pool.submit(self._do, under_way, work)
        return under_way

    def _do(self, under_way: object, work: Work) -> None:
        error: BaseException | None = None
        try:
            self._handle(work.record)
        except BaseException as raised:  # noqa: BLE001 - raised by `run`
            error = raised
        with self._ended:
            if under_way in self._running:
                self._finished(under_way, error)
                self._ended.notify_all()

    # Ending, for some partitions or for all

    def _wind_up(self) -> None:
        """Finish what is under way, commit it, and set the consumer back to what is not."""
        partitions = list(self._progress)
        self._drain(partitions)
        try:
            self._commit(partitions)
            self._go_back(partitions)
        except ClientError as error:
            if self._failure is None and not isinstance(error, ClientClosed):
                raise
            logger.warning("what is finished could not be committed: %s", error)

    def _drain(self, partitions: Collection[TopicPartition]) -> None:
        """Wait until nothing of these is under way, as long as it may take."""
        deadline = self._now() + self._drain_timeout_s
        with self._ended:
            while not self._is_idle(partitions):
                left_s = deadline - self._now()
                if left_s <= 0:
                    self._out_of_time(partitions)
                    return
                self._ended.wait(left_s)

    def give_up(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Finish with partitions that are revoked, and commit what is finished of them."""
        self._drain(partitions)
        try:
            self._commit(partitions)
        except ClientError as error:
            logger.warning("what is finished could not be committed: %s", error)
        self._forget(partitions)

    def _commit(self, partitions: Collection[TopicPartition]) -> None:
        """Commit what is finished; of partitions taken away meanwhile, their revocation does."""
        while offsets := self._uncommitted(partitions):
            try:
                self._consumer.commit(offsets)
            except CommitFailed:
                if offsets.keys() == self._uncommitted(partitions).keys():
                    raise
            else:
                self._note_committed(offsets)


class _Listener(RebalanceListener):
    """Tells the workers of partitions that come and go, and the user's own listener.

    What that returns is returned: the consumer awaits it, if it is to be awaited.
    """

    def __init__(self, workforce: KeyedThreads[Any, Any], users: Any) -> None:
        self.workforce = workforce
        self._users = users

    def on_partitions_revoked(self, partitions: AbstractSet[TopicPartition]) -> Any:
        self.workforce.give_up(partitions)
        return _told(revoked(self._users, partitions))

    def on_partitions_assigned(self, partitions: AbstractSet[TopicPartition]) -> Any:
        return _told(assigned(self._users, partitions))

    def on_partitions_lost(self, partitions: AbstractSet[TopicPartition]) -> Any:
        self.workforce.drop(partitions)
        return _told(lost(self._users, partitions))


def _told(call: Callable[[], Awaitable[object] | object] | None) -> Any:
    return None if call is None else call()
