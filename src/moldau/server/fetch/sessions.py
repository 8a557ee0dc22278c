"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what changes.

A session remembers where each partition's reader stands and what it was last told. It also
listens to its partitions: only those that have moved since the last answer are *ready*, so a
fetch over thousands of quiet partitions costs nothing. A fetch without a session is served by a
session that lives for one request.

`ready` is ordered: a partition that gave data goes to the end, so that a busy one cannot starve
the others when answers are full.

This module decides; it does no input or output and knows no message classes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from moldau.base.clock import Clock, Random
from moldau.base.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.replication.partition import Partition

SESSIONLESS = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1

RELEASED_PER_TURN = 1_000
"""Partitions that a session that ends lets go in one turn of the loop: half a millisecond."""

TopicKey = str | bytes
"""A topic by name (Fetch up to 12) or by id (13 and later)."""


class Reader:
    """One reader's place in one partition."""

    __slots__ = (
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "max_bytes",
        "offset",
        "partition",
        "told_high_watermark",
        "told_log_start",
        "topic",
    )

    def __init__(self, topic: TopicKey, index: int) -> None:
        self.topic = topic
        self.index = index
        self.offset = Offset(0)
        self.max_bytes = 0
        self.leader_epoch = NO_LEADER_EPOCH
        """What the reader believes; -1 where it does not say."""
        self.last_fetched_epoch = NO_LEADER_EPOCH
        self.partition: Partition | None = None
        self.told_high_watermark = Offset(-1)
        self.told_log_start = Offset(-1)

    def move(
        self,
        offset: Offset,
        max_bytes: int,
        leader_epoch: LeaderEpoch,
        last_fetched_epoch: LeaderEpoch,
    ) -> None:
        """Take over what a request says of this partition."""
        self.offset = offset
        self.max_bytes = max_bytes
        self.leader_epoch = leader_epoch
        self.last_fetched_epoch = last_fetched_epoch


class FetchSession:
    """The partitions of one consumer connection, and which of them are worth a look."""

    __slots__ = (
        "_by_partition",
        "_is_closed",
        "created",
        "epoch",
        "id",
        "last_used",
        "readers",
        "ready",
        "wake",
    )

    def __init__(self, session_id: int, now: float) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH
        self.created = now
        self.last_used = now
        self.readers: dict[tuple[TopicKey, int], Reader] = {}
        self.ready: OrderedDict[Reader, bool] = OrderedDict()
        """Readers worth a look, and whether they were read since their partition moved last."""
        self._by_partition: dict[Partition, Reader] = {}
        self._is_closed = False
        self.wake: Callable[[], None] | None = None
        """Called when a partition becomes ready; set while a request is parked."""

    @property
    def kept(self) -> bool:
        """Whether this session outlives its request."""
        return self.id != SESSIONLESS

    def reader(self, topic: TopicKey, index: int) -> Reader:
        """Return the reader of a partition, made ready; a new one if there is none."""
        key = (topic, index)
        reader = self.readers.get(key)
        if reader is None:
            reader = self.readers[key] = Reader(topic, index)
        self.ready[reader] = False
        return reader

    def forget(self, topic: TopicKey, index: int) -> None:
        """Stop reading a partition; one that was never read is fine."""
        reader = self.readers.pop((topic, index), None)
        if reader is not None:
            self.ready.pop(reader, None)
            self.detach(reader)

    def attach(self, reader: Reader, partition: Partition) -> None:
        """Listen to the partition a reader has been found to mean, unless the session has ended."""
        if self._is_closed:
            reader.partition = partition
            return
        if reader.partition is not partition:
            self.detach(reader)
            reader.partition = partition
        if partition not in self._by_partition:
            self._by_partition[partition] = reader
            partition.watch(self)

    def detach(self, reader: Reader) -> None:
        """Listen no more to a reader's partition."""
        if reader.partition is not None:
            reader.partition.unwatch(self)
            self._by_partition.pop(reader.partition, None)
            reader.partition = None

    def moved(self, partition: Partition) -> None:
        """Note that a partition is worth a look, and wake a parked request."""
        reader = self._by_partition.get(partition)
        if reader is not None and not self._is_closed:
            self.ready[reader] = False
            if self.wake is not None:
                self.wake()

    def close(self) -> None:
        """Let go of every partition, for good; of many a part in each turn of the loop."""
        self._is_closed = True
        for _ in range(min(len(self._by_partition), RELEASED_PER_TURN)):
            self._by_partition.popitem()[0].unwatch(self)
        for _ in range(min(len(self.ready), RELEASED_PER_TURN)):
            self.ready.popitem()
        for _ in range(min(len(self.readers), RELEASED_PER_TURN)):
            self.readers.popitem()
        if self.readers or self._by_partition:
            asyncio.get_running_loop().call_soon(self.close)


class FetchSessions:
    """All sessions of a broker, bounded: the least recently used may have to go."""

    def __init__(self, slots: int, eviction_s: float, clock: Clock, random: Random) -> None:
        self._slots = slots
        self._eviction_s = eviction_s
        self._clock = clock
        self._random = random
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, session_id: int, epoch: int) -> FetchSession:
        """Find or make the session a request means; ApiError tells the client to start over."""
        now = self._clock.monotonic()
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != SESSIONLESS:
                self._drop(session_id)
            return self._create(now) if epoch == INITIAL_EPOCH else FetchSession(SESSIONLESS, now)
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {session_id}")
        if session.epoch != epoch:
            raise ApiError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} is at epoch {session.epoch}, not {epoch}",
            )
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.last_used = now
        self._sessions.move_to_end(session_id)
        return session

    def _create(self, now: float) -> FetchSession:
        """Make a session, or one for this request alone when every slot is in use."""
        if len(self._sessions) >= self._slots and not self._evict(now):
            return FetchSession(SESSIONLESS, now)
        session_id = SESSIONLESS
        while session_id == SESSIONLESS or session_id in self._sessions:
            session_id = self._random.randrange(EPOCH_MAX)
        session = self._sessions[session_id] = FetchSession(session_id, now)
        session.epoch = 1
        return session

    def _evict(self, now: float) -> bool:
        """Drop the session used least recently if it has been quiet for long enough."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now - oldest.last_used < self._eviction_s:
            return False
        self._drop(oldest.id)
        return True

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()
