"""A broker's membership in a cluster on ZooKeeper: its own node, for as long as it lives.

A broker is a member while its node is there. It loses the node with its session, or because the
controller takes the broker for dead: then it registers anew, with a new epoch, and goes on. It may
serve once its image, which the controller sends, shows that registration. A broker that stops asks
the controller to move its leaders away first (ControlledShutdown). Its node goes with its session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace
from typing import Final, Protocol

from moldau.base.clock import Clock
from moldau.base.errors import UserError
from moldau.base.ids import BrokerId
from moldau.cluster.brokers import BrokerRegistration
from moldau.cluster.store import StoreFailed
from moldau.cluster.zookeeper.client.port import (
    NodeKind,
    NoNode,
    RequestRefused,
    SessionExpired,
    ZooKeeperError,
)
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.broker_nodes import BrokerNode, encode_broker
from moldau.cluster.zookeeper.nodes.log_dir_nodes import encode_log_dir_event
from moldau.cluster.zookeeper.registration import (
    IdTaken,
    Registered,
    end_earlier_life,
    keep_registration,
    register_broker,
)
from moldau.cluster.zookeeper.store import ZooKeeperStore
from moldau.engine.errors import ClientError
from moldau.protocol.errors import ApiError
from moldau.server.nodes.membership import State

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.1
SHUTDOWN_RETRY_S: Final = 0.05

_VERSION_AS_REGISTERED: Final = 1
"""Of a broker's node: it was created, and set once."""

SILENCE_PATIENCE_S: Final = 3.0
"""How long a stop waits for a controller that does not answer, or without ZooKeeper."""


class ControlledShutdown(Protocol):
    """Asks the controller to move the leaders of a broker away."""

    async def __call__(self, broker_id: BrokerId, broker_epoch: int, /) -> int:
        """Return how many partitions it still leads; ApiError, StoreFailed, ClientError."""
        ...


