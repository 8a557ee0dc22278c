"""What a fetch answer means for the partitions it speaks of.

Records go to the buffer; errors send a partition back to a stage where something is found out
(positions), have leaders looked up, or are kept for the user. No waiting and no sending here: the
fetcher calls `take`, everything has happened when it returns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from moldau.base.errors import CorruptRecords
from moldau.base.tuples import NamedTuple
from moldau.client.consumer_settings import ResetKind, ResetPolicy
from moldau.client.consuming.decoding import DecodingRules, Fetched
from moldau.client.consuming.holding import FetchBuffer
from moldau.client.consuming.positions import NO_OFFSET, PartitionState, Positions
from moldau.client.errors import (
    CorruptAnswer,
    OffsetOutOfRange,
    RecordTooLarge,
    broker_error,
)
from moldau.client.records import TopicPartition
from moldau.engine.cluster import Cluster
from moldau.engine.fetch_requests import NO_REPLICA, by_partition
from moldau.engine.fetch_sessions import FetchPosition, FetchSession
from moldau.engine.fetched_batches import split
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchResponse,
    NodeEndpoint,
)

logger = logging.getLogger(__name__)

_LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors after which to look up who leads, and to ask again: nothing the user could do."""


_SESSION_OVER: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)
"""A broker forgets sessions when it has too many, and all of them when it starts."""


class Sent(NamedTuple):
    """A partition as it was when it was asked for."""

    state: PartitionState
    revision: int
    offset: int


class FetchAnswers:
    """Takes answers apart."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        buffer: FetchBuffer,
        rules: DecodingRules,
        policy: ResetPolicy,
        *,
        truncated: Callable[[PartitionState, int, int], None],
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._positions = positions
        self._buffer = buffer
        self._rules = rules
        self._policy = policy
        self._clock = cluster.ports.clock
        self._retry_s = cluster.settings.retry_backoff_ms / 1000
        self._replica_s = cluster.settings.metadata_max_age_ms / 1000
        """For how long a replica that the leader recommended is read from."""
        self._truncated = truncated
        self._changed = changed
        """Called when an answer gave the user or the look-ups something to do."""

    def take(
        self,
        answer: FetchResponse,
        sent: Mapping[TopicPartition, Sent],
        wanted: Mapping[TopicPartition, FetchPosition],
        session: FetchSession | None,
        broker_id: int,
    ) -> None:
        """Act on an answer. CorruptAnswer if it speaks of what was not asked for."""
        told = by_partition(answer.responses, wanted)
        error = ErrorCode.of(answer.error_code)
        if session is not None and not session.answered(error, answer.session_id, told.keys()):
            self._no_session(error, sent, session.failure_count > 1, broker_id)
            return
        if error is not ErrorCode.NONE:
            raise broker_error(error)
        news = False
        for partition, one in told.items():
            asked = sent.get(partition)
            if asked is not None and asked.state.revision == asked.revision:
                news |= self._take_partition(asked, one, answer.node_endpoints, broker_id)
        if news:
            self._changed()

    def _no_session(
        self, error: ErrorCode, sent: Mapping[TopicPartition, Sent], again: bool, broker_id: int
    ) -> None:
        """Have the session begun again: at once if the broker has only forgotten it."""
        logger.debug("the fetch session of broker %d begins again: %s", broker_id, error.name)
        if error not in _SESSION_OVER:
            self._cluster.request_refresh()
        if again or error not in _SESSION_OVER:
            for asked in sent.values():
                self._later(asked.state)

    def _take_partition(
        self,
        asked: Sent,
        told: FetchablePartitionResponse,
        endpoints: Iterable[NodeEndpoint],
        broker_id: int,
    ) -> bool:
        """Act on what was told of one partition; tell whether anybody must look again."""
        state, (topic, index) = asked.state, asked.state.partition
        error = ErrorCode.of(told.error_code)
        if told.current_leader.leader_id >= 0:
            named = told.current_leader
            self._cluster.learn_leader(topic, index, named.leader_id, named.leader_epoch, endpoints)
        if error is not ErrorCode.NONE:
            return self._take_error(asked, error, broker_id)
        _note_offsets(state, told)
        if told.diverging_epoch.end_offset >= 0:
            self._truncated(state, told.diverging_epoch.epoch, told.diverging_epoch.end_offset)
            return True
        if told.preferred_read_replica not in (NO_REPLICA, state.preferred_replica):
            return self._prefer(state, told.preferred_read_replica)
        if not told.records:
            return False
        assert isinstance(told.records, memoryview)
        return self._take_records(asked, told, told.records)

    def _prefer(self, state: PartitionState, replica: int) -> bool:
        """Read from a replica that the leader recommends, once it is known where that is."""
        if replica not in self._cluster.image.brokers:
            self._cluster.request_refresh()
            self._later(state)
            return False
        state.preferred_replica = replica
        state.preferred_until = self._clock.monotonic() + self._replica_s
        return True

    def _take_records(
        self, asked: Sent, told: FetchablePartitionResponse, view: memoryview
    ) -> bool:
        state = asked.state
        try:
            found = split(view, asked.offset)
            if found.spans and found.next_offset == asked.offset:
                raise CorruptRecords("the broker sent only what comes before it")
        except CorruptRecords as error:
            state.error = CorruptAnswer(f"{state.partition} at offset {asked.offset}: {error}")
            self._later(state)
            return True
        if not found.spans:
            # Only brokers before 0.10.1 cut the first batch; others send it whole (KIP-74).
            state.error = RecordTooLarge(
                f"{state.partition}: the batch at offset {asked.offset} is larger than"
                " max_partition_fetch_bytes",
                advice="Raise max_partition_fetch_bytes.",
            )
            self._later(state)
            return True
        fetched = Fetched(state, view, found, told.aborted_transactions, self._rules)
        state.fetched(found.next_offset, found.leader_epoch, found.size)
        self._positions.to_back(state)
        self._buffer.add(fetched)
        return True

    def _take_error(self, asked: Sent, error: ErrorCode, broker_id: int) -> bool:
        state = asked.state
        logger.debug("fetching %s from broker %d: %s", state.partition, broker_id, error.name)
        self._later(state)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._out_of_range(asked, broker_id)
        if error in _LEADER_MOVED:
            state.forget_replica()
            self._cluster.request_refresh()
            return False
        state.error = broker_error(error, f"{state.partition}: {error.text}")
        return True

    def _out_of_range(self, asked: Sent, broker_id: int) -> bool:
        """Go where the policy says, but only once the user is done with all that was fetched."""
        state = asked.state
        if state.preferred_replica == broker_id:
            state.forget_replica()
            state.retry_at = 0.0
            return True
        if state.offset != state.fetch_offset:
            return False
        if self._policy.kind is ResetKind.NONE:
            state.error = OffsetOutOfRange(
                f"{state.partition} has no offset {asked.offset} any more, or not yet"
            )
        else:
            logger.info("%s has no offset %d: resetting", state.partition, asked.offset)
            state.reset()
        return True

    def _later(self, state: PartitionState) -> None:
        state.retry_at = self._clock.monotonic() + self._retry_s


def _note_offsets(state: PartitionState, told: FetchablePartitionResponse) -> None:
    """Keep what an answer tells of the ends of the log; -1 is a broker that does not know."""
    state.high_watermark = max(told.high_watermark, NO_OFFSET)
    if told.last_stable_offset != NO_OFFSET:
        state.last_stable_offset = told.last_stable_offset
    if told.log_start_offset != NO_OFFSET:
        state.log_start_offset = told.log_start_offset
