"""Fetching: one request under way to every broker that has something for us, answers kept ready.

A broker is asked for all partitions read from it at once, again as soon as its answer is here, as
long as little enough waits for the user: `max_partition_fetch_bytes` a partition and
`prefetch_max_bytes` altogether. While one partition of a broker is at its bound, the broker is left
alone: a request for the others would be parked there for `fetch_max_wait_ms`, and the full one
would run dry behind it.

A broker without news holds a request for that long, and answers a connection's requests in order.
What becomes ready meanwhile (a position was found, sought, resumed) is fetched beside it: over a
connection of its own, outside the session, and with no more patience than the held request has
left, so that the next one is for all of them again.

Owns the tasks and the fetch sessions. What an answer means is decided in `fetch_answers`; whether a
partition may be fetched, by `positions`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from moldau.base.tuples import NamedTuple
from moldau.client.consumer_settings import ConsumerSettings
from moldau.client.consuming.background import Waking
from moldau.client.consuming.fetch_answers import FetchAnswers, Sent
from moldau.client.consuming.positions import PartitionState, Positions, Stage
from moldau.client.errors import ClientError
from moldau.client.records import TopicPartition
from moldau.engine.background import Crashed, in_background
from moldau.engine.backoff import Backoff
from moldau.engine.cluster import Cluster, Lane
from moldau.engine.connection import ClientConnection
from moldau.engine.fetch_requests import (
    NO_REPLICA,
    FetchLimits,
    fetch_request,
    fetch_version,
    without_session,
)
from moldau.engine.fetch_sessions import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchPosition,
    FetchSession,
    SessionRequest,
)
from moldau.protocol.messages.data import FetchRequest

logger = logging.getLogger(__name__)

SESSION_VERSION: Final = 7

HELD_S: Final = 0.01
"""After how long a broker that has not answered counts as holding the request: longer than one with
news takes on most networks, too short for anybody to notice."""

_CLOSE_TIMEOUT_S: Final = 0.5
"""How long ending a session may hold up closing: a broker forgets sessions by itself, too."""


class Fetcher:
    """Keeps the buffer filled. Owned by the event loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        settings: ConsumerSettings,
        answers: FetchAnswers,
        crashed: Crashed,
    ) -> None:
        connection = cluster.settings
        self._cluster = cluster
        self._positions = positions
        self._settings = settings
        self._answers = answers
        self._backoff = Backoff(connection.retry_backoff_ms, connection.retry_backoff_max_ms)
        self._crashed = crashed
        """Told of an error that should not be."""
        self._waking = Waking(cluster.ports.clock)
        self._sources: dict[int, _Source] = {}
        self._closed = False

    def wake(self) -> None:
        """Look again at what is to be fetched: positions, pauses or leaders changed.

        A task that is ended by `close` may come by here on its way out: nothing begins any more.
        """
        if self._closed:
            return
        for state in self._positions:
            if state.stage is not Stage.READY or state.paused:
                continue
            broker_id = self._source(state)
            if broker_id is None:
                continue
            source = self._sources.get(broker_id)
            if source is None:
                self._read_from(broker_id)
            elif source.held_until is not None and source.beside is None and self._lacks(state):
                source.beside = in_background(
                    self._run_beside(source), f"moldau-fetch-beside-{broker_id}", self._crashed
                )
        self._waking.wake()

    def _read_from(self, broker_id: int) -> None:
        source = self._sources[broker_id] = _Source(broker_id)
        source.task = in_background(self._run(source), f"moldau-fetch-{broker_id}", self._crashed)

    def _lacks(self, state: PartitionState) -> bool:
        """Tell whether a partition has room for records, and no fetch brings any."""
        if state.in_flight or state.error is not None:
            return False
        return state.buffered_size < self._settings.max_partition_fetch_bytes

    def refill(self) -> None:
        """Look again at what is to be fetched: there is room in the buffer."""
        self._waking.wake()

    async def close(self) -> None:
        """End the tasks and let the brokers forget the sessions. Cancelled, the tasks still end."""
        self._closed = True
        sources, self._sources = list(self._sources.values()), {}
        tasks = [task for one in sources for task in (one.task, one.beside) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*map(self._end_session, sources))

    def _source(self, state: PartitionState) -> int | None:
        """Return the broker to read a partition from: a replica near us, or the leader."""
        image = self._cluster.image
        replica = state.preferred_replica
        if replica != NO_REPLICA:
            now = self._now()
            if replica in image.brokers and now < state.preferred_until:
                return replica
            state.forget_replica()
        led = image.leader(*state.partition)
        return led.leader if led is not None and led.leader in image.brokers else None

    async def _run(self, source: _Source) -> None:
        failure_count = 0
        while True:
            plan = self._plan(source.broker_id)
            if not plan.sent:
                await self._waking.wait(plan.look_again_at)
                continue
            try:
                connection = await self._cluster.connection(source.broker_id)
                if connection is not source.connection:
                    source.connection = connection
                    continue  # more may have become ready while it was made
                await self._fetch(source, connection, plan)
                failure_count = 0
            except ClientError as error:
                failure_count += 1
                self._failed(source.broker_id, error)
                await self._rest(failure_count)

    async def _run_beside(self, source: _Source) -> None:
        """Fetch what became ready while the broker holds a request, for as long as it does.

        After a pause each time: a broker that has news answers meanwhile, and then the usual
        request is for all.
        """
        try:
            await asyncio.sleep(HELD_S)
            while (left_s := source.held_s(self._now())) > 0:
                plan = self._plan(source.broker_id)
                if not plan.sent:
                    return
                try:
                    await self._fetch_beside(source, plan, left_s)
                except ClientError as error:
                    self._failed(source.broker_id, error)
                    await self._rest(1)
                self._waking.wake()  # the usual request may have found nothing to ask for
                await asyncio.sleep(HELD_S)
        finally:
            source.beside = None

    async def _rest(self, failure_count: int) -> None:
        await asyncio.sleep(self._backoff.wait_s(failure_count, self._cluster.ports.random))

    def _now(self) -> float:
        return self._cluster.ports.clock.monotonic()

    def _plan(self, broker_id: int) -> _Plan:
        """Decide what to ask a broker for now."""
        settings, image = self._settings, self._cluster.image
        now = self._now()
        plan, retry_at = _Plan({}, {}, None), []
        if self._waiting_size() >= settings.prefetch_max_bytes:
            return plan
        for state in self._positions:
            if state.stage is not Stage.READY or state.paused or state.in_flight:
                continue
            if state.error is not None or self._source(state) != broker_id:
                continue
            if state.retry_at > now:
                retry_at.append(state.retry_at)
                continue
            if state.buffered_size >= settings.max_partition_fetch_bytes:
                return _Plan({}, {}, None)
            topic = image.topics[state.partition.topic]
            epoch = topic.partitions[state.partition.partition].leader_epoch
            plan.sent[state.partition] = Sent(state, state.revision, state.fetch_offset)
            plan.wanted[state.partition] = FetchPosition(
                topic.topic_id, state.fetch_offset, epoch, settings.max_partition_fetch_bytes
            )
        return plan._replace(look_again_at=min(retry_at, default=None))

    def _waiting_size(self) -> int:
        """Return how many bytes wait for the user to ask.

        What is paused waits for something else, and must not keep the others from being fetched.
        """
        return sum(
            state.buffered_size
            for state in self._positions
            if state.stage is Stage.READY and not state.paused
        )

    async def _fetch(self, source: _Source, connection: ClientConnection, plan: _Plan) -> None:
        """Ask for everything that is to be read from a broker, within the session."""
        version = _version(connection, plan)
        session = source.session if version >= SESSION_VERSION else None
        asked = without_session(plan.wanted) if session is None else session.request(plan.wanted)
        wait_ms = self._settings.fetch_max_wait_ms
        try:
            with plan.on_its_way():
                source.held_until = self._now() + wait_ms / 1000
                try:
                    answer = await connection.send(self._request(asked, wait_ms), version)
                finally:
                    source.held_until = None
                self._answers.take(answer, plan.sent, plan.wanted, session, source.broker_id)
        except BaseException:
            source.session.lost()
            raise

    async def _fetch_beside(self, source: _Source, plan: _Plan, patience_s: float) -> None:
        """Ask for some of it only, without the session's knowledge."""
        with plan.on_its_way():
            connection = await self._cluster.connection(source.broker_id, Lane.BESIDE)
            request = self._request(without_session(plan.wanted), int(patience_s * 1000))
            answer = await connection.send(request, _version(connection, plan))
            self._answers.take(answer, plan.sent, plan.wanted, None, source.broker_id)

    def _request(self, asked: SessionRequest, wait_ms: int) -> FetchRequest:
        settings = self._settings
        limits = FetchLimits(
            wait_ms,
            settings.fetch_min_bytes,
            settings.fetch_max_bytes,
            settings.isolation_level,
            settings.client_rack,
        )
        return fetch_request(asked, limits)

    def _failed(self, broker_id: int, error: ClientError) -> None:
        """Have it looked up who leads now, and read from no replica that is gone."""
        logger.debug("fetching from broker %d failed: %s", broker_id, error)
        self._cluster.request_refresh()
        for state in self._positions:
            if state.preferred_replica == broker_id:
                state.forget_replica()
        self.wake()

    async def _end_session(self, source: _Source) -> None:
        """Tell a broker that the session is over; it matters little if that fails.

        The fetch that is parked there must not be waited for, so this goes another way.
        """
        session_id = source.session.session_id
        if session_id == NO_SESSION:
            return
        request = FetchRequest(session_id=session_id, session_epoch=FINAL_EPOCH)
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                connection = await self._cluster.connection(source.broker_id, Lane.COORDINATION)
                await connection.call(request)
        except (ClientError, TimeoutError) as error:
            logger.debug("broker %d was not told the end of a session: %s", source.broker_id, error)


