"""The producer for threads: `send` blocks while the buffer is full.

Records are put into batches in the thread that sends, with one lock held; the event loop of the
engine is woken once a batch, never once a record. Nothing of the engine refers to the producer but
weakly: one that is forgotten is collected, and what it still has is sent then, or at exit.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

from moldau.base.shielding import shielded
from moldau.client.errors import (
    BufferFull,
    ClientClosed,
    ClientError,
    RequestTimedOut,
)
from moldau.client.producing.core import ProducerCore
from moldau.client.producing.deliveries import Tally
from moldau.client.producing.delivery_types import Delivery
from moldau.client.producing.face import (
    Headers,
    Prepared,
    ProducerFace,
    each_record,
    header_pairs,
    patience_after,
    record_fields,
)
from moldau.client.producing.forking import watch_forks
from moldau.client.producing.outbox import check_target, no_such_partition
from moldau.client.producing.scopes import (
    GroupMember,
    Offsets,
    OffsetSource,
    Transaction,
)
from moldau.client.records import K, ProducerRecord, V
from moldau.engine.arguments import check_timeout, check_topic, waiting_s
from moldau.engine.portal import Portal, forked

logger = logging.getLogger(__name__)


class Producer(ProducerFace[K, V]):
    """Sends records from any number of threads. The engine runs in a background thread."""

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
        self._ending: asyncio.Task[None] | None = None
        """Ends the engine, for everybody who closes; made on the loop."""
        self._parts_closed = False

    # Beginning and ending

    def start(self) -> None:
        """Connect to the cluster; raises NoBrokerReachable if no broker answers.

        `with` calls it, and so does the first `send`.
        """
        self._check_not_closed()
        watch_forks(self)
        with self._starting:
            if self._portal is not None:
                return
            portal = Portal("producer")
            try:
                core = portal.call(self._opened())
            except BaseException:
                portal.close()
                raise
            portal.set_farewell(partial(_farewell, core))
            self._core, self._portal = core, portal

    async def _opened(self) -> ProducerCore[Delivery]:
        core: ProducerCore[Delivery] = ProducerCore(
            self._connection_settings,
            self._settings,
            self._ports,
            self._lock,
            _weakly(self._room_made),
            for_threads=True,
        )
        core.outbox.on_news = partial(_weakly(self._news), core, asyncio.get_running_loop())
        try:
            await core.start()
        except BaseException:
            await core.close()
            raise
        return core

    def close(self, timeout: float | None = None) -> None:
        """Send the buffered records, wait for their acknowledgements, and close.

        After `timeout` seconds the remaining records fail with DeliveryAborted. 0 gives up at once,
        also for another thread that waits in `close`. In a callback the timeout is always 0,
        because acknowledgements arrive on the same thread.
        """
        if timeout is not None:
            check_timeout("timeout", timeout)
        self._is_closed = True
        with self._starting:
            core, portal = self._core, self._portal
        if core is None or portal is None:
            return
        if portal.is_open and portal.is_own_thread:
            self._close_in_callback(core, portal)
            return
        try:
            if portal.is_open and (timeout is None or timeout > 0):
                with suppress(TimeoutError, ClientError):
                    portal.call(core.finish(), timeout)
        finally:
            self._end(core, portal)

    def _close_in_callback(self, core: ProducerCore[Delivery], portal: Portal) -> None:
        if core.closed:
            return
        core.give_up()
        ended = portal.loop.create_task(self._ended(core))
        ended.add_done_callback(lambda _: self._end(core, portal))

    def _end(self, core: ProducerCore[Delivery], portal: Portal) -> None:
        """End the engine, its thread, and what the user gave; in another process nothing."""
        try:
            if portal.is_open and not portal.is_own_thread:
                with suppress(ClientClosed):  # somebody else was quicker
                    portal.call(self._ended(core))
        finally:
            portal.close()
            with self._lock:
                is_first = not self._parts_closed and portal.is_own_process
                self._parts_closed = True
            if is_first:
                self._close_parts()

    async def _ended(self, core: ProducerCore[Delivery]) -> None:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(core.close())
        await shielded(self._ending)

    # What a fork asks for: see `forking`

    def _hold_still(self, patience_s: float) -> bool:
        """Let nobody touch the buffer until `_go_on`."""
        return self._lock.acquire(timeout=patience_s)

    def _go_on(self) -> None:
        """Let the buffer be touched again."""
        self._lock.release()

    def _become_copy(self) -> None:
        """Refuse everything: the engine is another process's."""
        self._starting = threading.Lock()  # whoever held it is not here
        if self._core is not None:
            self._core.become_copy(forked())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(patience_after(kind))

    def _running(self) -> tuple[ProducerCore[Delivery], Portal]:
        if self._core is None:
            self.start()
        assert self._core is not None
        assert self._portal is not None
        self._portal.check_open()
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
        """Send a record; `result()` of the returned delivery has its partition and offset.

        Blocks at most `max_block_ms` for room in the buffer (then BufferFull) and for metadata of
        the topic (then UnknownTopicOrPartition). Raises RecordTooLarge, SerializationFailed and
        InvalidState directly; the delivery has all other errors.
        """
        if self._prepares:
            return self._send_prepared(
                ProducerRecord(topic, value, key, partition, timestamp_ms, header_pairs(headers))
            )
        headers = header_pairs(headers) if headers else ()
        core = self._core
        if core is not None:
            try:
                delivery = core.outbox.put_locked(
                    self._lock, topic, key, value, partition, timestamp_ms, headers
                )
            except BufferFull:
                delivery = None
            if delivery is not None:
                return delivery
        prepared = Prepared(topic, key, value, partition, timestamp_ms, headers)
        return self._put_waiting(prepared, None, self._deadline())

    def _deadline(self) -> float:
        return self._ports.clock.monotonic() + self._settings.max_block_ms / 1000

    def _send_prepared(self, record: ProducerRecord[K, V]) -> Delivery:
        record = self._intercepted(record)
        deadline = self._deadline()
        try:
            check_target(record.topic, record.partition)
            core, portal = self._running()
            known = core.outbox.knows(record.topic)
            if self._partitioner is not None and not known and not portal.is_own_thread:
                portal.call(core.parking.open(record.topic, deadline))
                known = True
            prepared = self._prepared(record, core.view if known else None)
            choose = self._choice(record, prepared, core.view)
            delivery = self._put_waiting(prepared, choose, deadline)
        except ClientError as error:
            self._not_sent(error)
            raise
        if self._interceptors:
            self._report(delivery)
        return delivery

    def _put_waiting(
        self, record: Prepared, choose: Callable[[], int] | None, deadline: float
    ) -> Delivery:
        """Put a record, waiting for its topic and for room.

        In a callback there is nothing to wait for: room is made here, and so is what is known of
        topics. The record itself waits there.
        """
        check_target(record.topic, record.partition)
        core, portal = self._running()
        refreshed = False
        while True:
            try:
                with self._lock:
                    delivery = core.outbox.put(*record)
            except BufferFull as full:
                portal.post(core.sender.close_batches)
                if portal.is_own_thread:
                    raise
                self._wait_for_room(core, deadline, full)
                continue
            if delivery is not None:
                return delivery
            if portal.is_own_thread:
                return core.parking.park(*record, choose)
            if not core.outbox.knows(record.topic):
                portal.call(core.parking.open(record.topic, deadline))
            elif not refreshed:
                # Partitions may have been added since: one fresh look decides.
                refreshed = True
                portal.call(core.parking.refresh(record.topic))
            else:
                count = core.outbox.partition_count(record.topic)
                raise no_such_partition(record.topic, record.partition, count)

    def _wait_for_room(
        self, core: ProducerCore[Delivery], deadline: float, full: BufferFull
    ) -> None:
        """Wait until the buffer is no longer crowded; BufferFull at the deadline."""
        with self._room:
            self._blocked_count += 1
            try:
                left_s = deadline - self._ports.clock.monotonic()
                if left_s <= 0 or not self._room.wait_for(
                    lambda: core.closed or core.accumulator.used <= self._crowd, waiting_s(left_s)
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
            loop.call_soon_threadsafe(self._wake, core)
            # After it, so that Ctrl-C in between costs one more waking, not every later one. The
            # lock is held, and the waking takes it.
            self._waking = True

    def _wake(self, core: ProducerCore[Delivery]) -> None:
        with self._lock:
            self._waking = False
        core.sender.pump()

    def send_many(self, topic: str, records: Iterable[V | ProducerRecord[K, V]]) -> int:
        """Send values, or ProducerRecords of that topic, and wait for all acknowledgements.

        Returns the number of records. If any failed, raises the first error after all are done.
        """
        check_topic(topic)
        tally = Tally()
        for record in each_record(records):
            value, key, partition, timestamp_ms, headers = record_fields(topic, record)
            tally.add(
                self.send(
                    topic,
                    value,
                    key,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    headers=headers,
                )
            )
        self.flush()
        return tally.result()

    def flush(self, timeout: float | None = None) -> None:
        """Send all buffered records now and wait until each is acknowledged or has failed.

        After `timeout` seconds it raises RequestTimedOut; sending continues.
        """
        if timeout is not None:
            check_timeout("timeout", timeout)
        core, portal = self._running()
        try:
            portal.call(core.flush(), timeout)
        except TimeoutError:
            raise RequestTimedOut(f"not all records were acknowledged within {timeout} s") from None

    # Transactions

    def transaction(self, consumer: OffsetSource | None = None) -> Transaction:
        """Return a block that is one transaction: `with producer.transaction(): ...`.

        It is committed at the end of the block and aborted if the block raises. With a consumer,
        the offsets of the records it returns in the block are part of the transaction; after an
        abort it returns them again. If the consumer loses a partition whose records it has
        returned in the block, the transaction is aborted with CommitFailed.
        """
        return Transaction(self, consumer)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._core is not None and self._core.in_transaction

    def begin_transaction(self) -> None:
        """Begin a transaction.

        Raises InvalidState if one is open, and ProducerFenced if the producer was fenced.
        """
        self._running()[0].begin()

    def commit_transaction(self) -> None:
        """Commit the transaction after all its records are acknowledged.

        If a record failed, raises its error: abort the transaction then. After RequestTimedOut or
        Ctrl-C the outcome is unknown: call it again.
        """
        core, portal = self._running()
        portal.call(core.commit())

    def abort_transaction(self) -> None:
        """Abort the transaction; unacknowledged records fail with DeliveryAborted.

        After RequestTimedOut or Ctrl-C, call it again.
        """
        core, portal = self._running()
        portal.call(core.abort())

    def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMember) -> None:
        """Commit offsets of a group in the transaction; `group` is `consumer.group_metadata()`.

        Raises CommitFailed if the consumer is no longer a member: abort then.
        """
        core, portal = self._running()
        portal.call(core.send_offsets(offsets, group))


def _weakly(method: Callable[..., None]) -> Callable[..., None]:
    """Return a way to call a method for as long as its object lives."""
    reference = weakref.WeakMethod(method)

    def call(*arguments: object) -> None:
        living = reference()
        if living is not None:
            living(*arguments)

    return call


async def _farewell(core: ProducerCore[Delivery]) -> None:
    """Send what a producer still has that nobody closed; cancelled, the rest is lost."""
    try:
        if (count := core.unsettled_count()) or core.in_transaction:
            logger.warning("a producer was not closed: finishing its last %d records", count)
        await core.finish()
    except ClientError as error:
        logger.warning("a producer that was not closed could not finish: %s", error)
    finally:
        if count := core.unsettled_count():
            logger.error("%d records are lost: their producer was not closed", count)
        await core.close()