class ZooKeeperMembership:
    """One broker's place in the cluster; like `Membership`. Owned by the event loop's thread."""

    def __init__(
        self,
        store: ZooKeeperStore,
        shut_down: ControlledShutdown,
        clock: Clock,
        patience_s: float,
        keep_broker_epoch: Callable[[int], Awaitable[None]],
        directories_state: Callable[[], Hashable] = lambda: None,
    ) -> None:
        """`patience_s` is how long a start waits for the node of an earlier life to go.

        `directories_state` is another one when replicas may not be readable any more, or again.
        """
        self._store = store
        self._shut_down = shut_down
        self._clock = clock
        self._patience_s = patience_s
        self._keep_broker_epoch = keep_broker_epoch
        self._state = State.STARTING
        self._registration: BrokerRegistration | None = None
        self._directories_state = directories_state
        self._told_state: Hashable = directories_state()
        """What the controller knows. The first one it learns from answers about roles."""
        self._is_node_seen = False
        """Whether the node was there when it was last read, and its watch was not called since."""
        self._changed = asyncio.Event()
        self._may_lack_records = False
        """Whether this life's node says so, and no controller is known to have read it."""
        self._serving = asyncio.Event()
        self._registered = asyncio.Event()
        self.broker_epoch = -1
        """The transaction that created its node; -1 before the first."""
        store.on_new_life = self._node_changed
        store.subscribe(lambda *_: self._changed.set())

    def _node_changed(self) -> None:
        self._is_node_seen = False
        self._changed.set()

    @property
    def state(self) -> State:
        """Where this broker is."""
        return self._state

    @property
    def records_epoch(self) -> int:
        """The epoch of the life that this broker's records are complete for, -1 if they may lack.

        It is older than the broker epoch until a controller knows of records that were lost.
        """
        registration = self._registration
        return -1 if registration is None else registration.previous_broker_epoch

    # Joining

    async def register(self, registration: BrokerRegistration) -> None:
        """Return once this broker's node is there; UserError if it cannot be.

        Another broker may hold its id, or ZooKeeper's access lists forbid it.
        """
        is_first, self._registration = self._registration is None, registration
        if is_first:
            with contextlib.suppress(StoreFailed, SessionExpired):
                await end_earlier_life(
                    self._store.lives.session, registration.broker_id, registration.endpoints
                )
        give_up_s = self._clock.monotonic() + self._patience_s
        while True:
            try:
                if not is_first:
                    await self._store.check_cluster()
                registered = await self._create(registration)
            except (IdTaken, StoreFailed, SessionExpired, RequestRefused) as error:
                now_s = self._clock.monotonic()
                if not is_first and isinstance(error, (StoreFailed, SessionExpired)):
                    # It serves without ZooKeeper, however long that is away.
                    give_up_s = now_s + self._patience_s
                if now_s >= give_up_s or isinstance(error, RequestRefused):
                    name = f"broker {registration.broker_id}"
                    raise UserError(f"cannot register {name}: {error}") from error
                await asyncio.sleep(RETRY_S)
            else:
                self.broker_epoch, self._may_lack_records = registered
                if not self._may_lack_records:
                    await self._keep_epoch()
                self._enter(State.FENCED)
                return

    async def _keep_epoch(self) -> None:
        """Note that this broker's records are those of this life.

        Before it serves: if it is killed with an older epoch on its disk, it counts as one that may
        have lost records. But not before a controller knows of records that it has lost already.
        """
        registration = self._registration
        assert registration is not None
        await self._keep_broker_epoch(self.broker_epoch)
        self._registration = replace(registration, previous_broker_epoch=self.broker_epoch)

    async def registered(self) -> None:
        """Return while this broker has a node, and does not stop."""
        await self._registered.wait()

    async def _create(self, registration: BrokerRegistration) -> Registered:
        try:
            return await self._create_node(registration)
        except NoNode as error:
            # Somebody has deleted the parent of all brokers' nodes. No broker has to end for that.
            logger.warning("%s; the nodes that every cluster has are created again", error)
            await self._store.create_roots()
            return await self._create_node(registration)

    async def _create_node(self, registration: BrokerRegistration) -> Registered:
        return await register_broker(
            self._store.lives.session,
            registration.broker_id,
            registration.previous_broker_epoch,
            self._node(registration),
        )

    def _node(self, registration: BrokerRegistration) -> BrokerNode:
        return BrokerNode(
            registration.endpoints,
            registration.rack,
            registration.features,
            timestamp_ms=self._clock.wall_ms(),
        )

    async def unfenced(self) -> None:
        """Return once the controller has told this broker of its own registration."""
        await self._serving.wait()

    async def _forget_loss(self) -> None:
        """Say no more that records may be lost: the controller has taken the replicas out.

        A later controller would take them out again, although they have caught up.
        """
        registration = self._registration
        assert registration is not None
        if self._may_lack_records:
            await self._keep_epoch()
            path = paths.broker(registration.broker_id)
            data = encode_broker(self._node(registration))
            with contextlib.suppress(StoreFailed, ZooKeeperError):
                await self._store.lives.session.set_data(path, data, _VERSION_AS_REGISTERED)
            self._may_lack_records = False

    def _is_known(self) -> bool:
        registration = self._registration
        assert registration is not None  # `register` comes first
        broker = self._store.image.brokers.get(registration.broker_id)
        return broker is not None and broker.epoch == self.broker_epoch

    # Staying

    async def run(self) -> None:
        """Keep this broker registered until it has signed off, or until cancelled."""
        while self._state is not State.STOPPED:
            self._changed.clear()
            if not await self._is_registered():
                if self._state is State.STOPPING:
                    await asyncio.sleep(RETRY_S)
                else:
                    await self._register_again()
            elif self._state is State.FENCED and self._is_known():
                await self._forget_loss()
                self._enter(State.RUNNING)
                self._serving.set()
            else:
                await self._tell_directories()
                # The session may also end before the controller knows of the registration.
                await self._changed.wait()

    async def _is_registered(self) -> bool:
        registration = self._registration
        assert registration is not None
        if self._is_node_seen:
            return True
        self._is_node_seen = True  # the watch may be called before the answer is here
        try:
            is_there = await keep_registration(
                self._store.lives.session,
                registration.broker_id,
                self.broker_epoch,
                replace(self._node(registration), may_lack_records=self._may_lack_records),
                self._node_changed,
            )
        except (StoreFailed, SessionExpired):
            is_there = False
        self._is_node_seen = self._is_node_seen and is_there
        return is_there

    async def _register_again(self) -> None:
        registration = self._registration
        assert registration is not None
        logger.warning("broker epoch %d is over, the broker registers again", self.broker_epoch)
        self._enter(State.STARTING)
        await self.register(registration)

    def directories_changed(self) -> None:
        """Tell the controller if a log directory has failed, or has room again."""
        self._changed.set()

    async def _tell_directories(self) -> None:
        """Notify the controller; it asks which replicas can be read."""
        state = self._directories_state()
        registration = self._registration
        if registration is None or state == self._told_state:
            return
        event = encode_log_dir_event(registration.broker_id)
        try:
            await self._store.lives.session.create(
                paths.LOG_DIR_EVENT_PREFIX, event, NodeKind.SEQUENTIAL
            )
        except (StoreFailed, ZooKeeperError) as error:
            logger.debug("the controller does not know of the log directories yet: %s", error)
            await asyncio.sleep(RETRY_S)
            self._changed.set()
        else:
            self._told_state = state

    # Leaving

    async def sign_off(self, patience_s: float) -> bool:
        """Leave in order; tell whether the controller has let this broker go."""
        registration = self._registration
        if registration is None or self._state in (State.STARTING, State.STOPPED):
            return self._state is State.STOPPED
        self._enter(State.STOPPING)
        if not self._store.lives.is_connected:
            # Most likely the controller is not connected either. Then it cannot move a leader.
            patience_s = min(patience_s, SILENCE_PATIENCE_S)
        began_s = answered_s = self._clock.monotonic()
        while True:
            try:
                # A controller without ZooKeeper, this broker perhaps, answers when it is back.
                async with asyncio.timeout(began_s + patience_s - self._clock.monotonic()):
                    left = await self._shut_down(registration.broker_id, self.broker_epoch)
            except (ApiError, StoreFailed, ClientError, ZooKeeperError, TimeoutError) as error:
                logger.debug("the controller has not let this broker go: %s", error)
            else:
                answered_s = self._clock.monotonic()
                if not left:
                    self._enter(State.STOPPED)
                    return True
            now_s = self._clock.monotonic()
            if now_s - began_s >= patience_s or now_s - answered_s >= SILENCE_PATIENCE_S:
                return False
            await asyncio.sleep(SHUTDOWN_RETRY_S)

    def _enter(self, state: State) -> None:
        if state is not self._state:
            logger.info("broker is %s", state.value)
            self._state = state
            self._changed.set()
            if state in (State.FENCED, State.RUNNING):
                self._registered.set()
            else:
                self._registered.clear()
