"""Which partitions a follower asks a leader for, and from where: the state of one fetcher.

The leader keeps a fetch session (KIP-227): it remembers every partition it was asked for. So a
request names only partitions that are new, have moved, or are wanted no more, and a quiet one costs
nothing. `move` notes where a replica stands now; `next_request` says what the leader must be told.

    add -> asked for -> move ... -> remove
            |    ^
            rest |      after an error: the leader is told to forget it until it is due
            fail        until the cluster's metadata changes (`fetchers` adds it again)

An answer is about the positions that the leader knew when it was asked. A replica may have been
truncated or given to another leader since. `asked` returns the position an answer belongs to, and
None if it has changed (KAFKA-7786).

Pure: it is told the time.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, NamedTuple

from moldau.base.ids import LeaderEpoch, Offset, PartitionKey, TopicId
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from moldau.protocol.single_fetch import SingleFetchRequest

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
EPOCH_MAX: Final = 2**31 - 1

PARTITIONS_PER_REQUEST: Final = 1_000
"""More are named in the requests that follow: a request is made in one step of the loop."""

FollowedKey = tuple[TopicId, int]
"""A partition by its topic's id: a topic that was created again is another one."""


class ReplicaPosition(NamedTuple):
    """Where a replica goes on, as its leader must know it."""

    key: PartitionKey
    leader_epoch: LeaderEpoch
    offset: Offset
    last_epoch: LeaderEpoch
    """Of the last record that the replica has; the leader compares it with its own log."""
    log_start_offset: Offset


class PlannedFetch(NamedTuple):
    """What to write into the next request."""

    session_id: int
    session_epoch: int
    send: dict[FollowedKey, ReplicaPosition]
    forget: list[FollowedKey]
    is_complete: bool
    """Whether the leader knows of all partitions then; else it should not wait for records."""

    @property
    def names_one(self) -> bool:
        """Whether it goes on with a session, in which one partition has moved."""
        return (
            len(self.send) == 1
            and not self.forget
            and self.is_complete
            and self.session_epoch != FIRST_EPOCH
        )


