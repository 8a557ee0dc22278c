"""Many records at once, those of one key in order, offsets committed only for finished work.

`KeyedWorkers` reads from a consumer and calls an asynchronous handler, up to `concurrency` times at
once. Each record is handled at least once: what is committed never passes a record whose handler
has not returned, also if later ones have. It decides nothing about order and offsets itself
(`lanes`, `progress`); it owns the tasks of the handlers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Generic, Literal, TypeVar

from moldau.base.clock import Clock, SystemClock
from moldau.base.errors import ConfigError
from moldau.client.consumer import AsyncConsumer
from moldau.client.consuming.coordination import Offsets
from moldau.client.consuming.listeners import RebalanceListener, assigned, lost, revoked
from moldau.client.errors import ClientClosed, ClientError, CommitFailed, InvalidState
from moldau.client.processing.deferral import Deferrals
from moldau.client.processing.lanes import Lane, Lanes, Work
from moldau.client.processing.progress import Progress
from moldau.client.records import Record, TopicPartition

logger = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

Handler = Callable[[Record[K, V]], Awaitable[object]]

POLL_MS: Final = 60_000
"""How long to wait for records when nothing else is due. Who waits counts as alive, so any time
would do."""


class KeyedWorkers(Generic[K, V]):
    """Works on what a consumer is assigned. One `run` at a time; nobody else uses the consumer.

    `finish` says what becomes of records that were read and not begun when partitions are revoked
    or `stop` is called. "begun" leaves them to whoever comes next, together with what was finished
    behind the first of them, which is then handled twice; "all" works them off first. Handlers that
    take longer than `drain_timeout_ms` then are cancelled by a stop, and left alone, unheard, by a
    revocation.

    `key` names the key that keeps the order (default: the record's; it must be hashable). `due_ms`
    tells of a record when it may be handled, or None for now; until then its partition rests.
    """

    def __init__(
        self,
        consumer: AsyncConsumer[K, V],
        handle: Handler[K, V],
        *,
        concurrency: int = 16,
        max_pending: int = 1_000,
        commit_interval_ms: int = 5_000,
        finish: Literal["begun", "all"] = "begun",
        drain_timeout_ms: int = 30_000,
        key: Callable[[Record[K, V]], Hashable] | None = None,
        due_ms: Callable[[Record[K, V]], int | None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if concurrency < 1 or max_pending < 1:
            raise ConfigError("concurrency and max_pending are at least 1")
        if finish not in ("begun", "all"):
            raise ConfigError(f"finish={finish!r} is neither 'begun' nor 'all'")
        self._consumer = consumer
        self._handle = handle
        self._concurrency = concurrency
        self._max_pending = max_pending
        self._commit_interval_s = commit_interval_ms / 1000
        self._finishes_all = finish == "all"
        self._drain_timeout_s = drain_timeout_ms / 1000
        self._key = key
        self._due_ms = due_ms
        self._clock = clock or SystemClock()
        self._lanes = Lanes()
        self._deferrals = Deferrals()
        self._progress: dict[TopicPartition, Progress] = {}
        self._running: dict[asyncio.Task[None], Work] = {}
        self._failure: BaseException | None = None
        self._stopping = False
        self._cancelling = False
        self._full = False
        self._wanted: asyncio.Future[None] | None = None
        self._commit_at = 0.0
        self._committing = False
        """Whether a commit is on its way in the background: one is enough, also when it hangs."""

    @property
    def pending_count(self) -> int:
        """How many records were read and are not finished."""
        return self._lanes.waiting_count + len(self._running)

    # Running

    async def run(self) -> None:
        """Work until `stop`, until the consumer is closed, or until a handler fails.

        What a handler raises is raised here, after the others have returned and what is finished
        has been committed; a later `run` begins with the record that failed. Cancelled, handlers
        are cancelled, too, and what they finished since the last commit is not committed.
        """
        self._check()
        self._failure, self._cancelling, self._committing = None, False, False
        self._commit_at = _now() + self._commit_interval_s
        try:
            try:
                await self._consume()
            except Exception as error:  # noqa: BLE001 - raised below, after an orderly end
                self._failure = self._failure or error
            await self._wind_up()
        finally:
            await self._cancel_running()
            self._forget(list(self._progress))
            self._deferrals, self._full, self._stopping = Deferrals(), False, False
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Let `run` return once what is under way is finished and committed.

        May be called at any time; before `run`, that returns at once.
        """
        self._stopping = True
        self._wake()

    def _check(self) -> None:
        """Refuse a consumer that would commit by itself what is not finished."""
        # Nobody outside needs to ask a consumer for its settings.
        if self._consumer._settings.enable_auto_commit:  # noqa: SLF001 - of the same house
            raise InvalidState(
                "the consumer commits by itself, also what is not finished",
                advice="Give it enable_auto_commit=False.",
            )
        self._consumer.group_metadata()  # InvalidState without a group to commit to
        wanted = self._consumer.subscription()
        if wanted.topics or wanted.pattern is not None:
            if getattr(wanted.listener, "workers", None) is not self:
                listener = _Listener(self, wanted.listener)
                self._consumer.subscribe(wanted.topics, pattern=wanted.pattern, listener=listener)
        elif not self._consumer.assignment():
            raise InvalidState(
                "the consumer has nothing to consume", advice="Subscribe it to topics first."
            )

    async def _consume(self) -> None:
        while not self._stopping and self._failure is None:
            try:
                records = await self._poll()
            except ClientClosed:
                return
            self._accept(records)
            self._resume_due()
            self._mind_the_room()
            if _now() >= self._commit_at:
                self._commit_at = _now() + self._commit_interval_s
                self._commit_soon()

    async def _poll(self) -> list[Record[K, V]]:
        """Wait for records, or until something else is to be done."""
        asking = asyncio.ensure_future(self._consumer.poll(self._poll_ms()))
        self._wanted = asyncio.get_running_loop().create_future()
        try:
            if not self._stopping and self._failure is None:
                await asyncio.wait((asking, self._wanted), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._wanted = None
            if not asking.done():
                asking.cancel()
                await asyncio.wait((asking,))
        return [] if asking.cancelled() else asking.result()

    def _poll_ms(self) -> float:
        waits = [POLL_MS, (self._commit_at - _now()) * 1000]
        if (wait_ms := self._deferrals.wait_ms(self._clock.wall_ms())) is not None:
            waits.append(wait_ms)
        return max(0.0, min(waits))

    def _wake(self) -> None:
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)

    # Taking records on

    def _accept(self, records: Sequence[Record[K, V]]) -> None:
        now_ms = self._clock.wall_ms()
        assignment = self._consumer.assignment()
        for index, record in enumerate(records):
            partition = TopicPartition(record.topic, record.partition)
            if partition not in assignment:
                continue  # lost on the way here
            if partition in self._deferrals:
                continue  # behind one that is not due; read again when that is
            try:
                self._take_on(record, partition, now_ms)
            except BaseException:
                self._put_back(records[index:])
                raise
        self._begin_more()

    def _take_on(self, record: Record[K, V], partition: TopicPartition, now_ms: int) -> None:
        due_ms = None if self._due_ms is None else self._due_ms(record)
        if due_ms is not None and due_ms > now_ms:
            self._consumer.seek(partition, record.offset)
            self._consumer.pause(partition)
            self._deferrals.hold(partition, due_ms)
            return
        lane = self._lane_of(record, partition)
        progress = self._progress.get(partition)
        if progress is None:
            progress = self._progress[partition] = Progress()
        progress.begin(record)
        self._lanes.put(Work(record, partition, lane, progress))

    def _put_back(self, records: Sequence[Record[K, V]]) -> None:
        """Set the consumer back to the first of these in each partition."""
        for record in reversed(records):
            for partition in self._ours([TopicPartition(record.topic, record.partition)]):
                self._consumer.seek(partition, record.offset)

    def _lane_of(self, record: Record[K, V], partition: TopicPartition) -> Lane:
        key = record.key if self._key is None else self._key(record)
        if key is None:
            return None
        try:
            hash(key)
        except TypeError:
            raise InvalidState(
                f"the key of {partition} at offset {record.offset} is a {type(key).__name__},"
                " which cannot be told from others",
                advice="Give `key=` a function that returns something hashable.",
            ) from None
        return partition, key

    def _resume_due(self) -> None:
        due = self._deferrals.take_due(self._clock.wall_ms())
        if not self._full:
            self._consumer.resume(*self._ours(due))

    def _mind_the_room(self) -> None:
        """Rest while too much is pending; the consumer is asked all the same, so it stays alive."""
        if self.pending_count >= self._max_pending:
            self._full = True
        elif self._full and self._has_room:
            self._full = False
            rested = [one for one in self._consumer.paused() if one not in self._deferrals]
            self._consumer.resume(*rested)
        if self._full:
            self._consumer.pause(*self._consumer.assignment())

    @property
    def _has_room(self) -> bool:
        """Whether so little is left that more must come for the handlers to stay busy."""
        return self.pending_count <= self._max_pending // 2

    def _ours(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        assignment = self._consumer.assignment()
        return [one for one in partitions if one in assignment]

    # Handling

    def _begin_more(self) -> None:
        while (
            len(self._running) < self._concurrency
            and self._failure is None
            and not self._cancelling
            and (work := self._lanes.take()) is not None
        ):
            task = asyncio.ensure_future(self._do(work))
            self._running[task] = work
            task.add_done_callback(self._done)

    async def _do(self, work: Work) -> None:
        await self._handle(work.record)

    def _done(self, task: asyncio.Task[None]) -> None:
        work = self._running.pop(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if self._cancelling:
            pass
        elif error is None:
            work.progress.finish(work.record.offset)
        elif self._progress.get(work.partition) is work.progress:
            self._fail(work, error)
        else:
            logger.warning("handling %s failed, after it was lost", _place(work), exc_info=error)
        self._lanes.leave(work)
        self._begin_more()
        if self._full and self._has_room:
            self._wake()

    def _fail(self, work: Work, error: BaseException) -> None:
        """Keep the first failure for `run` to raise; a handler that was cancelled failed, too."""
        if self._failure is not None:
            logger.error("handling %s failed as well", _place(work), exc_info=error)
            return
        if isinstance(error, asyncio.CancelledError):
            error = InvalidState("a handler was cancelled by somebody else")
        error.add_note(f"while handling {_place(work)}")
        self._failure = error
        self._wake()

    # Ending, for some partitions or for all

    async def _wind_up(self) -> None:
        """Finish what is under way, commit it, and set the consumer back to what is not."""
        partitions = list(self._progress)
        await self._drain(partitions)
        try:
            await self._commit(partitions)
            for partition in self._ours(partitions):
                progress = self._progress.get(partition)
                if progress is not None and progress.first_open is not None:
                    self._consumer.seek(partition, progress.first_open)
            self._consumer.resume(*self._consumer.paused())
        except ClientError as error:
            if self._failure is None and not isinstance(error, ClientClosed):
                raise
            logger.warning("what is finished could not be committed: %s", error)

    async def _drain(self, partitions: Collection[TopicPartition]) -> None:
        """Wait until nothing of these is under way, as long as it may take."""
        deadline = _now() + self._drain_timeout_s
        while True:
            if not self._finishes_all or self._failure is not None:
                self._lanes.drop(partitions)
            busy = [task for task, work in self._running.items() if work.partition in partitions]
            if not busy and not self._lanes.waits(partitions):
                return
            left_s = deadline - _now()
            if left_s <= 0:
                logger.warning("%d records are not finished in time", len(busy))
                self._lanes.drop(partitions)
                return
            await asyncio.wait(
                busy or list(self._running), timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )

    async def _cancel_running(self) -> None:
        self._cancelling = True
        self._lanes.drop(list(self._progress))
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        while self._running:  # noqa: ASYNC110 - that they are done has not been heard everywhere
            await asyncio.sleep(0)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Let partitions go; what still runs of them goes on unheard."""
        gone = list(partitions)
        self._lanes.drop(gone)
        self._deferrals.forget(gone)
        for partition in gone:
            self._progress.pop(partition, None)

    async def give_up(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Finish with partitions that are revoked, and commit what is finished of them."""
        await self._drain(partitions)
        try:
            await self._commit(partitions)
        except ClientError as error:
            logger.warning("what is finished could not be committed: %s", error)
        self._forget(partitions)

    def drop(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Drop partitions that are lost: others have them, and nothing can be committed."""
        self._forget(partitions)

    # Committing

    def _uncommitted(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return {
            partition: progress.reached
            for partition in partitions
            if (progress := self._progress.get(partition)) is not None
            and progress.reached is not None
            and progress.reached != progress.committed
        }

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

    def _commit_soon(self) -> None:
        offsets = self._uncommitted(self._ours(self._progress))
        if offsets and not self._committing:
            self._committing = True
            self._consumer.commit_async(offsets, self._committed)

    def _committed(self, offsets: Offsets, error: Exception | None) -> None:
        self._committing = False
        if error is None:
            self._note_committed(offsets)
        else:
            logger.warning("a commit failed; the next one covers it: %s", error)

    def _note_committed(self, offsets: Offsets) -> None:
        for partition, offset in offsets.items():
            if (progress := self._progress.get(partition)) is not None:
                progress.committed = offset


class _Listener(RebalanceListener):
    """Tells the workers of partitions that come and go, and the user's own listener."""

    def __init__(self, workers: KeyedWorkers[Any, Any], listener: Any) -> None:
        self.workers = workers
        self._listener = listener

    async def on_partitions_revoked(self, partitions: AbstractSet[TopicPartition]) -> None:
        await self.workers.give_up(partitions)
        await _told(revoked(self._listener, partitions))

    async def on_partitions_assigned(self, partitions: AbstractSet[TopicPartition]) -> None:
        await _told(assigned(self._listener, partitions))

    async def on_partitions_lost(self, partitions: AbstractSet[TopicPartition]) -> None:
        self.workers.drop(partitions)
        await _told(lost(self._listener, partitions))


async def _told(call: Callable[[], Awaitable[object] | object] | None) -> None:
    outcome = None if call is None else call()
    if isinstance(outcome, Awaitable):
        await outcome


def _now() -> float:
    return asyncio.get_running_loop().time()


def _place(work: Work) -> str:
    return f"{work.partition} at offset {work.record.offset}"
