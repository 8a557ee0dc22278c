"""A producer that is given whole batches, encoded and compressed elsewhere.

Retries, order, numbers, transactions, memory and brokers that come and go are those of `Producer`.
A batch is given its producer's number, its place in a transaction and its checksum when it is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from moldau.base.files import Buffer
from moldau.client.errors import BufferFull, ClientError
from moldau.client.producer import Delivery, Producer
from moldau.client.producer_settings import ProducerSettings
from moldau.client.producing.batch_results import BatchResult, fresh
from moldau.client.producing.batches import ProducerBatch
from moldau.client.producing.core import ProducerCore
from moldau.client.producing.outbox import no_such_partition
from moldau.records.batch import TRANSACTIONAL_BIT, BatchHeader, pack_batch
from moldau.records.compression import Codec

__all__ = ["BatchProducer", "BatchResult", "PreparedBatch"]


class PreparedBatch(ProducerBatch):
    """A batch whose records are encoded, and compressed, already."""

    __slots__ = ("_header", "_records")

    def __init__(
        self,
        batch_result: BatchResult,
        header: BatchHeader,
        records: Buffer,
        plain_size: int,
        level: int | None,
        *,
        transactional: bool,
        opened_at: float,
        deadline: float,
    ) -> None:
        """`records` are as the header's codec has them; `plain_size` is without compression."""
        super().__init__(
            batch_result,
            Codec(header.codec),
            level,
            transactional=transactional,
            opened_at=opened_at,
            deadline=deadline,
            reserved=plain_size,
        )
        self._header = header
        self._records: Buffer | None = records
        self.count = header.count
        self.size = plain_size

    def sealed(self) -> bytes:
        """Return the bytes that go out, with the number that it has been given by now."""
        if self._sealed is None:
            assert self._records is not None
            bit = self._attributes & TRANSACTIONAL_BIT
            sealed = self._header._replace(
                attributes=self._header.attributes | bit,
                producer_id=self._producer_id,
                producer_epoch=self._producer_epoch,
                base_sequence=self._base_sequence,
            )
            self._sealed = pack_batch(sealed, self._records)
            self._records = None
        return self._sealed

    def drop(self) -> None:
        """Let go of the records."""
        super().drop()
        self._records = None


class BatchProducer(Producer[bytes, bytes]):
    """Sends batches from a thread, and records too. One thread uses it at a time."""

    def _set_up(self) -> None:
        super()._set_up()
        self._batch_results: deque[BatchResult] = deque()

    @property
    def settings(self) -> ProducerSettings:
        """What it was made with: batches must be no larger than it allows."""
        return self._settings

    # What is to be known of a topic before its batches are made

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has; waits up to `max_block_ms` for it."""
        core = self._knowing(topic)
        return core.outbox.partition_count(topic)

    def available_partitions(self, topic: str) -> Sequence[int]:
        """Return the partitions that have a leader; all of them if none has."""
        return self._knowing(topic).outbox.available_partitions(topic)

    def look_again(self, topic: str) -> int:
        """Return how many partitions a topic has by now: some may have been added."""
        core, portal = self._running()
        portal.call(core.parking.refresh(topic))
        return self.partition_count(topic)

    def knows(self, topic: str) -> bool:
        """Tell whether a topic has been asked for before and was there."""
        return self._core is not None and self._core.outbox.knows(topic)

    def forget(self, topic: str) -> None:
        """Ask no more about a topic that is about to be deleted: a question could bring it back."""
        core, portal = self._running()
        with self._lock:
            core.outbox.close_topic(topic)
        portal.post(core.cluster.forget_topics, [topic])

    def _knowing(self, topic: str) -> ProducerCore[Delivery]:
        core, portal = self._running()
        if not core.outbox.knows(topic):
            portal.call(core.parking.open(topic, self._deadline()))
        return core

    # Sending

    def send_batch(
        self, topic: str, partition: int, header: BatchHeader, records: Buffer, plain_size: int
    ) -> BatchResult:
        """Hand over a batch; waits while the buffer is full. Raises the error of an earlier one.

        BufferFull after `max_block_ms`. What is returned knows where it was put, after a flush.
        """
        core, portal = self._knowing(topic), self._running()[1]
        if partition >= core.outbox.partition_count(topic):
            count = self.look_again(topic)
            if partition >= count:
                raise no_such_partition(topic, partition, count)
        deadline = self._deadline()
        while True:
            self._raise_failed()
            with self._lock:
                if core.accumulator.has_room(plain_size):
                    batch_result = self._put(core, topic, partition, header, records, plain_size)
                    if not self._waking:
                        # Not by `on_news`, which leaves it to the lingering of an open batch where
                        # no broker has been written to yet; there never is an open one here.
                        portal.post(self._wake, core)
                        self._waking = True
                    return batch_result
            full = BufferFull(f"the buffer is full: {core.accumulator.used} bytes wait to be sent")
            self._wait_for_room(core, deadline, full)

    def _put(
        self,
        core: ProducerCore[Delivery],
        topic: str,
        partition: int,
        header: BatchHeader,
        records: Buffer,
        plain_size: int,
    ) -> BatchResult:
        """Put a batch behind those of its partition; called with the lock held."""
        settings, accumulator = self._settings, core.accumulator
        now = self._ports.clock.monotonic()
        batch_result = BatchResult(topic, partition, self._lock)
        batch = PreparedBatch(
            batch_result,
            header,
            records,
            plain_size,
            settings.level,
            transactional=settings.transactional_id is not None,
            opened_at=now,
            deadline=now + settings.delivery_timeout_ms / 1000,
        )
        queues = accumulator.topics[topic]
        accumulator.add_batch(queues, queues.queues[partition], batch, now)
        self._batch_results.append(batch_result)
        return batch_result

    def flush_batches(self) -> None:
        """Wait until every batch is acknowledged; raises the first error."""
        self.flush()
        self._raise_failed()

    def give_up(self) -> None:
        """Close at once; what is not acknowledged is dropped."""
        self.close(timeout=0)

    def _raise_failed(self) -> None:
        """Raise the error of a settled batch; forget those that are written."""
        while self._batch_results and _is_settled(self._batch_results[0]):
            error = _failure(self._batch_results.popleft())
            if error is not None:
                raise fresh(error)


def _is_settled(batch_result: BatchResult) -> bool:
    return batch_result.done and all(
        _is_settled(moved.batch_result) for moved in batch_result.moved
    )


def _failure(batch_result: BatchResult) -> ClientError | None:
    """Return why a batch, or a part of one that was split, was not written."""
    found = [_failure(moved.batch_result) for moved in batch_result.moved]
    return next((error for error in found if error is not None), batch_result.error)
