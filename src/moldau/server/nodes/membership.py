"""A broker's membership in its cluster: it registers, sends heartbeats, and signs off.

The controller counts a broker as alive while its heartbeats come. A broker that has registered is
fenced: it is in no ISR and leads nothing. A heartbeat that shows that it has followed the metadata
up to its own registration unfences it. A broker that stops says so in its heartbeats, and goes on
serving until the controller has moved its leaders away.

Heartbeats also tell which log directories have failed (KIP-858): the first one at once, so that
others lead what lay there. A broker that cannot tell it for too long ends, because the controller
takes it for the leader of partitions that it cannot serve.

It knows when to ask and what the answers mean. What a session is worth, and who leads next, is for
the controller to decide.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from moldau.base.clock import Clock
from moldau.base.errors import UserError
from moldau.cluster.brokers import BrokerRegistration
from moldau.cluster.controller_requests import BrokerRequests
from moldau.cluster.heartbeats import Heartbeat, HeartbeatAnswer
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

REGISTER_RETRY_S: Final = 0.1
STARTING_INTERVAL_S: Final = 0.01
"""Between the heartbeats of a broker that is not unfenced yet: clients wait for it."""
STOPPING_INTERVAL_S: Final = 0.05
"""Between those of a broker that waits for its leaders to be moved."""
SIGN_OFF_PATIENCE_S: Final = 300.0
"""How long a stop waits for the controller; Kafka's number."""

SILENCE_PATIENCE_S: Final = 3.0
"""How long a stop waits for a controller that does not answer."""

