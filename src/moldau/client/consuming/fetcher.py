"""Fetching: one request under way to every broker that has something for us, answers kept ready.

A broker is asked for all partitions read from it at once, again as soon as its answer is here, as
long as little enough waits for the user: `max_partition_fetch_bytes` a partition and
`prefetch_max_bytes` altogether. While one partition of a broker is at its bound, the broker is left
alone: a request for the others would be parked there for `fetch_max_wait_ms`, and the full one
would run dry behind it.

Owns a task per broker and the fetch sessions. What an answer means is decided in `fetch_answers`;
whether a partition may be fetched, by `positions`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from moldau.base.ids import ZERO_TOPIC_ID
from moldau.client.consuming.background import in_background
from moldau.client.consuming.fetch_answers import FetchAnswers, Sent
from moldau.client.consuming.fetch_sessions import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchSession,
    SessionRequest,
    Wanted,
)
from moldau.client.consuming.positions import NO_REPLICA, PartitionState, Positions, Stage
from moldau.client.consuming.settings import ConsumerSettings
from moldau.client.consuming.waking import Waking
from moldau.client.engine.backoff import Backoff
from moldau.client.engine.cluster import Cluster, Lane
from moldau.client.errors import ClientError
from moldau.client.records import TopicPartition
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

logger = logging.getLogger(__name__)

SESSION_VERSION: Final = 7
TOPIC_ID_VERSION: Final = 13

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
        crashed: Callable[[Exception], None],
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
        self._sessions: dict[int, FetchSession] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def wake(self) -> None:
        """Look again at what is to be fetched: positions, pauses or leaders changed."""
        for state in self._positions:
            if state.stage is Stage.READY and not state.paused:
                broker_id = self._source(state)
                if broker_id is not None and broker_id not in self._tasks:
                    self._tasks[broker_id] = in_background(
                        self._run(broker_id), f"moldau-fetch-{broker_id}", self._crashed
                    )
        self._waking.wake()

    def refill(self) -> None:
        """Look again at what is to be fetched: there is room in the buffer."""
        self._waking.wake()

    async def close(self) -> None:
        """End the tasks and let the brokers forget the sessions. Cancelled, the tasks still end."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(self._end_session(*each) for each in self._sessions.items()))

    def _source(self, state: PartitionState) -> int | None:
        """Return the broker to read a partition from: a replica near us, or the leader."""
        image = self._cluster.image
        replica = state.preferred_replica
        if replica != NO_REPLICA:
            now = self._cluster.ports.clock.monotonic()
            if replica in image.brokers and now < state.preferred_until:
                return replica
            state.forget_replica()
        led = image.leader(*state.partition)
        return led.leader if led is not None and led.leader in image.brokers else None

    async def _run(self, broker_id: int) -> None:
        failure_count = 0
        session = self._sessions.setdefault(broker_id, FetchSession())
        while True:
            plan = self._plan(broker_id)
            if not plan.sent:
                await self._waking.wait(plan.look_again_at)
                continue
            for sent in plan.sent.values():
                sent.state.in_flight = True
            try:
                await self._fetch(broker_id, session, plan)
                failure_count = 0
            except ClientError as error:
                failure_count += 1
                self._failed(broker_id, error)
            finally:
                for sent in plan.sent.values():
                    sent.state.in_flight = False
            if failure_count:
                random = self._cluster.ports.random
                await asyncio.sleep(self._backoff.wait_s(failure_count, random))

    def _plan(self, broker_id: int) -> _Plan:
        """Decide what to ask a broker for now."""
        settings, image = self._settings, self._cluster.image
        now = self._cluster.ports.clock.monotonic()
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
            plan.wanted[state.partition] = Wanted(
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

    async def _fetch(self, broker_id: int, session: FetchSession, plan: _Plan) -> None:
        connection = await self._cluster.connection(broker_id)
        version = connection.agreed_version(FetchRequest)
        if any(want.topic_id == ZERO_TOPIC_ID for want in plan.wanted.values()):
            version = min(version, TOPIC_ID_VERSION - 1)
        with_session = version >= SESSION_VERSION
        asked = (
            session.request(plan.wanted)
            if with_session
            else SessionRequest(NO_SESSION, FINAL_EPOCH, plan.wanted, [])
        )
        try:
            answer: FetchResponse = await connection.send(self._request(asked), version)
            used = session if with_session else None
            self._answers.take(answer, plan.sent, plan.wanted, used, broker_id)
        except BaseException:
            session.lost()
            raise

    def _request(self, asked: SessionRequest) -> FetchRequest:
        settings = self._settings
        topics: dict[tuple[str, bytes], list[FetchPartition]] = {}
        for (topic, index), want in asked.send.items():
            topics.setdefault((topic, want.topic_id), []).append(
                FetchPartition(
                    index,
                    current_leader_epoch=want.leader_epoch,
                    fetch_offset=want.offset,
                    partition_max_bytes=want.max_bytes,
                )
            )
        forgotten: dict[tuple[str, bytes], list[int]] = {}
        for topic_id, (topic, index) in asked.forget:
            forgotten.setdefault((topic, topic_id), []).append(index)
        return FetchRequest(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=settings.isolation_level,
            session_id=asked.session_id,
            session_epoch=asked.epoch,
            topics=[FetchTopic(*name, partitions) for name, partitions in topics.items()],
            forgotten_topics_data=[
                ForgottenTopic(*name, partitions) for name, partitions in forgotten.items()
            ],
            rack_id=settings.client_rack,
        )

    def _failed(self, broker_id: int, error: ClientError) -> None:
        """Have it looked up who leads now, and read from no replica that is gone."""
        logger.debug("fetching from broker %d failed: %s", broker_id, error)
        self._cluster.request_refresh()
        for state in self._positions:
            if state.preferred_replica == broker_id:
                state.forget_replica()
        self.wake()

    async def _end_session(self, broker_id: int, session: FetchSession) -> None:
        """Tell a broker that the session is over; it matters little if that fails.

        The fetch that is parked there must not be waited for, so this goes another way.
        """
        if session.session_id == NO_SESSION:
            return
        request = FetchRequest(session_id=session.session_id, session_epoch=FINAL_EPOCH)
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                connection = await self._cluster.connection(broker_id, Lane.COORDINATION)
                await connection.call(request)
        except (ClientError, TimeoutError) as error:
            logger.debug("broker %d was not told the end of a session: %s", broker_id, error)


class _Plan(NamedTuple):
    """What to ask a broker for, as it was and as the session sees it."""

    sent: dict[TopicPartition, Sent]
    wanted: dict[TopicPartition, Wanted]
    look_again_at: float | None
    """With nothing to ask for: when that may change by itself."""
