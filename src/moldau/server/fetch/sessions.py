"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what changes.

A session remembers where each partition's reader stands and what it was last told. It also
listens to its partitions: only those that have moved since the last answer are *ready*, so a
fetch over thousands of quiet partitions costs nothing. A fetch without a session is served by a
session that lives for one request.

A follower's session is privileged: it takes the slot of a consumer's when all are in use. So a
follower has only so many, or whoever poses as one would leave none to consumers. It waits for the
log's end, not for the high watermark. A newer high watermark alone does not end its wait
(KAFKA-9952), but the next answer tells it. That it was level with a quiet partition is told when
the partition grows again, so that a fetch need not look at it.

`ready` is ordered: a partition that gave data goes to the end, so that a busy one cannot starve
the others when answers are full.

This module decides; it does no input or output and knows no message classes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from moldau.base.clock import Clock, Random
from moldau.base.ids import NO_LEADER_EPOCH, NO_OFFSET, BrokerId, LeaderEpoch, Offset
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.replication.partition import Partition, Role
from moldau.server.fetch.wait_timer import WaitTimer

SESSIONLESS = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1

SESSIONS_PER_FOLLOWER = 64
"""Far more than a broker has fetchers for one leader (`num.replica.fetchers`)."""

PARTITIONS_OF_SESSIONS = 300_000
"""Partitions that all sessions together remember, give or take those of the requests at work: each
takes half a kilobyte, and a client may add a hundred thousand with every request of a session."""

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
        "log_start_offset",
        "max_bytes",
        "offset",
        "partition",
        "seen_end_offset",
        "seen_log_start",
        "seen_role",
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
        self.log_start_offset = NO_OFFSET
        """Where a follower's own log begins; -1 where it does not say, as consumers."""
        self.partition: Partition | None = None
        self.seen_role: Role | None = None
        self.seen_end_offset = NO_OFFSET
        self.seen_log_start = NO_OFFSET
        """What a follower's last look at the partition found."""
        self.told_high_watermark = Offset(-1)
        self.told_log_start = Offset(-1)

    def move(
        self,
        offset: Offset,
        max_bytes: int,
        leader_epoch: LeaderEpoch,
        last_fetched_epoch: LeaderEpoch,
        log_start_offset: Offset = NO_OFFSET,
    ) -> None:
        """Take over what a request says of this partition.

        A follower that has truncated its log, or that learnt of another leader epoch meanwhile, has
        made no use of what it was told last. A quiet partition must tell it again.
        """
        if offset < self.offset or leader_epoch != self.leader_epoch:
            self.told_high_watermark = self.told_log_start = Offset(-1)
        self.offset = offset
        self.max_bytes = max_bytes
        self.leader_epoch = leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset

    def seen(self, partition: Partition) -> None:
        """Remember what a follower's look finds, to tell later what has moved."""
        self.seen_role = partition.role
        self.seen_end_offset = partition.log_end_offset
        self.seen_log_start = partition.log_start_offset

    def has_seen(self, partition: Partition) -> bool:
        """Tell whether nothing but the high watermark can have moved since the last look."""
        return (
            partition.role is self.seen_role
            and partition.log_end_offset == self.seen_end_offset
            and partition.log_start_offset == self.seen_log_start
        )


class SessionRoom:
    """How many partitions the sessions of a broker remember."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = 0


class FetchSession:
    """The partitions of one consumer or follower, and which of them are worth a look."""

    __slots__ = (
        "_by_partition",
        "_is_closed",
        "_room",
        "_timer",
        "created",
        "epoch",
        "follower",
        "id",
        "last_used",
        "readers",
        "ready",
        "wake",
    )

    def __init__(
        self,
        session_id: int,
        now: float,
        follower: BrokerId | None = None,
        room: SessionRoom | None = None,
    ) -> None:
        self.id = session_id
        self._room = room or SessionRoom()
        self.follower = follower
        """The broker whose session it is; None for a consumer's."""
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
        self._timer: WaitTimer | None = None
        """Of the last request that was parked, for the next one."""

    @property
    def kept(self) -> bool:
        """Whether this session outlives its request."""
        return self.id != SESSIONLESS

    def take_timer(self) -> WaitTimer:
        """Return a timer for a request that is parked."""
        timer, self._timer = self._timer, None
        return WaitTimer() if timer is None else timer

    def put_timer_back(self, timer: WaitTimer) -> None:
        """Keep the timer of a request that waits no more."""
        timer.stop()
        if self._is_closed or self._timer is not None:
            timer.close()
        else:
            self._timer = timer

    def reader(self, topic: TopicKey, index: int) -> Reader:
        """Return the reader of a partition, made ready; a new one if there is none."""
        key = (topic, index)
        reader = self.readers.get(key)
        if reader is None:
            reader = self.readers[key] = Reader(topic, index)
            if not self._is_closed:
                self._room.used += 1
        self.ready[reader] = False
        return reader

    def forget(self, topic: TopicKey, index: int) -> None:
        """Stop reading a partition; one that was never read is fine."""
        reader = self.readers.pop((topic, index), None)
        if reader is not None:
            self.ready.pop(reader, None)
            self.detach(reader)
            if not self._is_closed:
                self._room.used -= 1

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
            if self.follower is not None:
                partition.watch_log_end(self)

    def detach(self, reader: Reader) -> None:
        """Listen no more to a reader's partition."""
        if reader.partition is not None:
            reader.partition.unwatch(self)
            self._by_partition.pop(reader.partition, None)
            reader.partition = None

    def moved(self, partition: Partition) -> None:
        """Note that a partition is worth a look, and wake a parked request.

        A follower's request goes on waiting if all that moved is the high watermark.
        """
        reader = self._by_partition.get(partition)
        if reader is not None and not self._is_closed:
            if self.follower is not None and self._was_level(reader):
                partition.note_level(self.follower, self.last_used)
            self.ready[reader] = False
            if self.wake is not None and (self.follower is None or not reader.has_seen(partition)):
                self.wake()

    def _was_level(self, reader: Reader) -> bool:
        """Tell whether a follower had everything at its last fetch, which passed this reader by."""
        return reader not in self.ready and reader.offset >= reader.seen_end_offset

    def close(self) -> None:
        """Let go of every partition, for good; of many a part in each turn of the loop."""
        if not self._is_closed:
            self._is_closed = True
            self._room.used -= len(self.readers)
            if self._timer is not None:
                self._timer.close()
        for _ in range(min(len(self._by_partition), RELEASED_PER_TURN)):
            self._by_partition.popitem()[0].unwatch(self)
        for _ in range(min(len(self.ready), RELEASED_PER_TURN)):
            self.ready.popitem()
        for _ in range(min(len(self.readers), RELEASED_PER_TURN)):
            self.readers.popitem()
        if self.readers or self._by_partition:
            asyncio.get_running_loop().call_soon(self.close)


