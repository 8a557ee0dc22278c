"""Takes batches that are ready to the brokers that lead their partitions, and answers for them.

One `pump` does it all, on the event loop, whenever something changed: a batch is ready, an answer
came, a leader moved, time passed. It sends as many requests to each broker as may be on their way,
each with the first batch of every partition that may send one. Nothing here waits for a single
request: a `_Flight` takes its answer. One with a single batch, as a busy producer sends them, is
rendered from its partition's template (`produce_template`).

What the order asks for is `queues`', whether a partition may be written to in a transaction is the
`Gate`'s, what becomes of a batch that was sent is `settling`'s. State that `send` of the blocking
face touches too is touched with the guard held; whoever waits for a delivery is told after that.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from moldau.base.ids import ZERO_TOPIC_ID
from moldau.client.errors import (
    ClientError,
    SerializationFailed,
    UnsupportedCompressionType,
    UnsupportedVersion,
)
from moldau.client.producer_settings import ProducerSettings
from moldau.client.producing.accumulator import Accumulator
from moldau.client.producing.batch_results import Guard
from moldau.client.producing.produce_template import FIRST_TEMPLATE_VERSION, ProduceTemplate
from moldau.client.producing.queues import NO_LEADER, PartitionQueue
from moldau.client.producing.sequences import SequenceIdentity
from moldau.client.producing.settling import Answer, Gate, Item, Settling
from moldau.engine.background import Crashed, failure_of, in_background
from moldau.engine.cluster import Cluster
from moldau.engine.connection import ClientConnection
from moldau.engine.metadata import MetadataImage
from moldau.engine.ports import ClientPorts
from moldau.protocol.messages.data import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.records.compression import Codec

logger = logging.getLogger(__name__)

FIRST_VERSION: Final = 3
"""The first version of Produce with batches of magic 2; every broker since 0.11 has it."""
FIRST_ZSTD_VERSION: Final = 7
LAST_NAMED_VERSION: Final = 12
"""The last version that names topics; later ones need their ids."""


class _Lane:
    """The way to one broker."""

    __slots__ = ("broker_id", "connecting", "connection", "in_flight", "ready")

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.connection: ClientConnection | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.in_flight = 0
        self.ready: deque[PartitionQueue] = deque()


class _Flight:
    """A request on its way: takes its answer from the connection to the sender."""

    __slots__ = ("_items", "_lane", "_sender")

    def __init__(self, sender: Sender, lane: _Lane, items: list[Item]) -> None:
        self._sender = sender
        self._lane = lane
        self._items = items

    def done(self) -> bool:
        """Tell that the answer is wanted, whatever happens."""
        return False

    def set_result(self, answer: Answer | None, /) -> None:
        """Take the answer: there is nobody in between whom it could interrupt.

        That all bytes have left, where there is no answer, may be known while they are being sent.
        """
        if answer is None:
            self._sender.answer_later(self._lane, self._items, None, None)
        else:
            self._sender.answered(self._lane, self._items, answer, None)

    def set_exception(self, error: ClientError, /) -> None:
        """Learn that there is none, perhaps while the request is being sent."""
        self._sender.answer_later(self._lane, self._items, None, error)


class Sender:
    """Sends what an accumulator gathers. Owned by the event loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        settings: ProducerSettings,
        ports: ClientPorts,
        guard: Guard,
        on_room: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._settings = settings
        self._clock = ports.clock
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._lanes: dict[int, _Lane] = {}
        self._queued: set[PartitionQueue] = set()
        self._woken = False
        self._in_flight = 0
        """Requests on their way, to all brokers."""
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.TimerHandle | None = None
        self.timer_at = math.inf
        """When the pump runs by itself; what is due before must wake it."""
        self._closed = False
        self.settling = Settling(
            cluster, accumulator, settings, ports, guard, on_room, self.look_again
        )
        self.saturated = False
        """Every broker has as many requests as it may have: only an answer, or time, changes that,
        so a batch that becomes ready need not wake anybody."""
        self.gate: Gate | None = None
        self.identity: SequenceIdentity | None = None
        """Who batches are numbered as, where there is no transaction to say so."""
        self.crashed: Crashed = _nothing
        """Called when sending ended by a bug of ours."""
        self.ask_identity: Callable[[], None] = _nothing
        """Called when an idempotent producer has no identity to number with."""
        self._templates: dict[PartitionQueue, ProduceTemplate] = {}
        self._compresses = settings.codec is not Codec.NONE
        cluster.on_change(self._changed)

    # Waking up

    @property
    def in_flight_count(self) -> int:
        """How many requests are on their way."""
        return self._in_flight

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._in_flight

    def wake(self) -> None:
        """Have the pump run soon; many calls become one."""
        if not self._woken and not self._closed:
            self._woken = True
            self._loop.call_soon(self.pump)

    def pump(self) -> None:
        """Send all that may be sent now."""
        self._woken = False
        if self._closed:
            return
        try:
            self._pump()
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing would be sent any more
            # Not from here: it may be in the middle of somebody's `send`.
            self._loop.call_soon(self.crashed, failure_of("the sending", error))

    def _pump(self) -> None:
        now = self._clock.monotonic()
        accumulator = self._accumulator
        with self._guard:
            accumulator.close_lingering(now)
            for queue in accumulator.ready:
                self._enqueue(queue)
            accumulator.ready.clear()
            told = self.settling.expire(now)
            requests = self._collected(now)
            most = self._settings.max_in_flight_requests_per_connection
            self.saturated = all(lane.in_flight >= most for lane in self._lanes.values())
            self._arm(accumulator.linger_end(), accumulator.expiry())
        self._send_all(requests)
        if told is not None:
            # Not from here: it may be in the middle of somebody's `send`.
            self._loop.call_soon(self.settling.tell, told)

    def _arm(self, *times: float | None) -> None:
        due = math.inf
        for when in times:
            if when is not None and when < due:
                due = when
        if self._timer is not None:
            if self.timer_at <= due:
                return
            self._timer.cancel()
            self._timer = None
        self.timer_at = due
        if due < math.inf:
            delay_s = max(0.0, due - self._clock.monotonic())
            self._timer = self._loop.call_later(delay_s, self._rang)

    def _rang(self) -> None:
        self._timer = None
        self.timer_at = math.inf
        self.pump()

    def _enqueue(self, queue: PartitionQueue) -> None:
        """Have a partition looked at; one without a leader is when it gets one."""
        if queue in self._queued or not queue.waiting:
            return
        if queue.leader == NO_LEADER:
            self._ask_for_leaders()
            return
        lane = self._lanes.get(queue.leader)
        if lane is None:
            lane = self._lanes[queue.leader] = _Lane(queue.leader)
        self._queued.add(queue)
        lane.ready.append(queue)

    def _ask_for_leaders(self) -> None:
        """Have metadata refreshed, again and again while a partition with batches has no leader."""
        self._cluster.request_refresh()
        if self._asking is None:
            pause_s = self._cluster.settings.retry_backoff_max_ms / 1000
            self._asking = self._loop.call_later(pause_s, self._asked)

    def _asked(self) -> None:
        self._asking = None
        self.look_again([one for one in self._accumulator.queues() if one.leader == NO_LEADER])

    def look_again(self, queues: Iterable[PartitionQueue]) -> None:
        """Reconsider partitions that could not send: something changed for them."""
        with self._guard:
            for queue in queues:
                self._enqueue(queue)
        self.wake()

    def _changed(self, image: MetadataImage) -> None:
        """Follow the leaders."""
        with self._guard:
            for topic in self._accumulator.topics.values():
                known = image.topics.get(topic.name)
                if known is None:
                    continue
                partitions = known.partitions.values()
                self._accumulator.update_topic(
                    topic.name, known.topic_id, [one.leader for one in partitions]
                )
            for lane in self._lanes.values():
                moved = [queue for queue in lane.ready if queue.leader != lane.broker_id]
                if moved:
                    lane.ready = deque(q for q in lane.ready if q.leader == lane.broker_id)
                    self._queued.difference_update(moved)
            for queue in self._accumulator.queues():
                if queue.waiting:
                    self._enqueue(queue)
        self.wake()

    # Sending

    def _collected(self, now: float) -> list[tuple[_Lane, list[Item]]]:
        requests = []
        for lane in self._lanes.values():
            while lane.ready and lane.in_flight < (
                self._settings.max_in_flight_requests_per_connection
            ):
                if lane.connection is None or not lane.connection.is_open:
                    self._connect(lane)
                    break
                items = self._request(lane, now)
                if items:
                    lane.in_flight += 1
                    self._in_flight += 1
                    requests.append((lane, items))
        return requests

    def _request(self, lane: _Lane, now: float) -> list[Item]:
        """Take the first batch of each partition that may send one, as far as a request holds."""
        items: list[Item] = []
        again: list[PartitionQueue] = []
        topics = self._accumulator.topics
        size = 0
        while lane.ready:
            queue = lane.ready[0]
            if not self._may_send(queue, now):
                lane.ready.popleft()
                self._queued.discard(queue)
                continue
            size += queue.waiting[0].size
            if items and size > self._settings.max_request_size:
                break
            lane.ready.popleft()
            items.append(Item(queue, queue.take(), topics[queue.topic].topic_id))
            again.append(queue)
        for queue in again:
            if queue.waiting:
                lane.ready.append(queue)
            else:
                self._queued.discard(queue)
        return items

    def _may_send(self, queue: PartitionQueue, now: float) -> bool:
        if not queue.sendable(now):
            return False
        if self.gate is not None:
            if not self.gate.admits(queue):
                return False
            self.identity = self.gate.identity
        if queue.sequences is None:
            return True
        if self.identity is None:
            self.ask_identity()
            return False
        if queue.settle_numbers(self.identity):
            return True
        return self._raise_epoch(queue)

    def _raise_epoch(self, queue: PartitionQueue) -> bool:
        """Close a partition's gap in numbers (KIP-360); False if a new producer id is due first."""
        assert self.identity is not None
        logger.info(
            "%s-%d: numbering anew after a gap, epoch %d is over",
            queue.topic,
            queue.partition,
            self.identity.producer_epoch,
        )
        self.identity = self.identity.raised()
        if self.identity is None:
            self.ask_identity()
            return False
        queue.renumber(self.identity)
        return True

    def _connect(self, lane: _Lane) -> None:
        if lane.connecting is None:
            name = f"the connecting to broker {lane.broker_id}"
            lane.connecting = in_background(self._connected(lane), name, self.crashed)

    async def _connected(self, lane: _Lane) -> None:
        """Connect; the link has its own patience. Cancelled when the sender closes."""
        try:
            if not await self._is_connected(lane):
                # A broker that is not known fails at once, and metadata takes a while to tell.
                await asyncio.sleep(self._cluster.settings.reconnect_backoff_ms / 1000)
        finally:
            lane.connecting = None
        self.wake()

    async def _is_connected(self, lane: _Lane) -> bool:
        try:
            lane.connection = await self._cluster.connection(lane.broker_id)
        except ClientError as error:
            lane.connection = None
            self._cluster.request_refresh()
            if not error.retriable:
                self.settling.give_up_leader(lane.broker_id, error)
            return False
        return True

    def _send_all(self, requests: list[tuple[_Lane, list[Item]]]) -> None:
        """Send requests; those to one broker leave together, which costs both sides less."""
        connections = dict.fromkeys(lane.connection for lane, _ in requests)
        try:
            for connection in connections:
                assert connection is not None
                connection.cork()
            for lane, items in requests:
                self._send(lane, items)
        finally:
            for connection in connections:
                assert connection is not None
                connection.uncork()

    def _send(self, lane: _Lane, items: list[Item]) -> None:
        connection = lane.connection
        assert connection is not None
        flight = _Flight(self, lane, items)
        answered = self._settings.required_acks != 0
        try:
            version = self._version(connection, items)
            template = self._template(version, items)
            if template is not None:
                connection.send_rendered(
                    flight, template, self._sealed(items[0]), answered=answered
                )
            else:
                request = self._produce_request(items)
                connection.send_for(flight, request, version, answered=answered)
        except Exception as error:  # noqa: BLE001 - whatever it is, these batches do not go out
            self.answer_later(lane, items, None, _as_client_error(error))

    def _template(self, version: int, items: list[Item]) -> ProduceTemplate | None:
        """Return the template of a request with these; None if it has to be encoded."""
        if len(items) > 1 or version < FIRST_TEMPLATE_VERSION:
            return None
        ((queue, _, topic_id),) = items
        template = self._templates.get(queue)
        if template is None or template.version != version or template.topic_id != topic_id:
            shape = self._produce_of(
                [TopicProduceData(queue.topic, topic_id, [PartitionProduceData(queue.partition)])]
            )
            template = ProduceTemplate(version, self._cluster.settings.client_id, shape)
            self._templates[queue] = template
        return template

    def _version(self, connection: ClientConnection, items: list[Item]) -> int:
        version = connection.agreed_version(ProduceRequest)
        if version > LAST_NAMED_VERSION and any(item.topic_id == ZERO_TOPIC_ID for item in items):
            version = LAST_NAMED_VERSION
        if self.gate is not None and self.gate.version_max is not None:
            version = min(version, self.gate.version_max)
        if version < FIRST_VERSION:
            raise UnsupportedVersion(f"the broker knows Produce up to version {version} only")
        if self._settings.codec is Codec.ZSTD and version < FIRST_ZSTD_VERSION:
            raise UnsupportedCompressionType("the broker is too old for zstd (it came with 2.1)")
        return version

    def _produce_request(self, items: list[Item]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for item in items:
            queue, _, topic_id = item
            data = topics.get(queue.topic)
            if data is None:
                data = topics[queue.topic] = TopicProduceData(queue.topic, topic_id, [])
            data.partition_data.append(PartitionProduceData(queue.partition, self._sealed(item)))
        return self._produce_of(list(topics.values()))

    def _produce_of(self, topics: list[TopicProduceData]) -> ProduceRequest:
        return ProduceRequest(
            self._settings.transactional_id,
            self._settings.required_acks,
            self._settings.request_timeout_ms,
            topics,
        )

    def _sealed(self, item: Item) -> bytes:
        """Return the bytes of a batch, and learn from those how far its topic's records shrink."""
        queue, batch, _ = item
        sealed = batch.sealed()
        if self._compresses and batch.attempts == 1:
            topic = self._accumulator.topics[queue.topic]
            topic.observe_ratio(batch.size, len(sealed), self._settings.batch_size)
        return sealed

    def answer_later(
        self, lane: _Lane, items: list[Item], answer: Answer | None, error: ClientError | None
    ) -> None:
        """Do as `answered` does, but not from within somebody's `send`."""
        self._loop.call_soon(self.answered, lane, items, answer, error)

    def answered(
        self, lane: _Lane, items: list[Item], answer: Answer | None, error: ClientError | None
    ) -> None:
        """Take what a request came to: an answer, an error, or neither where none was asked for."""
        lane.in_flight -= 1
        self._in_flight -= 1
        if self._closed:
            return
        told = self.settling.answered(items, answer, error)
        if error is not None:
            self._cluster.request_refresh()
        with self._guard:
            for queue, _, _ in items:
                if queue.waiting:
                    self._enqueue(queue)
            more = bool(self._queued or self._accumulator.ready)
            self.saturated = False  # what becomes ready from here on wakes the pump itself
        if more:
            # Not at once: answers come several at a time, and one look serves them all.
            self.wake()
        self.settling.tell(told)

    # Ends

    def close_batches(self) -> None:
        """Have every open batch sent without lingering."""
        with self._guard:
            self._accumulator.close_all(self._clock.monotonic())
        self.wake()

    async def flush(self) -> None:
        """Send everything and wait until it is settled. Cancelled, the sending goes on."""
        self.close_batches()
        await self.settling.settled()

    async def close(self) -> None:
        """Stop; what is still unsettled must have been failed before."""
        self._closed = True
        for timer in (self._timer, self._asking):
            if timer is not None:
                timer.cancel()
        self.settling.close()
        tasks = [lane.connecting for lane in self._lanes.values() if lane.connecting is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _as_client_error(error: Exception) -> ClientError:
    """Name what keeps a batch from being written: unsettled, it would hold up its partition."""
    if isinstance(error, ClientError):
        return error
    failed = SerializationFailed(
        f"the batch cannot be written: {error!r}", advice="Its traceback is in __cause__."
    )
    failed.__cause__ = error
    return failed


def _nothing(*_: object) -> None:
    """Serve where nobody asks for more."""
