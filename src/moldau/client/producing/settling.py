"""What becomes of batches after they were sent: written, tried again, split, given up.

Takes every answer to Produce (or the lack of one) to the batches it concerns, and tells whoever
waits: for a delivery, for a flush, for room in the buffer. What an answer means for the numbers is
`sequences`', what a transaction makes of it is the `Gate`'s. Methods that begin with an underscore
are called with the guard held; nobody is told anything before it was let go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from moldau.base.tuples import NamedTuple
from moldau.client.errors import ClientError, CorruptAnswer, DeliveryTimedOut, broker_error
from moldau.client.producer_settings import ProducerSettings
from moldau.client.producing.accumulator import Accumulator
from moldau.client.producing.batch_results import NO_APPEND_TIME, UNKNOWN_OFFSET, Guard, Watcher
from moldau.client.producing.batches import ProducerBatch
from moldau.client.producing.produce_template import Written
from moldau.client.producing.queues import PartitionQueue
from moldau.client.producing.sequences import Gap, SequenceIdentity, Verdict, verdict
from moldau.engine.backoff import Backoff
from moldau.engine.cluster import Cluster
from moldau.engine.ports import ClientPorts
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import PartitionProduceResponse, ProduceResponse

logger = logging.getLogger(__name__)

_REFRESHING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Answers that mean that another broker should have been asked."""


Answer = ProduceResponse | Written
"""Of the broker: in full, or the usual one as far as it matters."""


class Gate(Protocol):
    """What a transaction has to say about sending."""

    @property
    def identity(self) -> SequenceIdentity | None:
        """Who to number batches as; None while that is not known."""
        ...

    @property
    def version_max(self) -> int | None:
        """The newest version of Produce that its protocol may use; None for any."""
        ...

    @property
    def retries(self) -> bool:
        """Whether a batch that failed may be sent again."""
        ...

    def admits(self, queue: PartitionQueue) -> bool:
        """Tell whether a partition may be written to; if not yet, have that arranged."""
        ...

    def failed(self, error: ClientError) -> None:
        """Learn that a batch failed for good; called with the guard held."""
        ...


class Item(NamedTuple):
    """A batch on its way."""

    queue: PartitionQueue
    batch: ProducerBatch
    topic_id: bytes
    """Under which it was sent: a topic may be deleted and made anew meanwhile."""


class _Flush(NamedTuple):
    """Somebody waits until these are settled."""

    batches: set[ProducerBatch]
    finished: asyncio.Future[None]


