"""The commands of the controller to the other brokers, while this broker is the controller.

Each broker has a queue of its own, with one request in flight. A queue knows the image that its
broker has confirmed, and sends what leads from there to the newest one: several steps become one
update where the broker is slower than the history. A request without an answer is sent again, for
as long as the broker is registered: with its epoch, the broker knows what it has carried out.

After each update the roles of the broker's replicas follow (LeaderAndIsr), and what it is to delete
(StopReplica). Their answers tell which replicas lie in a directory that has failed. This broker's
own replicas are asked for as well; everything else it knows without a request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from moldau.base.ids import BrokerId
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker
from moldau.cluster.store import ClusterMetadata
from moldau.cluster.zookeeper.commands.outgoing import (
    Sender,
    leader_and_isr,
    stop_replica,
    update_metadata,
)
from moldau.cluster.zookeeper.commands.touched import Touched
from moldau.engine.errors import ClientError
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.replication import LeaderAndIsrResponse

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.1
"""Before a request without an answer is sent again; Kafka's number."""

RolesAnswered = Callable[[Broker, LeaderAndIsrResponse], Awaitable[None]]
"""Told what a broker answers about its replicas."""


class BrokerCalls(Protocol):
    """Sends a request to a broker, which may be this one."""

    async def call(self, broker_id: BrokerId, request: Any, /) -> Any: ...


class CommandSender:
    """Keeps all other brokers up to date. Owned by the event loop's thread."""

    def __init__(
        self,
        sender: Sender,
        metadata: ClusterMetadata,
        calls: BrokerCalls,
        superseded: Callable[[], None],
        roles_answered: RolesAnswered,
    ) -> None:
        """`superseded` is called if a broker has heard of a newer controller."""
        self._sender = sender
        self._metadata = metadata
        self._calls = calls
        self._superseded = superseded
        self._roles_answered = roles_answered
        self._queues: dict[BrokerId, _Queue] = {}
        self._unsubscribe: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Send everything to everybody, and each step from now on."""
        self._unsubscribe = self._metadata.subscribe(self._changed)
        self._changed((), self._metadata.image)

    def _changed(self, changes: Sequence[Change], image: MetadataImage) -> None:
        for queue in self._queues.values():
            queue.take(changes)
        self._match(image)

    def _match(self, image: MetadataImage) -> None:
        """Have one queue for each life of each broker."""
        for broker_id, queue in tuple(self._queues.items()):
            broker = image.brokers.get(broker_id)
            if broker is None or broker.epoch != queue.broker.epoch:
                queue.cancel()
                del self._queues[broker_id]
        for broker_id, broker in image.brokers.items():
            if broker_id not in self._queues:
                self._queues[broker_id] = _Queue(self, broker)

    def ask_roles(self, broker_id: BrokerId) -> None:
        """Ask a broker for all of its replicas: it says that a directory has failed."""
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.ask_roles()

    async def close(self) -> None:
        """Send no more."""
        self._unsubscribe()
        tasks = [queue.cancel() for queue in self._queues.values()]
        self._queues.clear()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Queue:
    """The commands to one life of one broker."""

    def __init__(self, owner: CommandSender, broker: Broker) -> None:
        self._owner = owner
        self.broker = broker
        self.confirmed: MetadataImage | None = None
        """What the broker has; None before its first update."""
        self._asks_for_all_roles = False
        self._touched = Touched()
        self._more = asyncio.Event()
        self._more.set()
        self._task = asyncio.ensure_future(self._run())

    def take(self, changes: Sequence[Change]) -> None:
        self._touched.take(changes)
        self._more.set()

    def ask_roles(self) -> None:
        self._asks_for_all_roles = True
        self._more.set()

    def cancel(self) -> asyncio.Task[None]:
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            try:
                await self._bring_up_to_date()
            except _Again:
                await self._begin_again()
            except Exception:
                logger.exception("a bug in commands to broker %d, they begin again", self.broker.id)
                await self._begin_again()

    async def _begin_again(self) -> None:
        """Send a full update next, a moment later."""
        self.confirmed = None
        self._more.set()
        await asyncio.sleep(RETRY_S)

    async def _bring_up_to_date(self) -> None:
        old, new = self.confirmed, self._owner._metadata.image  # noqa: SLF001 - its own part
        touched, self._touched = self._touched, Touched()
        asks_for_all, self._asks_for_all_roles = self._asks_for_all_roles, False
        if old is new and not asks_for_all:
            return
        sender, epoch, broker_id = self._owner._sender, self.broker.epoch, self.broker.id  # noqa: SLF001
        is_own = broker_id == sender.controller_id
        if not is_own:
            for request in await _paced(update_metadata(sender, epoch, old, new, touched)):
                await self._send(request)
        self.confirmed = new
        known = None if asks_for_all else old
        for request in await _paced(leader_and_isr(sender, broker_id, epoch, known, new, touched)):
            answer = await self._send(request)
            await self._owner._roles_answered(self.broker, answer)  # noqa: SLF001
        if not is_own:
            for request in await _paced(stop_replica(sender, broker_id, epoch, old, new, touched)):
                await self._send(request)

    async def _send(self, request: Any) -> Any:
        """Send a request until it is answered; _Again if the broker needs a full update."""
        while True:
            try:
                answer = await self._owner._calls.call(self.broker.id, request)  # noqa: SLF001
            except ClientError as error:
                logger.debug("broker %d has not answered: %s", self.broker.id, error)
            else:
                code = answer.error_code
                if code == ErrorCode.NONE:
                    return answer
                if code == ErrorCode.STALE_CONTROLLER_EPOCH:
                    self._owner._superseded()  # noqa: SLF001
                elif code in (ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.INVALID_REQUEST):
                    raise _Again
                logger.debug("broker %d refuses a command: %s", self.broker.id, code)
            await asyncio.sleep(RETRY_S)


class _Again(Exception):  # noqa: N818 - it never leaves this module
    """The broker is not where it was thought to be."""


async def _paced(requests: Iterator[Any]) -> Iterable[Any]:
    """Make all requests of one update; others have their turn in between."""
    made = []
    for request in requests:
        if request is None:
            await asyncio.sleep(0)
        else:
            made.append(request)
    return made
