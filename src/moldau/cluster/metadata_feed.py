"""What the leader of the metadata answers to the nodes that copy its log (KIP-595, KIP-630).

Fetch gives whole batches below the high watermark, or says that the fetching log has to be cut or
to begin again with a snapshot; one that has everything is parked until more is committed.
FetchSnapshot gives a snapshot piece by piece. Answers name regions of files, so nothing is read
here. The checks and their order are Kafka's.

Every node that fetches is remembered with its offset and times, for those who ask about the quorum.
Nothing here grows with what others send: parked fetches and remembered nodes are bounded.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, NamedTuple

from moldau.base.clock import Clock
from moldau.base.files import FileRegion
from moldau.cluster.journal import METADATA_TOPIC, METADATA_TOPIC_ID
from moldau.cluster.leader_log import LeaderLog
from moldau.cluster.raft.divergence import diverging, snapshot_instead
from moldau.cluster.snapshots import SnapshotId
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    DivergingEpoch,
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchSnapshotId,
    LeaderIdAndEpoch,
)
from moldau.protocol.messages.raft import (
    FetchSnapshotLeader,
    FetchSnapshotPartition,
    FetchSnapshotPartitionResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotTopicResponse,
)
from moldau.protocol.messages.raft import SnapshotId as WireSnapshotId

METADATA_PARTITION: Final = 0

ANSWER_BYTES_MAX: Final = 8 << 20
"""Whatever a request asks for; nodes ask for 1 MiB. One batch may still be larger."""

PARKED_MAX: Final = 200
"""Fetches that wait at a time: one for each node. All of them are answered in one turn."""

OBSERVED_FOR_MS: Final = 300_000
"""A node that has not fetched for so long is no observer any more, as in Kafka."""

OBSERVERS_MAX: Final = 1_000


@dataclass(slots=True)
class ObserverState:
    """A node that copies the log, as its last fetch has shown it."""

    node_id: int
    directory_id: bytes
    end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    """When it last had everything there was; -1 if it never had."""
    _leader_end: int = -1

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        """Note a fetch. What is fetched now shows that the last answer has arrived."""
        if offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif 0 < self._leader_end <= offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset, self.last_fetch_ms, self._leader_end = offset, now_ms, leader_end


class MetadataFeed:
    """Answers Fetch and FetchSnapshot of the metadata log, for the node that leads it."""

    def __init__(self, log: LeaderLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._observers: dict[tuple[int, bytes], ObserverState] = {}
        self._parked: dict[asyncio.Future[FetchResponse], _MetadataFetch] = {}
        self._unwatch = log.watch(self._answer_parked)

    def close(self) -> None:
        """Answer everybody that waits, and hear of no more commits; closing twice is harmless."""
        self._unwatch()
        self._unwatch = _nothing
        self._answer_parked()

    @property
    def parked_count(self) -> int:
        """Fetches that wait for a commit."""
        return len(self._parked)

    def observers(self) -> list[ObserverState]:
        """Return the nodes that copied the log lately, by id."""
        self._forget_silent()
        return [state for _, state in sorted(self._observers.items())]

    # Fetch

    def fetch(self, request: FetchRequest) -> FetchResponse | asyncio.Future[FetchResponse]:
        """Answer a fetch, now or once there is more; a future may be cancelled."""
        if not self._is_our_cluster(request.cluster_id):
            return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        fetch = _metadata_fetch(request)
        if fetch is None:
            return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        answer = self._fetched(fetch)
        if fetch.max_wait_ms <= 0 or _is_telling(answer, fetch.wanted):
            return fetch.response(answer)
        return self._park(fetch)

    def _fetched(self, fetch: _MetadataFetch) -> FetchablePartitionResponse:
        log, offset, epoch = self._log, fetch.wanted.fetch_offset, fetch.wanted.last_fetched_epoch
        answer = FetchablePartitionResponse(
            METADATA_PARTITION,
            high_watermark=-1,
            current_leader=LeaderIdAndEpoch(log.leader_id, log.leader_epoch),
            aborted_transactions=None,
            records=b"",
        )
        answer.error_code = self._fetch_error(fetch)
        if answer.error_code:
            return answer
        answer.high_watermark = log.high_watermark
        answer.log_start_offset = log.start_offset
        if (snapshot := snapshot_instead(log, offset, epoch)) is not None:
            answer.snapshot_id = FetchSnapshotId(snapshot.end_offset, snapshot.epoch)
        elif (end := diverging(log, offset, epoch)) is not None:
            answer.diverging_epoch = DivergingEpoch(end.epoch, end.end_offset)
        else:
            self._note(fetch)
            region = log.read(offset, min(fetch.max_bytes, ANSWER_BYTES_MAX))
            if region is not None:
                answer.records = (region,)
        return answer

    def _fetch_error(self, fetch: _MetadataFetch) -> ErrorCode:
        wanted = fetch.wanted
        lowest = min(wanted.fetch_offset, wanted.last_fetched_epoch, wanted.current_leader_epoch)
        if fetch.max_wait_ms < 0 or lowest < 0:
            return ErrorCode.INVALID_REQUEST
        return self._leader_error(wanted.current_leader_epoch)

    def _leader_error(self, epoch: int) -> ErrorCode:
        if not self._log.is_open:
            return ErrorCode.BROKER_NOT_AVAILABLE
        if epoch < self._log.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self._log.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE

    def _is_our_cluster(self, cluster_id: str | None) -> bool:
        return cluster_id in (None, self._log.cluster_id)

    # Waiting

    def _park(self, fetch: _MetadataFetch) -> asyncio.Future[FetchResponse]:
        while len(self._parked) >= PARKED_MAX:
            self._answer(next(iter(self._parked)))
        future: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
        self._parked[future] = fetch
        timer = future.get_loop().call_later(fetch.max_wait_ms / 1000, self._answer, future)

        def ended(_: asyncio.Future[FetchResponse]) -> None:
            timer.cancel()
            self._parked.pop(future, None)

        future.add_done_callback(ended)
        return future

    def _answer_parked(self) -> None:
        for future in tuple(self._parked):
            self._answer(future)

    def _answer(self, future: asyncio.Future[FetchResponse]) -> None:
        fetch = self._parked.pop(future, None)
        if fetch is not None and not future.done():
            future.set_result(fetch.response(self._fetched(fetch)))

    # Observers

    def _note(self, fetch: _MetadataFetch) -> None:
        if fetch.node_id < 0:
            return
        key = (fetch.node_id, fetch.wanted.replica_directory_id)
        if key not in self._observers and len(self._observers) >= OBSERVERS_MAX:
            self._forget_silent()
            if len(self._observers) >= OBSERVERS_MAX:
                return
        state = self._observers.setdefault(key, ObserverState(*key))
        state.fetched(fetch.wanted.fetch_offset, self._log.high_watermark, self._clock.wall_ms())

    def _forget_silent(self) -> None:
        oldest = self._clock.wall_ms() - OBSERVED_FOR_MS
        self._observers = {
            key: state for key, state in self._observers.items() if state.last_fetch_ms >= oldest
        }

    # FetchSnapshot

    def fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """Answer with a piece of a snapshot."""
        if not self._is_our_cluster(request.cluster_id):
            return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
        topic, wanted = request.topics[0], request.topics[0].partitions[0]
        if topic.name != METADATA_TOPIC or wanted.partition != METADATA_PARTITION:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer = FetchSnapshotPartitionResponse(wanted.partition, unknown)
        else:
            answer = self._snapshot_piece(wanted, request.max_bytes)
        return FetchSnapshotResponse(topics=[FetchSnapshotTopicResponse(topic.name, [answer])])

    def _snapshot_piece(
        self, wanted: FetchSnapshotPartition, max_bytes: int
    ) -> FetchSnapshotPartitionResponse:
        log = self._log
        answer = FetchSnapshotPartitionResponse(
            METADATA_PARTITION,
            snapshot_id=WireSnapshotId(wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch),
            current_leader=FetchSnapshotLeader(log.leader_id, log.leader_epoch),
            unaligned_records=b"",
        )
        answer.error_code = self._leader_error(wanted.current_leader_epoch)
        if answer.error_code:
            return answer
        whole = log.open_snapshot(
            SnapshotId(wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch)
        )
        if whole is None:
            answer.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= wanted.position < whole.size:
            answer.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        else:
            answer.size, answer.position = whole.size, wanted.position
            size = min(max(max_bytes, 0), ANSWER_BYTES_MAX, whole.size - wanted.position)
            answer.unaligned_records = (FileRegion(whole.file, wanted.position, size),)
        return answer


class _MetadataFetch(NamedTuple):
    """A fetch of the metadata log: what has to be kept of it while it waits."""

    topic: str
    topic_id: bytes
    wanted: FetchPartition
    node_id: int
    max_wait_ms: int
    max_bytes: int

    def response(self, answer: FetchablePartitionResponse) -> FetchResponse:
        """Return the answer to the whole request; the topic is named as it was asked for."""
        return FetchResponse(
            responses=[FetchableTopicResponse(self.topic, self.topic_id, [answer])]
        )


def _metadata_fetch(request: FetchRequest) -> _MetadataFetch | None:
    """Return what is asked of the metadata log; None if anything else is asked for."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic, wanted = request.topics[0], request.topics[0].partitions[0]
    is_metadata = topic.topic == METADATA_TOPIC or topic.topic_id == METADATA_TOPIC_ID
    if not is_metadata or wanted.partition != METADATA_PARTITION:
        return None
    node_id = max(request.replica_id, request.replica_state.replica_id)
    return _MetadataFetch(
        topic.topic, topic.topic_id, wanted, node_id, request.max_wait_ms, request.max_bytes
    )


def _is_telling(answer: FetchablePartitionResponse, wanted: FetchPartition) -> bool:
    """Tell whether an answer has something that its receiver does not know."""
    return bool(
        answer.error_code
        or answer.records
        or answer.diverging_epoch.epoch >= 0
        or answer.snapshot_id.end_offset >= 0
        or answer.high_watermark > wanted.high_watermark
    )


def _nothing() -> None:
    """Stand in for what was done already."""