class Settling:
    """Answers for batches. Owned by the event loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        settings: ProducerSettings,
        ports: ClientPorts,
        guard: Guard,
        on_room: Callable[[], None],
        on_pause_over: Callable[[Iterable[PartitionQueue]], None],
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._settings = settings
        self._clock = ports.clock
        self._random = ports.random
        self._guard = guard
        self._on_room = on_room
        self._on_pause_over = on_pause_over
        self._backoff = Backoff(
            cluster.settings.retry_backoff_ms, cluster.settings.retry_backoff_max_ms
        )
        self._loop = asyncio.get_running_loop()
        self._pauses: set[asyncio.TimerHandle] = set()
        self._flushes: list[_Flush] = []
        self.gate: Gate | None = None
        self.sent_count = self.sent_size = self.failed_count = self.retried_count = 0
        """Records and bytes, as metrics tell them."""

    # Answers

    def answered(
        self, items: list[Item], answer: Answer | None, error: ClientError | None
    ) -> list[Watcher]:
        """Take an answer, or the lack of one, to its batches; return who is to be told."""
        with self._guard:
            if type(answer) is Written:
                ((queue, batch, _),) = items
                queue.answered()
                return self._written(queue, batch, *answer)
            now = self._clock.monotonic()
            if error is not None:
                return self._unanswered(items, error, now)
            if answer is None:
                return self._unasked(items)
            assert isinstance(answer, ProduceResponse)
            return self._judged(items, answer, now)

    def _unasked(self, items: list[Item]) -> list[Watcher]:
        """With acks=0 a batch that left counts as written."""
        told: list[Watcher] = []
        for queue, batch, _ in items:
            queue.answered()
            told += self._written(queue, batch)
        return told

    def _unanswered(self, items: list[Item], error: ClientError, now: float) -> list[Watcher]:
        told: list[Watcher] = []
        for item in items:
            told += self._lost(item, error, now)
        return told

    def _lost(self, item: Item, error: ClientError, now: float) -> list[Watcher]:
        """Nobody knows what became of a batch."""
        queue, batch, _ = item
        queue.answered()
        batch.failure = error
        if batch.expired:
            return []
        # A broker that talks nonsense may have written it all the same; another connection tells.
        passes = error.retriable or isinstance(error, CorruptAnswer)
        if not passes or not self._may_retry(batch, now):
            return self._give_up(queue, batch, self._last_word(batch, error, now))
        self._again(queue, batch, now)
        return []

    def _judged(self, items: list[Item], response: ProduceResponse, now: float) -> list[Watcher]:
        answers: dict[tuple[str | bytes, int], PartitionProduceResponse] = {}
        for topic in response.responses:
            # From version 13 on it has ids in place of names, as the request had.
            told_as = topic.name or topic.topic_id
            for one in topic.partition_responses:
                answers[told_as, one.index] = one
        told: list[Watcher] = []
        for item in items:
            name, partition = item.queue.topic, item.queue.partition
            answer = answers.get((item.topic_id, partition)) or answers.get((name, partition))
            if answer is None:
                left_out = CorruptAnswer(f"the broker's answer leaves out {name}-{partition}")
                told += self._lost(item, left_out, now)
            else:
                told += self._judge(item, answer, response, now)
        return told

    def _judge(
        self, item: Item, answer: PartitionProduceResponse, response: ProduceResponse, now: float
    ) -> list[Watcher]:
        queue, batch, _ = item
        queue.answered()
        code = ErrorCode.of(answer.error_code)
        is_first = not queue.unacknowledged or queue.unacknowledged[0] is batch
        decision = verdict(code, batch, queue.sequences, is_first=is_first)
        if decision is Verdict.WRITTEN:
            return self._written(queue, batch, answer.base_offset, answer.log_append_time_ms)
        error = broker_error(answer.error_code, _message(answer))
        batch.failure = error
        if batch.expired:
            return []
        if decision is Verdict.SPLIT and self._may_go_on():
            self._split(queue, batch)
            return []
        if decision is Verdict.RENUMBER and self.gate is not None:
            decision = Verdict.FAIL
        if decision in (Verdict.FAIL, Verdict.SPLIT):
            return self._give_up(queue, batch, error)
        if not self._may_retry(batch, now):
            return self._give_up(queue, batch, self._last_word(batch, error, now))
        if decision is Verdict.RENUMBER:
            assert queue.sequences is not None
            queue.sequences.gap = Gap.CERTAIN
        is_moved = self._follow(queue, code, answer, response)
        self._again(queue, batch, now, is_moved=is_moved)
        return []

    def _may_go_on(self) -> bool:
        """Tell whether anything can still be sent: a transaction that ends lets nothing through."""
        return self.gate is None or self.gate.retries

    def _may_retry(self, batch: ProducerBatch, now: float) -> bool:
        if not self._may_go_on():
            return False
        return batch.attempts <= self._settings.retries and now < batch.deadline

    def _written(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        base_offset: int = UNKNOWN_OFFSET,
        append_time_ms: int = NO_APPEND_TIME,
    ) -> list[Watcher]:
        queue.acknowledged(batch)
        if batch.expired:
            return []
        self.sent_count += batch.count
        self.sent_size += batch.size
        self._settled(batch)
        return batch.batch_result.settle(None, base_offset, append_time_ms)

    def _split(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        logger.info(
            "%s-%d: the broker takes no batch of %d records and %d bytes, splitting it",
            queue.topic,
            queue.partition,
            batch.count,
            batch.size,
        )
        halves = self._accumulator.split(queue, batch)
        for flush in self._flushes:
            if batch in flush.batches:
                flush.batches.remove(batch)
                flush.batches.update(halves)

    def _follow(
        self,
        queue: PartitionQueue,
        code: ErrorCode,
        answer: PartitionProduceResponse,
        response: ProduceResponse,
    ) -> bool:
        """Find the leader that should have been asked; tell whether the answer names a newer one.

        What is known is what the batch was sent by: an answer that repeats it names nobody new.
        """
        leader = answer.current_leader
        if leader.leader_id >= 0:
            known = self._cluster.image.leader(queue.topic, queue.partition)
            # On a later turn: it ends in the sender, which takes the guard.
            self._loop.call_soon(
                self._cluster.learn_leader,
                queue.topic,
                queue.partition,
                leader.leader_id,
                leader.leader_epoch,
                response.node_endpoints,
            )
            return known is None or known.leader_epoch < leader.leader_epoch
        if code in _REFRESHING:
            self._cluster.request_refresh()
        return False

    def _again(
        self, queue: PartitionQueue, batch: ProducerBatch, now: float, *, is_moved: bool = False
    ) -> None:
        """Put a batch back, to be sent after a pause; without one to a leader that has moved."""
        self.retried_count += batch.count
        pause_s = 0.0 if is_moved else self._backoff.wait_s(batch.attempts, self._random)
        batch.not_before = now + pause_s
        queue.requeue(batch)
        handle: asyncio.TimerHandle

        def over() -> None:
            self._pauses.discard(handle)
            self._on_pause_over((queue,))

        handle = self._loop.call_later(pause_s, over)
        self._pauses.add(handle)

    # Ends

    def expire(self, now: float) -> list[Watcher] | None:
        """Give up what is past its deadline; return who is to be told, None if nothing was.

        Also where no delivery is watched somebody may flush, or wait for room. Called with the
        guard held.
        """
        late = self._accumulator.expired(now)
        if not late:
            return None
        told: list[Watcher] = []
        for queue, batch in late:
            told += self._give_up(queue, batch, self._timed_out(batch))
        return told

    def _last_word(self, batch: ProducerBatch, error: ClientError, now: float) -> ClientError:
        """Name why a batch is not tried again: an answer may come before the deadline's timer."""
        return self._timed_out(batch) if error.retriable and now >= batch.deadline else error

    def _timed_out(self, batch: ProducerBatch) -> ClientError:
        batch_result = batch.batch_result
        timeout_ms = self._settings.delivery_timeout_ms
        after = f" after: {batch.failure.what}" if batch.failure is not None else ""
        error = DeliveryTimedOut(
            f"{batch.count} records for {batch_result.topic}-{batch_result.partition} were not"
            f" acknowledged within delivery_timeout_ms={timeout_ms}{after}"
        )
        error.__cause__ = batch.failure
        return error

    def _give_up(
        self, queue: PartitionQueue, batch: ProducerBatch, error: ClientError
    ) -> list[Watcher]:
        """Fail a batch for good. Users need not look at every delivery, so the log says it too."""
        logger.warning(
            "%d records for %s-%d failed: %s", batch.count, queue.topic, queue.partition, error
        )
        if self.gate is not None:
            self.gate.failed(error)
        return self._fail(queue, batch, error)

    def _fail(
        self, queue: PartitionQueue, batch: ProducerBatch, error: ClientError
    ) -> list[Watcher]:
        queue.given_up(batch)
        batch.expired = True
        self.failed_count += batch.count
        self._settled(batch)
        return batch.batch_result.settle(error)

    def give_up_leader(self, leader: int, error: ClientError) -> None:
        """Give up the batches of a leader that cannot be written to."""
        told: list[Watcher] = []
        with self._guard:
            for queue, batch in self._accumulator.unsettled():
                if queue.leader == leader:
                    told += self._give_up(queue, batch, error)
        self.tell(told)

    def fail_all(self, error: ClientError, *, in_flight_too: bool = True) -> None:
        """Fail every batch, those on their way right now or not, without breaking a transaction."""
        told: list[Watcher] = []
        with self._guard:
            for queue, batch in self._accumulator.unsettled():
                if in_flight_too or batch is queue.open or batch in queue.waiting:
                    told += self._fail(queue, batch, error)
        self.tell(told)

    def _settled(self, batch: ProducerBatch) -> None:
        self._accumulator.release(batch)
        for flush in self._flushes:
            flush.batches.discard(batch)

    def tell(self, watchers: list[Watcher]) -> None:
        """Tell whoever waits: for a delivery, for room, for everything to be settled."""
        for watcher in watchers:
            watcher()
        if self._flushes:
            for flush in self._flushes:
                if not flush.batches and not flush.finished.done():
                    flush.finished.set_result(None)
            self._flushes = [flush for flush in self._flushes if not flush.finished.done()]
        self._on_room()

    async def settled(self) -> None:
        """Wait until every batch there is now is settled. Cancelled, nothing else changes."""
        with self._guard:
            batches = {batch for _, batch in self._accumulator.unsettled()}
        if batches:
            flush = _Flush(batches, self._loop.create_future())
            self._flushes.append(flush)
            await flush.finished

    def close(self) -> None:
        """End the pauses."""
        for handle in self._pauses:
            handle.cancel()


def _message(answer: PartitionProduceResponse) -> str | None:
    """Return what the broker says about a refused batch, of single records above all (KIP-467)."""
    texts = [
        f"record {one.batch_index}: {one.batch_index_error_message}"
        for one in answer.record_errors
        if one.batch_index_error_message
    ]
    return "; ".join(filter(None, (answer.error_message, *texts))) or None