class FetchSessions:
    """All sessions of a broker, bounded: the least recently used may have to go.

    A consumer's goes when it was quiet for a while, and at once where a follower needs its slot.
    Where all of them remember too many partitions, the largest goes.
    """

    def __init__(self, slots: int, eviction_s: float, clock: Clock, random: Random) -> None:
        self._slots = slots
        self._eviction_s = eviction_s
        self._clock = clock
        self._random = random
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._room = SessionRoom()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, session_id: int, epoch: int, follower: BrokerId | None = None) -> FetchSession:
        """Find or make the session a request means; ApiError tells the client to start over.

        A session belongs to the follower that began it, or to consumers.
        """
        now = self._clock.monotonic()
        while self._room.used > PARTITIONS_OF_SESSIONS:
            self._drop(max(self._sessions.values(), key=lambda one: len(one.readers)).id)
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != SESSIONLESS:
                self._drop(session_id)
            if epoch == INITIAL_EPOCH:
                return self._create(now, follower)
            return self.for_one_request(follower)
        session = self._sessions.get(session_id)
        if session is None or session.follower != follower:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {session_id}")
        if session.epoch != epoch:
            raise ApiError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} is at epoch {session.epoch}, not {epoch}",
            )
        self._use(session, now)
        return session

    def _use(self, session: FetchSession, now: float) -> None:
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        session.last_used = now
        self._sessions.move_to_end(session.id)

    def resume(
        self,
        session_id: int,
        epoch: int,
        follower: BrokerId | None,
        key: tuple[TopicKey, int],
        ready_max: int,
    ) -> FetchSession | None:
        """Go on with a session that has this partition, and few that are ready.

        None, with nothing done, if that is not so: then `open` decides.
        """
        session = self._sessions.get(session_id)
        if (
            session is None
            or session.follower != follower
            or session.epoch != epoch
            or key not in session.readers
            or len(session.ready) >= ready_max
            or self._room.used > PARTITIONS_OF_SESSIONS
        ):
            return None
        self._use(session, self._clock.monotonic())
        return session

    def for_one_request(self, follower: BrokerId | None = None) -> FetchSession:
        """Make a session that nobody can go on with, and that takes no slot."""
        return FetchSession(SESSIONLESS, self._clock.monotonic(), follower)

    def _create(self, now: float, follower: BrokerId | None) -> FetchSession:
        """Make a session, or one for this request alone when every slot is in use."""
        privileged = follower is not None
        if privileged:
            own = [one.id for one in self._sessions.values() if one.follower == follower]
            if len(own) >= SESSIONS_PER_FOLLOWER:
                self._drop(own[0])  # the one that was not used for longest
        if len(self._sessions) >= self._slots and not self._evict(now, privileged=privileged):
            return self.for_one_request(follower)
        session_id = SESSIONLESS
        while session_id == SESSIONLESS or session_id in self._sessions:
            session_id = self._random.randrange(EPOCH_MAX)
        session = FetchSession(session_id, now, follower, self._room)
        self._sessions[session_id] = session
        session.epoch = 1
        return session

    def _evict(self, now: float, *, privileged: bool) -> bool:
        """Drop the session used least recently if it has been quiet for long enough.

        A privileged one takes the slot of a consumer in any case.
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now - oldest.last_used < self._eviction_s:
            oldest = self._oldest_of_consumers() if privileged else None
        if oldest is None:
            return False
        self._drop(oldest.id)
        return True

    def _oldest_of_consumers(self) -> FetchSession | None:
        for session in self._sessions.values():
            if session.follower is None:
                return session  # found soon: followers' sessions are few
        return None

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()
