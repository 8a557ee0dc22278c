"""Fetch 0-18: give a client what its partitions hold, or let it wait for more.

Answers name regions of files; the bytes go from the page cache to the socket. Clients older than
Fetch 4 cannot read version 2 batches: what they get is converted (`fetch.conversion`; magic 0 up
to Fetch 1, magic 1 for 2 and 3), as Kafka did until 3.x.

A replica id makes it a follower's fetch. Followers read to the log's end, need the permission of
brokers, and are served on the listener of brokers alone.

A client that has to go to another broker is told where that is (`nodes.leader_hints`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from moldau.base.errors import StorageError
from moldau.base.executor import Executor
from moldau.base.files import FileRegion
from moldau.base.ids import BrokerId, LeaderEpoch, Offset
from moldau.base.network import Part
from moldau.observe.requests import RequestStats
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.data import (
    AbortedTransaction,
    DivergingEpoch,
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotId,
    FetchTopic,
    LeaderIdAndEpoch,
)
from moldau.protocol.single_fetch import NO_BROKER, SingleFetchRequest
from moldau.replication.partitions import Partitions
from moldau.replication.throttle import ReplicationThrottle
from moldau.security.operations import CLUSTER_NAME, AclOperation, AclResourceType
from moldau.security.session import Session
from moldau.server.fetch.conversion import FetchConversion
from moldau.server.fetch.reading import (
    READERS_PER_STEP,
    Fetch,
    Fetched,
    FollowerFetch,
    ParkedFetch,
    ParkedFetches,
    by_topic,
)
from moldau.server.fetch.sessions import (
    FINAL_EPOCH,
    SESSIONLESS,
    FetchSession,
    FetchSessions,
)
from moldau.server.network.dispatch import Droppable, RequestContext
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns
from moldau.server.nodes.leader_hints import NO_HINTS, LeaderHints
from moldau.server.upkeep.index_repair import RebuildIndex

TOPIC_IDS_FROM = 13
REPLICA_STATE_FROM = 15
"""The first version in which a follower also tells its broker epoch (KIP-903)."""
LEADER_HINTS_FROM = 16
HINTED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors after which a client looks for another leader."""
BATCHES_FROM = 4
"""The first version whose clients read version 2 batches."""
SOFT_LIMIT_FROM = 3
"""Before this version an answer never exceeded its limits, not even for a first batch."""
MAGIC_1_FROM = 2
CONVERTED_ANSWER_BYTES = 8 * 1024 * 1024
"""What is converted for one answer, unless one batch has more: it lies in memory until it is sent,
and other clients wait while it is made. A client that wants more asks again."""
CONVERSION_COPIES = 2
"""How often records lie in memory while they are converted: as they were and as they become."""
READ_COMMITTED = 1
MOVES_PER_STEP = 1_000
"""Partitions that are put behind the others between two pauses: a few tenths of a millisecond."""

# Nearly every partition has nothing to say in these; they are shared, and never changed.
_NOT_DIVERGING = DivergingEpoch()
_SAME_LEADER = LeaderIdAndEpoch()
_NO_SNAPSHOT = FetchSnapshotId()


