"""The producer for threads: `send` waits while the buffer is full.

Records are put into batches in the thread that sends, with one lock held; the event loop of the
engine is woken once a batch, never once a record.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from moldau.client.blocking import Portal
from moldau.client.errors import BufferFull, ClientError, RequestTimedOut
from moldau.client.producing.core import ProducerCore, no_such_partition
from moldau.client.producing.deliveries import Delivery
from moldau.client.producing.face import (
    Headers,
    Prepared,
    ProducerFace,
    header_pairs,
    record_fields,
)
from moldau.client.producing.fates import Fate
from moldau.client.producing.scopes import (
    OffsetSource,
    Transaction,
)
from moldau.client.producing.transactions import GroupMember, Offsets
from moldau.client.records import ProducerRecord

K = TypeVar("K")
V = TypeVar("V")


class Producer(ProducerFace[K, V]):
    """Sends records from threads, any number of them. The engine runs in a thread of its own."""

    _core: ProducerCore[Delivery] | None = None
    _portal: Portal | None = None

    def _set_up(self) -> None:
        self._starting = threading.Lock()
        self._lock = threading.Lock()
        """Held by whoever touches the buffer."""
        self._room = threading.Condition(self._lock)
        """Notified when there is room in the buffer again."""
        self._blocked_count = 0
        self._waking = False

    # Beginning and ending

    def start(self) -> None:
        """Find the cluster; NoBrokerReachable. `with` does it, and so does the first `send`."""
        with self._starting:
            if self._portal is not None:
                return
            portal = Portal("producer")
            try:
                self._core = portal.call(self._opened())
            except BaseException:
                portal.close()
                raise
            self._portal = portal

    async def _opened(self) -> ProducerCore[Delivery]:
        core = ProducerCore(
            self._connection_settings,
            self._settings,
            self._ports,
            self._lock,
            Delivery,
            self._room_made,
        )
        core.outbox.on_news = partial(self._news, core, asyncio.get_running_loop())
        try:
            await core.start()
        except BaseException:
            await core.close()
            raise
        return core

    def close(self, timeout: float | None = None) -> None:
        """Send what is buffered, wait for its acknowledgements, and end.

        After `timeout` seconds what is left fails with DeliveryAborted; 0 gives it up at once.
        """
        with self._starting:
            core, portal = self._core, self._portal
            if core is None or portal is None or not portal.is_open:
                return
            try:
                if timeout is None or timeout > 0:
                    with suppress(TimeoutError, ClientError):
                        finished = core.abort if core.in_transaction else core.sender.flush
                        portal.call(finished(), timeout)
            finally:
                portal.call(core.close())
                portal.close()
                self._close_parts()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _running(self) -> tuple[ProducerCore[Delivery], Portal]:
        if self._core is None:
            self.start()
        assert self._core is not None
        assert self._portal is not None
        return self._core, self._portal

    # Sending

    def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Hand over a record; `result()` of what is returned tells where it was put.

        Waits at most `max_block_ms` for room in the buffer (then BufferFull) and for the topic to
        be known (then UnknownTopicOrPartition). RecordTooLarge, SerializationFailed and
        InvalidState are raised here; all else is the delivery's.
        """
        if self._prepares:
            return self._send_prepared(
                ProducerRecord(topic, value, key, partition, timestamp_ms, header_pairs(headers))
            )
        if headers:
            headers = header_pairs(headers)
        core = self._core
        if core is not None:
            try:
                with self._lock:
                    delivery = core.outbox.put(
                        topic,
                        key,
                        value,
                        partition,
                        timestamp_ms,
                        headers,
                    )
            except BufferFull:
                delivery = None
            if delivery is not None:
                return delivery
        prepared = Prepared(topic, key, value, partition, timestamp_ms, headers)
        return self._put_waiting(prepared, self._deadline())

    def _deadline(self) -> float:
        return self._ports.clock.monotonic() + self._settings.max_block_ms / 1000

    def _send_prepared(self, record: ProducerRecord[K, V]) -> Delivery:
        record = self._intercepted(record)
        deadline = self._deadline()
        try:
            core, _ = self._running()
            if self._partitioner is not None and not core.outbox.knows(record.topic):
                self._open_topic(record.topic, deadline)
            prepared = self._prepared(record, core.outbox)
            delivery = self._put_waiting(prepared, deadline)
        except ClientError as error:
            self._not_sent(error)
            raise
        if self._interceptors:
            self._report(delivery)
        return delivery

    def _put_waiting(self, record: Prepared, deadline: float) -> Delivery:
        """Put a record, waiting for its topic and for room."""
        core, portal = self._running()
        refreshed = False
        while True:
            try:
                with self._lock:
                    delivery = core.outbox.put(*record)
            except BufferFull as full:
                portal.post(core.sender.close_batches)
                self._wait_for_room(core, deadline, full)
                continue
            if delivery is not None:
                return delivery
            if not core.outbox.knows(record.topic):
                self._open_topic(record.topic, deadline)
            elif not refreshed:
                # Partitions may have been added since: one fresh look decides.
                refreshed = True
                portal.call(core.refresh_topic(record.topic))
            else:
                count = core.outbox.partition_count(record.topic)
                raise no_such_partition(record.topic, record.partition, count)

    def _open_topic(self, topic: str, deadline: float) -> None:
        core, portal = self._running()
        portal.call(core.open_topic(topic, deadline))

    def _wait_for_room(
        self, core: ProducerCore[Delivery], deadline: float, full: BufferFull
    ) -> None:
        """Wait until the buffer is no longer crowded; BufferFull at the deadline."""
        with self._room:
            self._blocked_count += 1
            try:
                left_s = deadline - self._ports.clock.monotonic()
                if left_s <= 0 or not self._room.wait_for(
                    lambda: core.closed or core.accumulator.used <= self._crowd, left_s
                ):
                    raise full
            finally:
                self._blocked_count -= 1

    def _room_made(self) -> None:
        """Let those go on who wait for room; called on the loop's thread."""
        if self._blocked_count:
            with self._room:
                self._room.notify_all()

    def _news(self, core: ProducerCore[Delivery], loop: asyncio.AbstractEventLoop) -> None:
        """Wake the sender, from whichever thread, unless it is being woken."""
        if not self._waking and (core.has_sendable() or core.lingers_unnoticed()):
            self._waking = True
            loop.call_soon_threadsafe(self._wake, core)

    def _wake(self, core: ProducerCore[Delivery]) -> None:
        with self._lock:
            self._waking = False
        core.sender.pump()

    def send_many(self, topic: str, records: Iterable[V | ProducerRecord[K, V]]) -> int:
        """Send values, or ProducerRecords of that topic, and wait until all are acknowledged.

        Returns how many; raises what the first that failed failed of, after all are settled.
        """
        deliveries: dict[Fate, Delivery] = {}
        count = 0
        for record in records:
            value, key, partition, timestamp_ms, headers = record_fields(record)
            delivery = self.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
            deliveries[delivery.place()[0]] = delivery
            count += 1
        self.flush()
        for delivery in deliveries.values():
            delivery.result()
        return count

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until it is acknowledged or has failed.

        RequestTimedOut after these seconds; the sending goes on.
        """
        core, portal = self._running()
        try:
            portal.call(core.sender.flush(), timeout)
        except TimeoutError:
            raise RequestTimedOut(f"not everything was acknowledged within {timeout} s") from None

    # Transactions

    def transaction(self, consumer: OffsetSource | None = None) -> Transaction:
        """Return a block that is one transaction: `with producer.transaction(): ...`.

        Committed at its end, aborted if something is raised. With a consumer, what it hands out in
        the block is committed with it.
        """
        return Transaction(self, consumer)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._core is not None and self._core.in_transaction

    def begin_transaction(self) -> None:
        """Begin a transaction; InvalidState if one is open, ProducerFenced after that."""
        self._running()[0].begin()

    def commit_transaction(self) -> None:
        """Make all of the transaction count, once everything sent in it is acknowledged.

        Raises what broke the transaction: abort it then. After RequestTimedOut or Ctrl-C the
        outcome is not known: call it again.
        """
        core, portal = self._running()
        portal.call(core.commit())

    def abort_transaction(self) -> None:
        """Make none of the transaction count; what was not acknowledged fails with DeliveryAborted.

        After RequestTimedOut or Ctrl-C call it again.
        """
        core, portal = self._running()
        portal.call(core.abort())

    def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMember) -> None:
        """Commit a group's offsets with the transaction; `group` is `consumer.group_metadata()`.

        CommitFailed if the consumer is no longer a member: abort.
        """
        core, portal = self._running()
        portal.call(core.send_offsets(offsets, group))