class FetchPlan:
    """The partitions of one fetcher, and the leader's session with it."""

    def __init__(self) -> None:
        self._positions: dict[FollowedKey, ReplicaPosition] = {}
        self._known: dict[FollowedKey, ReplicaPosition | None] = {}
        """What the leader's session holds, once the request that is on its way has arrived; None
        for a position of which the leader must be told again."""
        self._changed: dict[FollowedKey, None] = {}
        """Those whose position may differ from what the leader knows, in the order of change."""
        self._resting: dict[FollowedKey, float] = {}
        self._due: list[tuple[float, FollowedKey]] = []
        """A heap of (until, key); entries that do not match `_resting` are void."""
        self._session_id = NO_SESSION
        self._session_epoch = FIRST_EPOCH
        self.failure_count = 0
        """How many answers in a row ended the session."""

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, key: FollowedKey) -> bool:
        return key in self._positions

    # Partitions

    def add(self, key: FollowedKey, position: ReplicaPosition) -> None:
        """Ask for a partition from now on, also if it was asked for at the same position before.

        The answer to that may have been dropped, and the leader tells of a quiet partition once.
        """
        self._resting.pop(key, None)
        if key in self._known:
            self._known[key] = None
        self.move(key, position)

    def move(self, key: FollowedKey, position: ReplicaPosition) -> None:
        """Note where a replica stands now."""
        self._positions[key] = position
        self._changed[key] = None

    def remove(self, key: FollowedKey) -> None:
        """Ask for a partition no more."""
        if self._positions.pop(key, None) is not None:
            self._resting.pop(key, None)
            self._changed[key] = None

    def rest(self, key: FollowedKey, until_s: float) -> None:
        """Leave a partition out until then."""
        if key in self._positions:
            self._resting[key] = until_s
            heappush(self._due, (until_s, key))
            self._changed[key] = None

    def next_due_s(self) -> float | None:
        """Say when the first partition that rests is due; None if none rests."""
        while self._due and self._resting.get(self._due[0][1]) != self._due[0][0]:
            heappop(self._due)
        return self._due[0][0] if self._due else None

    def asked(self, key: FollowedKey) -> ReplicaPosition | None:
        """Return the position that an answer is about; None if the replica stands elsewhere now."""
        position = self._known.get(key)
        if position is None or key in self._resting or self._positions.get(key) != position:
            return None
        return position

    # Requests

    def next_request(self, now_s: float) -> PlannedFetch | None:
        """Decide what to tell the leader next; None while there is nothing to ask for."""
        while (due_s := self.next_due_s()) is not None and due_s <= now_s:
            key = heappop(self._due)[1]
            del self._resting[key]
            self._changed[key] = None
        if len(self._positions) == len(self._resting):
            return None
        if self._session_epoch == FIRST_EPOCH:
            return self._full_request()
        return self._incremental_request()

    def _full_request(self) -> PlannedFetch:
        """Name every partition, or as many as one request holds."""
        active = [key for key in self._positions if key not in self._resting]
        taken = active[:PARTITIONS_PER_REQUEST]
        if len(taken) < len(active):
            for key in taken:  # behind the others, should the leader keep no session
                self._positions[key] = self._positions.pop(key)
        send = {key: self._positions[key] for key in taken}
        self._known = {**send}
        self._changed = dict.fromkeys(active[PARTITIONS_PER_REQUEST:])
        is_complete = not self._changed
        return PlannedFetch(self._session_id, FIRST_EPOCH, send, [], is_complete)

    def _incremental_request(self) -> PlannedFetch:
        """Name what has changed since the last request."""
        send: dict[FollowedKey, ReplicaPosition] = {}
        forget: list[FollowedKey] = []
        for key in tuple(self._changed):
            if len(send) + len(forget) == PARTITIONS_PER_REQUEST:
                break
            del self._changed[key]
            position = None if key in self._resting else self._positions.get(key)
            if position is None:
                if key in self._known:
                    del self._known[key]
                    forget.append(key)
            elif self._known.get(key) != position:
                self._known[key] = send[key] = position
        complete = not self._changed
        return PlannedFetch(self._session_id, self._session_epoch, send, forget, complete)

    def next_moved(self, now_s: float) -> PlannedFetch | None:
        """Decide the same where the next request of the session names one partition that moved.

        None, with nothing done, where it does not.
        """
        if len(self._changed) != 1 or self._session_epoch == FIRST_EPOCH:
            return None
        due_s = self.next_due_s()
        if due_s is not None and due_s <= now_s:
            return None
        (key,) = self._changed
        position = None if key in self._resting else self._positions.get(key)
        if position is None or self._known.get(key) == position:
            return None
        self._changed.clear()
        self._known[key] = position
        return PlannedFetch(self._session_id, self._session_epoch, {key: position}, [], True)

    # Answers

    def is_session(self, session_id: int) -> bool:
        """Tell whether an answer belongs to the session that the last request went on with."""
        return self._session_epoch != FIRST_EPOCH and session_id == self._session_id

    def answered(self, error: ErrorCode, session_id: int) -> bool:
        """Take note of an answer; False if the leader keeps another session than we think.

        After False nothing of the answer may be used, and the next request names everything.
        """
        is_full = self._session_epoch == FIRST_EPOCH
        if error is not ErrorCode.NONE or not (is_full or session_id == self._session_id):
            self.failure_count += 1
            if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            self.lost()
            return False
        self.failure_count = 0
        if is_full:
            self._session_id = session_id
            self._session_epoch = FIRST_EPOCH if session_id == NO_SESSION else 1
        else:
            self._session_epoch = 1 if self._session_epoch == EPOCH_MAX else self._session_epoch + 1
        return True

    def lost(self) -> None:
        """Begin the session again: whether the leader saw the last request is unknown.

        The old id goes along, so that a leader that still has the session lets it go.
        """
        self._session_epoch = FIRST_EPOCH
        self._known = {}


class FetchLimits(NamedTuple):
    """How long the leader may wait with an answer, and what it may put into it."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


def moved_request(
    planned: PlannedFetch, limits: FetchLimits, broker_id: int, broker_epoch: int
) -> SingleFetchRequest:
    """Make the request of a follower that names one partition."""
    (((topic_id, index), position),) = planned.send.items()
    return SingleFetchRequest(
        broker_id,
        broker_epoch,
        limits.max_wait_ms,
        limits.min_bytes,
        limits.max_bytes,
        planned.session_id,
        planned.session_epoch,
        topic_id,
        index,
        position.leader_epoch,
        position.offset,
        position.last_epoch,
        position.log_start_offset,
        limits.partition_max_bytes,
    )


def fetch_request(
    planned: PlannedFetch, limits: FetchLimits, broker_id: int, broker_epoch: int
) -> FetchRequest:
    """Write the request of a follower."""
    topics: dict[TopicId, FetchTopic] = {}
    for (topic_id, index), position in planned.send.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchTopic(position.key.topic, topic_id, [])
        topic.partitions.append(
            FetchPartition(
                index,
                position.leader_epoch,
                position.offset,
                position.last_epoch,
                position.log_start_offset,
                limits.partition_max_bytes,
            )
        )
    forgotten: dict[TopicId, ForgottenTopic] = {}
    for topic_id, index in planned.forget:
        one = forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[]))
        one.partitions.append(index)
    return FetchRequest(
        replica_id=broker_id,
        replica_state=FetchReplicaState(broker_id, broker_epoch),
        max_wait_ms=limits.max_wait_ms if planned.is_complete else 0,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        session_id=planned.session_id,
        session_epoch=planned.session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=list(forgotten.values()),
    )