class FetchHandler:
    """Answers Fetch."""

    def __init__(
        self,
        partitions: Partitions,
        sessions: FetchSessions,
        executor: Executor,
        traffic: Traffic,
        stats: RequestStats,
        storage_failed: Callable[[StorageError], None],
        rebuild_index: RebuildIndex,
        *,
        max_bytes: int,
        is_for_brokers: Callable[[Session], bool] = lambda _: True,
        is_registered: Callable[[BrokerId], bool] = lambda _: True,
        leader_hints: LeaderHints = NO_HINTS,
        parked: ParkedFetches | None = None,
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        """`is_for_brokers` tells whether a session came in where brokers talk to each other.

        `is_registered` tells whether a broker is known.
        """
        self._partitions = partitions
        self._sessions = sessions
        self._conversion = FetchConversion(executor, storage_failed)
        self._traffic = traffic
        self._stats = stats
        self._storage_failed = storage_failed
        self._rebuild_index = rebuild_index
        self._max_bytes = max_bytes
        self._is_for_brokers = is_for_brokers
        self._is_registered = is_registered
        self._leader_hints = leader_hints
        self._parked = parked or ParkedFetches()
        self._throttle = throttle
        self._rotation = 0

    def __call__(
        self, request: FetchRequest, context: RequestContext
    ) -> Sliced[FetchResponse | asyncio.Future[Any] | Droppable]:
        version = context.version
        follower = _follower(request, version)
        refusal = self._refusal(context, follower)
        try:
            session = self._open_session(request, follower, refusal)
        except ApiError as error:
            self._stats.error(error.code)
            return FetchResponse(error_code=error.code)
        by_id = version >= TOPIC_IDS_FROM
        if mixes_names_and_ids(session, by_id=by_id):
            self._stats.error(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        try:
            return (yield from self._fetch(session, request, context, follower, refusal))
        except GeneratorExit:
            if not session.kept:
                session.close()  # the client has left
            raise

    def _open_session(
        self, request: FetchRequest, follower: FollowerFetch | None, refusal: ErrorCode
    ) -> FetchSession:
        """Find or make the session of a request.

        A follower's takes the slot of a consumer. One that is refused, or that nobody knows, gets
        none: else any client could take them all.
        """
        broker_id = None if follower is None else follower.broker_id
        if broker_id is not None and (refusal or not self._is_registered(broker_id)):
            return self._sessions.for_one_request(broker_id)
        return self._sessions.open(request.session_id, request.session_epoch, broker_id)

    def _fetch(
        self,
        session: FetchSession,
        request: FetchRequest,
        context: RequestContext,
        follower: FollowerFetch | None,
        refusal: ErrorCode,
    ) -> Sliced[FetchResponse | asyncio.Future[Any] | Droppable]:
        version = context.version
        yield from _update(session, request, by_id=version >= TOPIC_IDS_FROM)
        fetch = Fetch(
            session,
            self._partitions,
            min_bytes=request.min_bytes,
            max_bytes=min(request.max_bytes, self._answer_limit(version)),
            committed_only=request.isolation_level == READ_COMMITTED,
            follower=follower,
            hard_limit=version < SOFT_LIMIT_FROM,
            whole=request.session_epoch <= 0,
            storage_failed=self._storage_failed,
            rebuild_index=self._rebuild_index,
            refusal=refusal,
            throttle=self._throttle,
        )
        if version < SOFT_LIMIT_FROM:
            yield from self._rotate(session)
        found, enough = yield from fetch.look()
        if version < BATCHES_FROM:
            work = self._converted(fetch, found, enough, request, context)
            # These versions have no sessions to keep.
            return Droppable(work, session.close)
        if enough or request.max_wait_ms <= 0 or not session.readers:
            response = yield from self.respond(fetch, found, version, context.session)
            if not session.kept:
                session.close()
            return response
        return self._park(fetch, request, context).future

    def _park(self, fetch: Fetch, request: FetchRequest, context: RequestContext) -> ParkedFetch:
        version, client = context.version, context.session
        return self.park(
            fetch, request.max_wait_ms, lambda found: self.respond(fetch, found, version, client)
        )

    # For the fast path

    def resume(self, asked: SingleFetchRequest, client: Session) -> Fetch | None:
        """Begin a fetch in a session that has the partition, and few to look at, or without one.

        None, with nothing done, for every other. A fetch that is begun never pauses.
        """
        follower = None
        if asked.broker_id != NO_BROKER:
            follower = FollowerFetch(BrokerId(asked.broker_id), asked.broker_epoch)
            if not self._is_for_brokers(client) or not self._is_registered(follower.broker_id):
                return None
        key = (asked.topic_id, asked.index)
        session = self._resume_session(asked, follower, key)
        if session is None:
            return None
        session.reader(*key).move(
            Offset(asked.fetch_offset),
            asked.partition_max_bytes,
            LeaderEpoch(asked.leader_epoch),
            LeaderEpoch(asked.last_fetched_epoch),
            Offset(asked.log_start_offset),
        )
        return Fetch(
            session,
            self._partitions,
            min_bytes=asked.min_bytes,
            max_bytes=min(asked.max_bytes, self._max_bytes),
            committed_only=asked.isolation_level == READ_COMMITTED,
            follower=follower,
            hard_limit=False,
            whole=not session.kept,
            storage_failed=self._storage_failed,
            rebuild_index=self._rebuild_index,
            throttle=self._throttle,
        )

    def _resume_session(
        self, asked: SingleFetchRequest, follower: FollowerFetch | None, key: tuple[bytes, int]
    ) -> FetchSession | None:
        if follower is not None:
            broker_id = follower.broker_id
        elif asked.session_id == SESSIONLESS and asked.session_epoch == FINAL_EPOCH:
            return self._sessions.for_one_request()
        else:
            broker_id = None
        return self._sessions.resume(
            asked.session_id, asked.session_epoch, broker_id, key, READERS_PER_STEP - 1
        )

    def park(
        self, fetch: Fetch, max_wait_ms: int, respond: Callable[[list[Fetched]], Sliced[object]]
    ) -> ParkedFetch:
        """Let a fetch wait for more; `respond` makes the answer."""
        return ParkedFetch(fetch, max_wait_ms / 1000, respond, self._parked)

    def _refusal(self, context: RequestContext, follower: FollowerFetch | None) -> ErrorCode:
        """Say what every partition answers a follower that is none of ours."""
        if follower is None:
            return ErrorCode.NONE
        if self._is_for_brokers(context.session) and context.allows(
            AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME
        ):
            return ErrorCode.NONE
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def _rotate(self, session: FetchSession) -> Sliced[None]:
        """Begin with another partition each time.

        Newer clients do so themselves (KIP-74). For these the first ones would fill every answer.
        """
        self._rotation += 1
        for count in range(1, self._rotation % max(1, len(session.ready)) + 1):
            session.ready.move_to_end(next(iter(session.ready)))
            if not count % MOVES_PER_STEP:
                yield

    def _answer_limit(self, version: int) -> int:
        if version < BATCHES_FROM:
            return min(self._max_bytes, CONVERTED_ANSWER_BYTES)
        return self._max_bytes

    def respond(
        self, fetch: Fetch, found: list[Fetched], version: int, client: Session
    ) -> Sliced[FetchResponse]:
        """Make the answer of what a fetch has found."""
        named = yield from fetch.finish(found)
        return (yield from self.response(fetch, named, version, client))

    def response(
        self, fetch: Fetch, fetched: list[Fetched], version: int, client: Session
    ) -> Sliced[FetchResponse]:
        """Make an answer that names these partitions."""
        response = FetchResponse(session_id=fetch.session.id)
        listener, endpoints = client.listener, response.node_endpoints
        # A follower learns from the metadata who leads, as in Kafka.
        gives_hints = version >= LEADER_HINTS_FROM and not fetch.is_follower
        answered = 0
        for topic, group in by_topic(fetched):
            named = FetchableTopicResponse()
            if isinstance(topic, str):
                named.topic = topic
            else:
                named.topic_id = topic
            for one in group:
                told = _partition_response(one)
                if gives_hints and one.error in HINTED:
                    index = one.reader.index
                    told.current_leader = self._leader_hints.hint(topic, index, listener, endpoints)
                named.partitions.append(told)
                self.count(fetch, one)
                answered += 1
                if not answered % READERS_PER_STEP:
                    yield
            response.responses.append(named)
        return response

    def count(self, fetch: Fetch, fetched: Fetched) -> None:
        """Count what is sent of a partition."""
        if fetch.is_follower and fetched.size:
            self._count_throttled(fetched)
        partition = fetched.reader.partition
        if partition is not None and (fetched.size or fetched.error):
            traffic = self._traffic.of(partition.key.topic)
            traffic.bytes_out += fetched.size
            if fetched.error:
                traffic.failed_fetch += 1
        if fetched.error:
            self._stats.error(fetched.error)

    def _count_throttled(self, fetched: Fetched) -> None:
        """Count what a throttled partition sends to followers, in sync or not."""
        partition, throttle = fetched.reader.partition, self._throttle
        if partition is None or throttle is None:
            return
        if throttle.applies_to(partition.key, partition.config):
            throttle.record(fetched.size)

    async def _converted(
        self,
        fetch: Fetch,
        found: list[Fetched],
        enough: bool,
        request: FetchRequest,
        context: RequestContext,
    ) -> FetchResponse:
        """Answer a client that knows only single messages."""
        if enough or request.max_wait_ms <= 0 or not fetch.session.readers:
            response = await take_turns(
                self.respond(fetch, found, context.version, context.session)
            )
        else:
            parked = self._park(fetch, request, context)
            response = await parked.future  # type: ignore[assignment]
        await context.memory.reserve(CONVERSION_COPIES * _stored_size(response))
        magic = 1 if context.version >= MAGIC_1_FROM else 0
        await self._conversion.convert(response, magic=magic)
        return response


def _follower(request: FetchRequest, version: int) -> FollowerFetch | None:
    """Name the broker that fetches; None for a consumer."""
    if version >= REPLICA_STATE_FROM:
        broker_id, broker_epoch = (
            request.replica_state.replica_id,
            request.replica_state.replica_epoch,
        )
    else:
        broker_id, broker_epoch = request.replica_id, -1
    return FollowerFetch(BrokerId(broker_id), broker_epoch) if broker_id >= 0 else None


def _stored_size(response: FetchResponse) -> int:
    """Return how many bytes of files an answer names."""
    return sum(
        region.size
        for topic in response.responses
        for partition in topic.partitions
        for region in cast("tuple[FileRegion, ...]", partition.records or ())
    )


def mixes_names_and_ids(session: FetchSession, *, by_id: bool) -> bool:
    """Tell whether a session began with names and goes on with ids, or the other way round."""
    known = next(iter(session.readers), None)
    return known is not None and isinstance(known[0], bytes) != by_id


def _update(session: FetchSession, request: FetchRequest, *, by_id: bool) -> Sliced[None]:
    """Bring a session up to what its client says in this request.

    A partition that is named twice is read once, as it is named last, as in Kafka.
    """
    count = 0
    for topic in request.topics:
        key = _key(topic, by_id=by_id)
        for wanted in topic.partitions:
            count += 1
            if not count % READERS_PER_STEP:
                yield
            session.reader(key, wanted.partition).move(
                Offset(wanted.fetch_offset),
                wanted.partition_max_bytes,
                LeaderEpoch(wanted.current_leader_epoch),
                LeaderEpoch(wanted.last_fetched_epoch),
                Offset(wanted.log_start_offset),
            )
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            count += 1
            if not count % READERS_PER_STEP:
                yield
            session.forget(forgotten.topic_id if by_id else forgotten.topic, index)


def _key(topic: FetchTopic, *, by_id: bool) -> str | bytes:
    return topic.topic_id if by_id else topic.topic


def _partition_response(fetched: Fetched) -> FetchablePartitionResponse:
    aborted = fetched.aborted
    records: tuple[Part, ...] = fetched.regions
    diverging = fetched.diverging
    return FetchablePartitionResponse(
        fetched.reader.index,
        fetched.error,
        fetched.high_watermark,
        fetched.last_stable_offset,
        fetched.log_start_offset,
        _NOT_DIVERGING if diverging is None else DivergingEpoch(*diverging),
        _SAME_LEADER,
        _NO_SNAPSHOT,
        None
        if aborted is None
        else [AbortedTransaction(one.producer_id, one.first_offset) for one in aborted],
        records=records,
    )