_REFUSED: Final = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""What a registration is told that will never be accepted as it is."""


class State(Enum):
    """Where a broker is on its way through the cluster."""

    STARTING = "not registered yet"
    FENCED = "registered, and not serving"
    RUNNING = "serving"
    STOPPING = "serving until its leaders are moved"
    STOPPED = "not a member any more"


@dataclass(frozen=True, slots=True)
class MembershipTimes:
    """How often and how long, in seconds."""

    heartbeat_interval_s: float = 2.0
    registration_patience_s: float = 60.0
    directory_failure_patience_s: float = 30.0
    """How long the controller may not know of a failed log directory."""


class Membership:
    """One broker's place in the cluster. Owned by the event loop's thread."""

    def __init__(
        self,
        requests: BrokerRequests,
        metadata_offset: Callable[[], int],
        clock: Clock,
        times: MembershipTimes,
        keep_broker_epoch: Callable[[int], Awaitable[None]],
        failed_directories: Callable[[], tuple[bytes, ...]] = lambda: (),
        cordoned_directories: Callable[[], tuple[bytes, ...]] = lambda: (),
    ) -> None:
        self._requests = requests
        self._metadata_offset = metadata_offset
        self._clock = clock
        self._times = times
        self._keep_broker_epoch = keep_broker_epoch
        self._failed_directories = failed_directories
        self._cordoned_directories = cordoned_directories
        self._told_directories: tuple[tuple[bytes, ...], ...] = ((), ())
        """The failed and the cordoned ones that the last heartbeat named, answered or not."""
        self._known_directories: frozenset[bytes] = frozenset()
        """Failed ones that the controller knows of."""
        self._untold_since_s: float | None = None
        """Since when it does not know of one."""
        self._state = State.STARTING
        self._registration: BrokerRegistration | None = None
        self._changed = asyncio.Event()
        self._stopped = asyncio.Event()
        self._answered_s = 0.0
        """When the last heartbeat was answered."""
        self._ready = False
        self.broker_epoch = -1
        """Given by the controller at each registration; -1 before the first."""

    @property
    def records_epoch(self) -> int:
        """The epoch of the life that this broker's records belong to: its last one."""
        return self.broker_epoch

    @property
    def state(self) -> State:
        """Where this broker is."""
        return self._state

    # Joining

    async def register(self, registration: BrokerRegistration) -> None:
        """Return once the controller knows this broker; UserError if it does not want to.

        One that was killed a moment ago counts as alive until its session ends: its successor is
        refused so long, and asks again.
        """
        self._registration = registration
        give_up_s = self._clock.monotonic() + self._times.registration_patience_s
        while True:
            try:
                self.broker_epoch = await self._requests.register_broker(registration)
            except (ApiError, StoreFailed) as error:
                late = self._clock.monotonic() >= give_up_s
                if late or (isinstance(error, ApiError) and error.code in _REFUSED):
                    name = f"broker {registration.broker_id}"
                    raise UserError(f"cannot register {name}: {error}") from error
                logger.debug("not registered yet: %s", error)
            else:
                # Before it serves: if it is killed with an older epoch on its disk, it counts as
                # one that may have lost records.
                await self._keep_broker_epoch(self.broker_epoch)
                self._enter(State.FENCED)
                return
            await asyncio.sleep(REGISTER_RETRY_S)

    async def unfenced(self) -> None:
        """Ask to serve, now that the logs are loaded; return once the controller lets us."""
        self._ready = True
        self._changed.set()
        while self._state in (State.STARTING, State.FENCED):
            self._changed.clear()
            await self._changed.wait()

    # Staying

    async def run(self) -> None:
        """Send heartbeats until this broker has signed off, or until cancelled."""
        while self._state is not State.STOPPED:
            answer = await self._beat()
            if answer is not None:
                self._answered_s = self._clock.monotonic()
                self._take(answer)
            self._check_told()
            await self._pause(answered=answer is not None)

    async def _beat(self) -> HeartbeatAnswer | None:
        registration = self._registration
        assert registration is not None  # `register` comes before `run`
        failed, cordoned = self._told_directories = self._directories()
        beat = Heartbeat(
            registration.broker_id,
            self.broker_epoch,
            self._metadata_offset(),
            want_fence=not self._ready,
            want_shut_down=self._state is State.STOPPING,
            offline_directories=failed,
            cordoned_directories=cordoned,
        )
        try:
            answer = await self._requests.heartbeat(beat)
        except ApiError as error:
            if error.code != ErrorCode.STALE_BROKER_EPOCH:
                logger.debug("the heartbeat was refused: %s", error)
            elif self._state is State.STOPPING:
                self._enter(State.STOPPED)  # It was taken for dead, and leads nothing any more.
            else:
                await self._register_again(registration)
        except StoreFailed as error:
            logger.debug("the heartbeat was not taken: %s", error)
        else:
            self._known_directories = frozenset(failed)
            return answer
        return None

    async def _register_again(self, registration: BrokerRegistration) -> None:
        """Become a member anew: the controller does not know this one any more.

        Where another broker has taken its id, that is refused for as long as the other is alive,
        and this one gives up.
        """
        logger.warning("the controller does not know broker epoch %d any more", self.broker_epoch)
        self._enter(State.STARTING)
        # It has not stopped, so that its logs have lost nothing.
        await self.register(replace(registration, previous_broker_epoch=self.broker_epoch))

    def directories_changed(self) -> None:
        """Send the next heartbeat at once if a log directory has failed or was cordoned."""
        self._changed.set()

    def _directories(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        return self._failed_directories(), self._cordoned_directories()

    def _check_told(self) -> None:
        """Raise UserError if the controller has not been told of a failed directory in time."""
        if self._known_directories.issuperset(self._failed_directories()):
            self._untold_since_s = None
            return
        now_s, patience_s = self._clock.monotonic(), self._times.directory_failure_patience_s
        if self._untold_since_s is None:
            self._untold_since_s = now_s
        elif now_s - self._untold_since_s >= patience_s:
            raise UserError(
                "no controller was told of a failed log directory within"
                f" {patience_s * 1000:.0f} ms (log.dir.failure.timeout.ms)"
            )

    def _take(self, answer: HeartbeatAnswer) -> None:
        if self._state is State.STOPPING:
            if answer.should_shut_down:
                self._enter(State.STOPPED)
        elif self._state in (State.FENCED, State.RUNNING):
            self._enter(State.FENCED if answer.is_fenced else State.RUNNING)

    async def _pause(self, *, answered: bool) -> None:
        """Wait for the next heartbeat, which comes at once after a change."""
        pause_s = self._times.heartbeat_interval_s
        if self._state is State.FENCED and self._ready:
            pause_s = min(pause_s, STARTING_INTERVAL_S if answered else REGISTER_RETRY_S)
        elif self._state is State.STOPPING:
            pause_s = min(pause_s, STOPPING_INTERVAL_S)
        elif self._state is State.STOPPED:
            return
        state, ready = self._state, self._ready
        self._changed.clear()
        try:
            async with asyncio.timeout(pause_s):
                while (
                    self._state is state
                    and self._ready is ready
                    and self._directories() == self._told_directories
                ):
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            pass

    # Leaving

    async def sign_off(self, patience_s: float = SIGN_OFF_PATIENCE_S) -> bool:
        """Leave in order; tell whether the controller has let this broker go.

        `run` has to be running: it is what asks. A controller that does not answer is not waited
        for as long as one that is at work: the broker is fenced when its session ends.
        """
        if self._state in (State.STARTING, State.STOPPED):
            return self._state is State.STOPPED
        self._enter(State.STOPPING)
        began_s = self._answered_s = self._clock.monotonic()
        while self._state is State.STOPPING:
            now_s = self._clock.monotonic()
            left_s = min(began_s + patience_s, self._answered_s + SILENCE_PATIENCE_S) - now_s
            if left_s <= 0:
                return False
            try:
                async with asyncio.timeout(left_s):
                    await self._stopped.wait()
            except TimeoutError:
                continue
        return True

    def _enter(self, state: State) -> None:
        if state is not self._state:
            logger.info("broker is %s", state.value)
            self._state = state
            self._changed.set()
            if state is State.STOPPED:
                self._stopped.set()
