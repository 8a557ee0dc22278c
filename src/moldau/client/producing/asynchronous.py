"""The producer for asyncio: `send` never waits, `drain` waits for room in the buffer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from moldau.base.shielding import shielded
from moldau.client.errors import BufferFull, ClientError, InvalidState
from moldau.client.producing.core import ProducerCore
from moldau.client.producing.deliveries import LoopGuard, Tally
from moldau.client.producing.delivery_types import AsyncDelivery
from moldau.client.producing.face import (
    Headers,
    ProducerFace,
    each_record,
    header_pairs,
    patience_after,
    record_fields,
)
from moldau.client.producing.outbox import check_target
from moldau.client.records import K, ProducerRecord, V
from moldau.engine.arguments import check_timeout, check_topic
from moldau.engine.owning_loop import check_loop

if TYPE_CHECKING:
    from moldau.client.producing.scopes import (
        AsyncOffsetSource,
        AsyncTransaction,
        GroupMember,
        Offsets,
    )


TURN_BATCHES = 4
"""`drain` lets the event loop run once for so many batches: one fewer than may be on their way by
default, so that a broker always has one, and its answers are read several at a time."""


class AsyncProducer(ProducerFace[K, V]):
    """Sends records from asyncio. Use it on a single event loop."""

    _core: ProducerCore[AsyncDelivery] | None = None

    def _set_up(self) -> None:
        self._loop: asyncio.AbstractEventLoop
        self._put: Callable[..., AsyncDelivery | None] = _refuse
        """The outbox's, at hand for every record."""
        self._waiting_for_room: list[asyncio.Future[None]] = []
        self._restless = True
        """The event loop should run: `drain` lets it, and says if there is none yet."""
        self._nothing: asyncio.Future[None]
        """What is awaited where there is nothing to wait for: quicker than any coroutine."""
        self._news_count = 0

    # Beginning and ending

    async def start(self) -> None:
        """Connect to the cluster; raises NoBrokerReachable if no broker answers.

        `async with` calls it. If cancelled, it leaves no connections or tasks behind.
        """
        self._check_not_closed()
        if self._core is not None:
            raise InvalidState("the producer is already started")
        self._loop = asyncio.get_running_loop()
        core: ProducerCore[AsyncDelivery] = ProducerCore(
            self._connection_settings,
            self._settings,
            self._ports,
            LoopGuard(self._loop),
            self._room_made,
            for_threads=False,
        )
        core.outbox.on_news = self._news
        core.outbox.before_batch = self._check_loop
        try:
            await core.start()
        except BaseException:
            await core.close()
            raise
        self._nothing = self._loop.create_future()
        self._nothing.set_result(None)
        self._restless = False
        self._core = core
        self._put = core.outbox.put

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - 0 has a meaning
        """Send the buffered records, wait for their acknowledgements, and close.

        After `timeout` seconds the remaining records fail with DeliveryAborted. 0 gives up at once,
        and so does a cancellation.
        """
        if timeout is not None:
            check_timeout("timeout", timeout)
        core = self._core
        if core is not None and not self._is_closed:
            self._check_loop()
        self._is_closed = True
        if core is None or core.closed:
            return
        try:
            if timeout is None or timeout > 0:
                async with asyncio.timeout(timeout):
                    with suppress(ClientError):
                        await core.finish()
        except TimeoutError:
            pass
        finally:
            await shielded(self._end(core))

    async def _end(self, core: ProducerCore[AsyncDelivery]) -> None:
        await core.close()
        self._close_parts()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(patience_after(kind))

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
    ) -> AsyncDelivery:
        """Send a record and return at once; await the delivery for its partition and offset.

        Raises BufferFull if `buffer_memory` is used up: await `drain()` between calls. Also raises
        RecordTooLarge, SerializationFailed and InvalidState; the delivery has all other errors.
        """
        if self._prepares:
            return self._send_prepared(
                ProducerRecord(topic, value, key, partition, timestamp_ms, header_pairs(headers))
            )
        headers = header_pairs(headers) if headers else ()
        delivery = self._put(topic, key, value, partition, timestamp_ms, headers)
        if delivery is None:
            self._restless = True
            parking = self._started().parking
            return parking.park(topic, key, value, partition, timestamp_ms, headers, None)
        return delivery

    def _send_prepared(self, record: ProducerRecord[K, V]) -> AsyncDelivery:
        core = self._started()
        record = self._intercepted(record)
        try:
            check_target(record.topic, record.partition)
            outbox = core.outbox
            known = outbox.knows(record.topic)
            prepared = self._prepared(record, core.view if known else None)
            delivery = outbox.put(*prepared)
            if delivery is None:
                self._restless = True
                choose = self._choice(record, prepared, core.view)
                delivery = core.parking.park(*prepared, choose)
        except ClientError as error:
            self._not_sent(error)
            raise
        if self._interceptors:
            self._report(delivery)
        return delivery

    def drain(self) -> Awaitable[None]:
        """Wait while the buffer is more than half full; after `max_block_ms`, raise BufferFull.

        Call it between sends: afterwards there is room for the next record of any size. It also
        lets the event loop run once per batch, and is nearly free otherwise. Cancelling it does not
        affect records already sent.
        """
        return self._drained() if self._restless else self._nothing

    async def _drained(self) -> None:
        core = self._started()
        self._restless = False
        self._news_count = 0
        await asyncio.sleep(0)
        if core.accumulator.used <= self._crowd:
            return
        core.sender.close_batches()
        room = asyncio.get_running_loop().create_future()
        self._waiting_for_room.append(room)
        try:
            async with asyncio.timeout(self._settings.max_block_ms / 1000):
                await room
        except TimeoutError:
            raise BufferFull(
                f"the buffer was full for max_block_ms={self._settings.max_block_ms}"
            ) from None
        finally:
            self._restless = core.accumulator.used > self._crowd
            if room in self._waiting_for_room:
                self._waiting_for_room.remove(room)

    def _news(self) -> None:
        """Have what is ready sent: now if no broker has anything to do, else with what follows."""
        core = self._core
        if core is None:
            return
        self._news_count += 1
        if self._news_count >= TURN_BATCHES or core.accumulator.used > self._crowd:
            self._restless = True
        if core.has_sendable():
            if core.sender.is_idle:
                core.sender.pump()
            else:
                core.sender.wake()
        elif core.lingers_unnoticed():
            core.sender.wake()

    def _room_made(self) -> None:
        if self._waiting_for_room:
            core = self._core
            if core is None or core.accumulator.used <= self._crowd:
                for room in self._waiting_for_room:
                    if not room.done():
                        room.set_result(None)

    async def send_many(self, topic: str, records: Iterable[V | ProducerRecord[K, V]]) -> int:
        """Send values, or ProducerRecords of that topic, and wait for all acknowledgements.

        Returns the number of records. If any failed, raises the first error after all are done.
        If cancelled, records already sent are still delivered.
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
            await self.drain()
        await self.flush()
        return tally.result()

    async def flush(self) -> None:
        """Send all buffered records now and wait until each is acknowledged or has failed.

        If cancelled, sending continues.
        """
        await self._started().flush()

    # Transactions

    def transaction(self, consumer: AsyncOffsetSource | None = None) -> AsyncTransaction:
        """Return a block that is one transaction: `async with producer.transaction(): ...`.

        It is committed at the end of the block and aborted if the block raises. With a consumer,
        the offsets of the records it returns in the block are part of the transaction; after an
        abort it returns them again. If the consumer loses a partition whose records it has
        returned in the block, the transaction is aborted with CommitFailed.
        """
        from moldau.client.producing.scopes import AsyncTransaction  # noqa: PLC0415 - few have any

        return AsyncTransaction(self, consumer)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._core is not None and self._core.in_transaction

    def begin_transaction(self) -> None:
        """Begin a transaction.

        Raises InvalidState if one is open, and ProducerFenced if the producer was fenced.
        """
        self._started().begin()

    async def commit_transaction(self) -> None:
        """Commit the transaction after all its records are acknowledged.

        If a record failed, raises its error: abort the transaction then. If cancelled while records
        are in flight, the transaction stays open; if cancelled later, it is committed first. After
        RequestTimedOut the outcome is unknown: call it again.
        """
        await self._started().commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction; unacknowledged records fail with DeliveryAborted.

        If cancelled, or after RequestTimedOut, call it again.
        """
        await self._started().abort()

    async def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMember) -> None:
        """Commit offsets of a group in the transaction; `group` is `consumer.group_metadata()`.

        Raises CommitFailed if the consumer is no longer a member. Abort then, or if cancelled.
        """
        await self._started().send_offsets(offsets, group)

    def _started(self) -> ProducerCore[AsyncDelivery]:
        if self._core is None:
            raise _not_started()
        self._check_loop()
        return self._core

    def _check_loop(self) -> None:
        check_loop(self._loop, "producer")


def _refuse(*_: object) -> None:
    raise _not_started()


def _not_started() -> InvalidState:
    return InvalidState(
        "the producer has not been started", advice="Use `async with`, or await start() first."
    )