class _Source:
    """One broker that is read from."""

    __slots__ = ("beside", "broker_id", "connection", "held_until", "session", "task")

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.connection: ClientConnection | None = None
        self.session = FetchSession()
        self.task: asyncio.Task[None] | None = None
        self.held_until: float | None = None
        """Until when the broker may hold the request that is on its way; None without one."""
        self.beside: asyncio.Task[None] | None = None
        """Fetches what became ready meanwhile."""

    def held_s(self, now: float) -> float:
        """Return for how long the broker may still hold the request."""
        return 0.0 if self.held_until is None else self.held_until - now


class _Plan(NamedTuple):
    """What to ask a broker for, as it was and as the session sees it."""

    sent: dict[TopicPartition, Sent]
    wanted: dict[TopicPartition, FetchPosition]
    look_again_at: float | None
    """With nothing to ask for: when that may change by itself."""

    @contextmanager
    def on_its_way(self) -> Iterator[None]:
        """Have nobody else ask for the same."""
        for sent in self.sent.values():
            sent.state.flight_revision = sent.revision
        try:
            yield
        finally:
            for sent in self.sent.values():
                sent.state.landed(sent.revision)


def _version(connection: ClientConnection, plan: _Plan) -> int:
    return fetch_version(connection.agreed_version(FetchRequest), plan.wanted)
