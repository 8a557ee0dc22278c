"""Everything of a producer that lives on the event loop, put together; both faces stand on it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from moldau.client.errors import ClientClosed, ClientError, DeliveryAborted, InvalidState
from moldau.client.producer_settings import ProducerSettings
from moldau.client.producing.accumulator import Accumulator, Bounds
from moldau.client.producing.batch_results import Guard, aborted_transaction, fresh
from moldau.client.producing.cluster_view import ClusterView
from moldau.client.producing.deliveries import Sent
from moldau.client.producing.outbox import Outbox
from moldau.client.producing.parking import Parking
from moldau.client.producing.sender import Sender
from moldau.client.producing.sequences import SequenceIdentity
from moldau.client.statistics import Statistics
from moldau.engine.background import in_background
from moldau.engine.cluster import Cluster, Node
from moldau.engine.ports import ClientPorts
from moldau.engine.retry import raise_for, read_or_lost, retried
from moldau.engine.settings import INT32_MAX, ConnectionSettings

if TYPE_CHECKING:
    from moldau.client.producing.scopes import GroupMember, Offsets
    from moldau.client.producing.transactions import Transactions

D = TypeVar("D", bound=Sent)

TIDYING_S: Final = 1.0
"""How soon to look again at a topic that is due to be forgotten and has records on their way."""


class ProducerCore(Generic[D]):
    """A producer's cluster, buffer and sender. Owned by the event loop's thread."""

    def __init__(
        self,
        connection: ConnectionSettings,
        settings: ProducerSettings,
        ports: ClientPorts,
        guard: Guard,
        on_room: Callable[[], None],
        *,
        for_threads: bool,
    ) -> None:
        self.settings = settings
        self.clock = ports.clock
        self.cluster = Cluster(connection, ports)
        self.accumulator = Accumulator(_bounds(settings), ports.random, guard)
        self.outbox: Outbox[D] = Outbox(
            self.accumulator,
            ports.clock,
            for_threads=for_threads,
            hashes_keys=not settings.partitioner_ignore_keys,
        )
        self.view = ClusterView(self.outbox, self.cluster)
        """What a partitioner of the user's is given."""
        self.sender = Sender(self.cluster, self.accumulator, settings, ports, guard, on_room)
        self.sender.ask_identity = self._ask_identity
        self.sender.crashed = self.fail
        self.parking = Parking(
            self.cluster,
            self.accumulator,
            self.outbox,
            ports.clock,
            guard,
            settings.max_block_ms,
            self.record_failed,
            self.fail,
        )
        self.transactions: Transactions | None = None
        if settings.transactional_id is not None:
            from moldau.client.producing.transactions import Transactions  # noqa: PLC0415 - few do

            self.transactions = Transactions(
                self.cluster, self.outbox, self.sender, settings, self.fail
            )
        self._statistics = Statistics(settings, self.metrics)
        self.closed = False
        self._failure: ClientError | None = None
        self._guard = guard
        self.cluster.on_crash(self.fail)
        self._identifying: asyncio.Task[None] | None = None
        self._tidying: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Find the cluster; NoBrokerReachable. Cancelled, `close` is still to be called."""
        await self.cluster.start()
        self._statistics.start()
        self._forget_idle_topics()
        if self.transactions is not None:
            await self.transactions.init()
            return
        with self._guard:
            self.outbox.accept()

    def _forget_idle_topics(self) -> None:
        """Stop asking for topics that nothing is sent to any more, now and whenever one is due."""
        now, idle_s = self.clock.monotonic(), self.settings.metadata_max_idle_ms / 1000
        with self._guard:
            self.cluster.forget_topics(self.outbox.close_idle(now - idle_s))
            used_at = self.outbox.used_first()
        due_s = idle_s if used_at is None else max(used_at + idle_s - now, TIDYING_S)
        loop = asyncio.get_running_loop()
        self._tidying = loop.call_later(due_s, self._forget_idle_topics)

    def has_sendable(self) -> bool:
        """Tell whether a batch is ready that a broker could take; called with the guard held."""
        return bool(self.accumulator.ready) and not self.sender.saturated

    def lingers_unnoticed(self) -> bool:
        """Tell whether a batch will have lingered before the sender looks by itself.

        Called with the guard held.
        """
        linger_end = self.accumulator.linger_end()
        return linger_end is not None and linger_end < self.sender.timer_at

    def metrics(self) -> dict[str, float]:
        """Return metrics under Kafka's names."""
        settling, total = self.sender.settling, self.settings.buffer_memory
        return {
            **self.cluster.metrics(),
            "record-send-total": settling.sent_count,
            "record-send-byte-total": settling.sent_size,
            "record-error-total": settling.failed_count,
            "record-retry-total": settling.retried_count,
            "requests-in-flight": self.sender.in_flight_count,
            "buffer-total-bytes": total,
            "buffer-available-bytes": total - self.accumulator.used,
        }

    # Identity

    def _ask_identity(self) -> None:
        if self._identifying is None:
            self._identifying = in_background(
                self._identify(), "the search for a producer id", self.fail
            )

    async def _identify(self) -> None:
        """Get a producer id, however long it takes: what waits for it has its own deadline."""
        try:
            self.sender.identity = await retried(self.cluster, self._init_producer_id, math.inf)
        except ClientError as error:
            self.fail(error)
        finally:
            self._identifying = None
        self.sender.look_again(list(self.accumulator.queues()))

    async def _init_producer_id(self) -> SequenceIdentity:
        from moldau.protocol.messages import transactions  # noqa: PLC0415 - asked when connected

        request = transactions.InitProducerIdRequest(None, INT32_MAX)
        answer: transactions.InitProducerIdResponse = await read_or_lost(
            self.cluster.call(Node.ANY, request)
        )
        raise_for(answer.error_code)
        return SequenceIdentity(answer.producer_id, answer.producer_epoch)

    # Transactions

    def begin(self) -> None:
        """Begin a transaction; InvalidState if one is open or there is no transactional id."""
        with self._guard:
            self._transactional().begin()

    async def send_offsets(self, offsets: Offsets, member: GroupMember) -> None:
        """Make a group's offsets part of the transaction; see `Transactions`."""
        await self._transactional().send_offsets(offsets, member)

    async def commit(self) -> None:
        """Commit, also what is parked; see `Transactions`."""
        transactions = self._transactional()
        await self.parking.settled()
        await transactions.commit()

    async def abort(self) -> None:
        """Abort; see `Transactions`."""
        transactions = self._transactional()
        self.parking.fail_all(aborted_transaction())
        await transactions.abort()

    async def flush(self) -> None:
        """Send everything and wait until it is settled. Cancelled, the sending goes on."""
        if self._failure is not None:
            raise fresh(self._failure)
        await self.parking.settled()
        await self.sender.flush()

    async def finish(self) -> None:
        """Finish what was begun, before closing: have it written, or its transaction ended.

        An open transaction is aborted; one whose commit or abort was begun gets what it was to get.
        Cancelled, the sending goes on.
        """
        if self.transactions is None or not self.transactions.is_unfinished:
            await self.flush()
            return
        if self.transactions.is_open:
            self.parking.fail_all(aborted_transaction())
        await self.transactions.finish()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open and can be aborted."""
        return self.transactions is not None and self.transactions.is_open

    def _transactional(self) -> Transactions:
        if self.transactions is None:
            raise InvalidState(
                "the producer has no transactional_id",
                advice="Set transactional_id to use transactions.",
            )
        return self.transactions

    def record_failed(self, error: ClientError) -> None:
        """Learn of a record that failed before it came into a batch: so does its transaction."""
        if self.transactions is not None:
            with self._guard:
                self.transactions.failed(error)

    # Ends

    def fail(self, error: ClientError) -> None:
        """Refuse everything from now on: the producer is of no more use."""
        if self.closed:
            return
        self._failure = error
        with self._guard:
            self.outbox.refuse_for_good(error)
        self.sender.settling.fail_all(error)
        self.parking.fail_all(error)

    def unsettled_count(self) -> int:
        """Count the records that are neither written nor given up."""
        with self._guard:
            batched = sum(batch.count for _, batch in self.accumulator.unsettled())
        return batched + self.parking.count

    def become_copy(self, error: ClientError) -> None:
        """Be of no more use, in a process that was forked off; called with the guard held.

        Nobody who waited came along, so nobody is told.
        """
        self.outbox.refuse_for_good(error)
        for _, batch in self.accumulator.unsettled():
            batch.batch_result.settle(error)
        self.parking.become_copy(error)

    def give_up(self) -> None:
        """Refuse everything from now on, and give up what is not settled."""
        self.closed = True
        with self._guard:
            self.outbox.refuse_for_good(ClientClosed("the producer has been closed"))
        self.sender.settling.fail_all(aborted_by_close())
        self.parking.fail_all(aborted_by_close())

    async def close(self) -> None:
        """Give up what is not settled, end everything. Cancelled, it is half done."""
        self.give_up()
        self._statistics.close()
        if self._tidying is not None:
            self._tidying.cancel()
        await self.parking.close(aborted_by_close())
        if self._identifying is not None:
            self._identifying.cancel()
            await asyncio.wait([self._identifying])
        if self.transactions is not None:
            await self.transactions.close()
        await self.sender.close()
        await self.cluster.close()


def aborted_by_close() -> DeliveryAborted:
    """Make what records are told that a closing producer leaves behind."""
    return DeliveryAborted(
        "the producer was closed before the record was acknowledged",
        advice="It may have been written; close without a time-out waits.",
    )


def _bounds(settings: ProducerSettings) -> Bounds:
    return Bounds(
        batch_size=settings.batch_size,
        linger_s=settings.linger_ms / 1000,
        buffer_memory=settings.buffer_memory,
        max_request_size=settings.max_request_size,
        delivery_timeout_s=settings.delivery_timeout_ms / 1000,
        in_flight_max=settings.max_in_flight_requests_per_connection,
        codec=settings.codec,
        level=settings.level,
        idempotent=settings.idempotent,
        transactional=settings.transactional_id is not None,
        availability_timeout_s=settings.partitioner_availability_timeout_ms / 1000,
        adaptive=settings.partitioner_adaptive_partitioning_enable,
    )
