"""What workers in tasks and workers in threads have in common: everything but how they wait.

Records that were read, which of them may be worked on, how far each partition has come, what may be
committed, when partitions rest. It decides nothing about order and offsets itself (`scheduling`
does). A workforce adds how a handler is run, how the consumer is asked and how an end is waited
for.

Only the one who runs it asks the consumer. Where handlers end in threads of their own, what they
touch is touched with the guard held.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final, Generic, Literal, TypeVar

from moldau.base.clock import Clock, SystemClock
from moldau.client.consumer import AsyncConsumer, Consumer
from moldau.client.consuming.coordination import Offsets
from moldau.client.consuming.listeners import RebalanceListener
from moldau.client.errors import InvalidSetting, InvalidState
from moldau.client.processing.scheduling import Deferrals, Lane, Lanes, Progress, Work
from moldau.client.records import Record, TopicPartition
from moldau.engine.arguments import check_int, check_timeout

logger = logging.getLogger(__name__)

C = TypeVar("C", bound=AsyncConsumer[Any, Any] | Consumer[Any, Any])
H = TypeVar("H", bound=Callable[..., Any])
K = TypeVar("K")
V = TypeVar("V")

POLL_MS: Final = 60_000
"""How long to wait for records when nothing else is due. Who waits counts as alive, so any time
would do."""


class Workforce(ABC, Generic[C, H, K, V]):
    """Processes the records of a consumer. One `run` at a time; only `run` uses the consumer.

    `finish` decides about records that were read but not started when partitions are revoked or
    `stop` is called. With "begun" the next owner handles them, and handles again any later records
    that were already finished. With "all" they are processed first.

    `key` returns the key whose order is kept (default: the record's key; it must be hashable).
    `due_ms` returns the time from which a record may be handled, or None for now. Until then its
    partition is paused.
    """

    def __init__(
        self,
        consumer: C,
        handle: H,
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
        check_int("concurrency", concurrency)
        check_int("max_pending", max_pending)
        check_timeout("commit_interval_ms", commit_interval_ms)
        check_timeout("drain_timeout_ms", drain_timeout_ms)
        if concurrency < 1 or max_pending < 1:
            raise InvalidSetting("concurrency and max_pending are at least 1")
        if finish not in ("begun", "all"):
            raise InvalidSetting(f"finish={finish!r} is neither 'begun' nor 'all'")
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
        self._running: dict[object, Work] = {}
        """What is under way, by whatever `_start` returned for it."""
        self._failure: BaseException | None = None
        self._stopping = False
        self._cancelling = False
        self._full = False
        self._commit_at = 0.0
        self._committing = False
        """Whether a commit is on its way in the background: one is enough, also when it hangs."""
        self._guard: AbstractContextManager[object] = nullcontext()
        """Held by whoever touches what handlers touch when they end; may be taken twice."""
        self._set_up()

    def _set_up(self) -> None:
        """Make what a kind needs of its own."""

    @property
    def pending_count(self) -> int:
        """How many records were read and are not finished."""
        return self._lanes.waiting_count + len(self._running)

    def stop(self) -> None:
        """Let `run` return once what is under way is finished and committed.

        May be called at any time, by a signal handler too; before `run`, that returns at once.
        """
        self._stopping = True
        self._wake()

    # What each kind has of its own

    @abstractmethod
    def _start(self, work: Work) -> object:
        """Begin to handle a record; `_finished` is called with what is returned here."""

    @abstractmethod
    def _wake(self) -> None:
        """Let the one who waits for records look at what else is to be done."""

    @abstractmethod
    def _now(self) -> float:
        """Return the time in seconds, from anywhere."""

    @abstractmethod
    def _listener(self, users: Any) -> RebalanceListener:
        """Make what the consumer tells of partitions, and what tells the user's own listener."""

    # Beginning

    def _begin(self) -> None:
        self._check()
        self._failure, self._cancelling, self._committing = None, False, False
        self._commit_at = self._now() + self._commit_interval_s

    def _check(self) -> None:
        """Refuse a consumer that would commit by itself what is not finished."""
        if self._consumer.commits_automatically:
            raise InvalidState(
                "the consumer commits automatically, also unfinished records",
                advice="Give it enable_auto_commit=False.",
            )
        self._consumer.group_metadata()  # InvalidState without a group to commit to
        wanted = self._consumer.subscription()
        if wanted.topics or wanted.pattern is not None:
            if getattr(wanted.listener, "workforce", None) is not self:
                listener = self._listener(wanted.listener)
                self._consumer.subscribe(wanted.topics, pattern=wanted.pattern, listener=listener)
        elif not self._consumer.assignment():
            raise InvalidState(
                "the consumer has no subscription", advice="Subscribe it to topics first."
            )

    @property
    def _goes_on(self) -> bool:
        return not self._stopping and self._failure is None

    def _poll_ms(self) -> float:
        """Return how long records may be waited for before something else is to be done."""
        waits = [POLL_MS, (self._commit_at - self._now()) * 1000]
        if (wait_ms := self._deferrals.wait_ms(self._clock.wall_ms())) is not None:
            waits.append(wait_ms)
        return max(0.0, min(waits))

    def _take_up(self, records: Sequence[Record[K, V]]) -> None:
        """Do everything that is due after the consumer was asked."""
        self._accept(records)
        self._resume_due()
        self._mind_the_room()
        if self._now() >= self._commit_at:
            self._commit_at = self._now() + self._commit_interval_s
            self._commit_soon()

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
        with self._guard:
            self._begin_more()

    def _take_on(self, record: Record[K, V], partition: TopicPartition, now_ms: int) -> None:
        due_ms = None if self._due_ms is None else self._due_ms(record)
        if due_ms is not None and due_ms > now_ms:
            self._defer(record, partition, due_ms)
            return
        lane = self._lane_of(record, partition)
        with self._guard:
            progress = self._progress.get(partition)
            if progress is None:
                progress = self._progress[partition] = Progress()
            progress.begin(record)
            self._lanes.put(Work(record, partition, lane, progress))

    def _defer(self, record: Record[K, V], partition: TopicPartition, due_ms: int) -> None:
        with suppress(InvalidState):  # taken away meanwhile: whoever has it now looks for itself
            self._consumer.seek(partition, record.offset)
            self._consumer.pause(partition)
            self._deferrals.hold(partition, due_ms)

    def _put_back(self, records: Sequence[Record[K, V]]) -> None:
        """Set the consumer back to the first of these in each partition."""
        for record in reversed(records):
            self._set_back(TopicPartition(record.topic, record.partition), record.offset)

    def _set_back(self, partition: TopicPartition, offset: int) -> None:
        with suppress(InvalidState):  # another's by now, at the offset that was committed
            self._consumer.seek(partition, offset)

    def _lane_of(self, record: Record[K, V], partition: TopicPartition) -> Lane:
        key = record.key if self._key is None else self._key(record)
        if key is None:
            return None
        try:
            hash(key)
        except TypeError:
            raise InvalidState(
                f"the key of {partition} at offset {record.offset} is a {type(key).__name__},"
                " which is not hashable",
                advice="Give `key=` a function that returns something hashable.",
            ) from None
        return partition, key

    def _resume_due(self) -> None:
        due = self._deferrals.take_due(self._clock.wall_ms())
        if due and not self._full:
            self._resume(due)

    def _mind_the_room(self) -> None:
        """Rest while too much is pending; the consumer is asked all the same, so it stays alive."""
        if self.pending_count >= self._max_pending:
            self._full = True
        elif self._full and self._has_room:
            self._full = False
            self._resume([one for one in self._consumer.paused() if one not in self._deferrals])
        if self._full:
            with suppress(InvalidState):  # of one taken away meanwhile; the next look pauses
                self._consumer.pause(*self._consumer.assignment())

    def _resume(self, partitions: Collection[TopicPartition]) -> None:
        for partition in self._ours(partitions):
            with suppress(InvalidState):  # taken away meanwhile
                self._consumer.resume(partition)

    @property
    def _has_room(self) -> bool:
        """Whether so little is left that more must come for the handlers to stay busy."""
        return self.pending_count <= self._max_pending // 2

    def _ours(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        assignment = self._consumer.assignment()
        return [one for one in partitions if one in assignment]

    # Handling; the guard is held

    def _begin_more(self) -> None:
        while (
            len(self._running) < self._concurrency
            and self._failure is None
            and not self._cancelling
            and (work := self._lanes.take()) is not None
        ):
            self._running[self._start(work)] = work

    def _finished(self, under_way: object, error: BaseException | None) -> None:
        """Take note of how the handling of a record ended."""
        work = self._running.pop(under_way)
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
        """Keep the first failure for `run` to raise."""
        if self._failure is not None:
            logger.error("handling %s failed as well", _place(work), exc_info=error)
            return
        error.add_note(f"while handling {_place(work)}")
        self._failure = error
        self._wake()

    # Ending, for some partitions or for all

    def _is_idle(self, partitions: Collection[TopicPartition]) -> bool:
        """Tell whether nothing of these is to be waited for; what need not be done is dropped."""
        if not self._finishes_all or self._failure is not None:
            self._lanes.drop(partitions)
        return not self._busy(partitions) and not self._lanes.waits(partitions)

    def _busy(self, partitions: Collection[TopicPartition]) -> list[object]:
        return [key for key, work in self._running.items() if work.partition in partitions]

    def _out_of_time(self, partitions: Collection[TopicPartition]) -> None:
        logger.warning("%d records are not finished in time", len(self._busy(partitions)))
        self._lanes.drop(partitions)

    def _go_back(self, partitions: Collection[TopicPartition]) -> None:
        """Set the consumer back to what is not finished, and let nothing rest."""
        for partition in self._ours(partitions):
            progress = self._progress.get(partition)
            if progress is not None and progress.first_open is not None:
                self._set_back(partition, progress.first_open)
        self._resume(self._consumer.paused())

    def _end(self) -> None:
        """Be as before `run`."""
        self._forget(list(self._progress))
        self._lanes, self._deferrals = Lanes(), Deferrals()
        self._full = self._stopping = False

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Let partitions go; what still runs of them goes on unheard."""
        gone = list(partitions)
        with self._guard:
            self._lanes.drop(gone)
            self._deferrals.forget(gone)
            for partition in gone:
                self._progress.pop(partition, None)

    def drop(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Drop partitions that are lost: others have them, and nothing can be committed."""
        self._forget(partitions)

    # Committing

    def _uncommitted(self, partitions: Iterable[TopicPartition]) -> Offsets:
        with self._guard:
            return {
                partition: progress.reached
                for partition in partitions
                if (progress := self._progress.get(partition)) is not None
                and progress.reached is not None
                and progress.reached != progress.committed
            }

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


def _place(work: Work) -> str:
    return f"{work.partition} at offset {work.record.offset}"
