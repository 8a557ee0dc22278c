"""Reading for one fetch request: which partitions, how much of each, and when it is enough.

A fetch looks at the readers of its session that are ready, reads file regions (no bytes yet) up
to its limits, and is *enough* when it found the minimum, an error, or a diverging log. Otherwise
it is parked: its session tells when a partition moves, a timer when time is up.

A follower reads to the log's end and waits for it to move. The first look of its request tells
each partition how far the follower is; later looks of the same request have nothing new to tell.

Limits, as Kafka has them: the first batch found is given whole even beyond every limit, so that a
large one cannot block its reader; after it, limits are bytes, and the last batch may be cut. But a
partition of whose first batch only a piece would fit is held back: a client that is given a piece
and nothing else takes the record for too large. It is first in a later answer of the session.

A client may ask for a hundred thousand partitions, so all of this is work in slices (`slices`). A
fetch of few partitions never pauses. One that does listens to its partitions from the first look
on, and one that is parked then looks again at once: what came during a pause is not overlooked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords, StorageError
from moldau.base.files import FileRegion
from moldau.base.ids import NO_LEADER_EPOCH, BrokerId, TopicId
from moldau.base.prompt_future import PromptFuture
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.replication.partition import Partition, ReadLimit
from moldau.replication.partitions import Partitions
from moldau.replication.throttle import ReplicationThrottle
from moldau.server.fetch.sessions import FetchSession, Reader
from moldau.server.network.slices import Sliced
from moldau.server.upkeep.index_repair import RebuildIndex
from moldau.storage.epochs import EpochEnd
from moldau.storage.indexes import AbortedTransaction
from moldau.storage.transaction_index import DamagedTransactionIndex

UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Errors about what is not there; Kafka's answer then lists no aborted transactions, not null."""


_NO_ERROR: Final = ErrorCode.NONE
"""As a global, because Python 3.11 looks up a member of an enum by a call."""

READERS_PER_STEP: Final = 32
"""Partitions that are read between two pauses: half a millisecond or so."""


class FollowerFetch(NamedTuple):
    """The follower that sent a request, as the request names it."""

    broker_id: BrokerId
    broker_epoch: int
    """-1 before Fetch 15, where followers did not tell it (KIP-903)."""


class Fetched(NamedTuple):
    """What one partition has for its reader."""

    reader: Reader
    error: ErrorCode = _NO_ERROR
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    regions: tuple[FileRegion, ...] = ()
    size: int = 0
    aborted: tuple[AbortedTransaction, ...] | None = None
    diverging: EpochEnd | None = None
    held_back: bool = False
    """There is something to read, but not in this answer: it has no room for one whole batch, or
    the index of aborted transactions is being made anew."""

    @property
    def news(self) -> bool:
        """Whether a reader in a session has to be told."""
        reader = self.reader
        return bool(
            self.size
            or self.error
            or self.diverging
            or self.high_watermark != reader.told_high_watermark
            or self.log_start_offset != reader.told_log_start
        )


class Fetch:
    """One request to read."""

    __slots__ = (
        "_committed_only",
        "_follower",
        "_hard_limit",
        "_max_bytes",
        "_min_bytes",
        "_partitions",
        "_read_limit",
        "_rebuild_index",
        "_refusal",
        "_storage_failed",
        "_tells_offsets",
        "_throttle",
        "is_follower",
        "pauses",
        "session",
        "whole",
    )

    def __init__(
        self,
        session: FetchSession,
        partitions: Partitions,
        *,
        min_bytes: int,
        max_bytes: int,
        committed_only: bool,
        follower: FollowerFetch | None,
        hard_limit: bool,
        whole: bool,
        storage_failed: Callable[[StorageError], None],
        rebuild_index: RebuildIndex,
        refusal: ErrorCode = _NO_ERROR,
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        """Prepare a fetch; a `refusal` is what every partition answers, with nothing read."""
        self.session = session
        self.whole = whole
        """Whether the answer names every partition, as the first of a session must."""
        self.pauses = False
        """Whether it is too large for one turn of the loop."""
        self._partitions = partitions
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._committed_only = committed_only and follower is None
        self._read_limit = ReadLimit.HIGH_WATERMARK
        if follower is not None:
            self._read_limit = ReadLimit.LOG_END
        elif committed_only:
            self._read_limit = ReadLimit.LAST_STABLE_OFFSET
        self.is_follower = follower is not None
        self._follower = follower
        self._tells_offsets = follower is not None
        """Whether this is the first look of a follower's request. What it asked for is old news
        when it is looked at again later, so only the first look counts."""
        self._refusal = refusal
        self._hard_limit = hard_limit
        self._storage_failed = storage_failed
        self._rebuild_index = rebuild_index
        self._throttle = throttle

    def look(self) -> Sliced[tuple[list[Fetched], bool]]:
        """Read what is ready now; also say whether that is enough to answer."""
        session = self.session
        found = []
        size = 0
        failed = False
        ready = tuple(session.ready)
        self.pauses = self.pauses or len(ready) > READERS_PER_STEP
        for count, reader in enumerate(ready, 1):
            if not count % READERS_PER_STEP:
                yield
            left = self._max_bytes - size
            if left <= 0 and size and not self._tells_offsets:
                break
            fetched = self._read(reader, left, first=not size)
            size += fetched.size
            failed = failed or fetched.error is not _NO_ERROR or fetched.diverging is not None
            if fetched.news:
                found.append(fetched)
                if reader in session.ready:
                    session.ready[reader] = True
            elif not fetched.held_back and self._is_settled(reader):
                session.ready.pop(reader, None)
        self._tells_offsets = False
        return found, failed or size >= self._min_bytes

    def _is_settled(self, reader: Reader) -> bool:
        """Tell whether a reader without news needs no look before its partition moves.

        A follower that is not in sync does: each of its fetches may be the one that lets it in.
        """
        follower, partition = self._follower, reader.partition
        return follower is None or partition is None or follower.broker_id in partition.role.isr

    def finish(self, found: list[Fetched]) -> Sliced[list[Fetched]]:
        """Note what the reader is about to be told, and return all that the answer names."""
        session = self.session
        by_reader = {}
        for count, fetched in enumerate(found, 1):
            if not count % READERS_PER_STEP:
                yield
            reader = fetched.reader
            by_reader[reader] = fetched
            reader.told_high_watermark = fetched.high_watermark  # type: ignore[assignment]
            reader.told_log_start = fetched.log_start_offset  # type: ignore[assignment]
            if fetched.size:
                if reader in session.ready:
                    session.ready.move_to_end(reader)
            elif fetched.error or fetched.held_back or not self._is_settled(reader):
                continue
            elif session.ready.get(reader):
                # Not one that has moved between two steps: its records are still to be read.
                session.ready.pop(reader)
        if not self.whole:
            return found
        named = []
        for count, reader in enumerate(tuple(session.readers.values()), 1):
            if not count % READERS_PER_STEP:
                yield
            named.append(by_reader.get(reader) or self._read(reader, 0, first=False))
        return named

    def listen(self) -> None:
        """Begin to hear of the partitions.

        Sessions that are kept do from the start, and so does a fetch that pauses.
        """
        if self._listens:
            return
        for reader in self.session.readers.values():
            if reader.partition is not None:
                self.session.attach(reader, reader.partition)

    @property
    def _listens(self) -> bool:
        return self.session.kept or self.pauses

    def _read(self, reader: Reader, left: int, *, first: bool) -> Fetched:
        partition = self._led(reader)
        if isinstance(partition, ErrorCode):
            return Fetched(reader, partition, aborted=() if partition in UNKNOWN else None)
        try:
            diverging = self._check_position(reader, partition)
        except ApiError as error:
            # Like any error, and as in Kafka, it tells nothing of the log: -1 for every figure.
            return Fetched(reader, error.code)
        high_watermark = partition.high_watermark
        stable = partition.last_stable_offset
        figures = (high_watermark, stable, partition.log_start_offset)
        if diverging is not None:
            return Fetched(reader, _NO_ERROR, *figures, diverging=diverging)
        end = stable if self._committed_only else high_watermark
        is_throttled = False
        if self._follower is not None:
            end = partition.log_end_offset
            reader.seen(partition)
            is_throttled = self._is_throttled(self._follower, partition)
        limit = max(0, min(left, reader.max_bytes))
        # A hard limit is the client's: one of ours does not keep it from a large first batch.
        whole_batch = first and (not self._hard_limit or limit < reader.max_bytes)
        if reader.offset >= end or not (limit or whole_batch) or is_throttled:
            return Fetched(
                reader,
                _NO_ERROR,
                *figures,
                aborted=() if self._committed_only else None,
                # A follower's offset is told also where the answer has no room for it.
                held_back=self._follower is not None and reader.offset < end,
            )
        try:
            read_limit = self._read_limit
            read = partition.read(reader.offset, limit, read_limit, at_least_one=whole_batch)
            if self._hard_limit and read.size > reader.max_bytes:
                read = partition.read(reader.offset, limit, read_limit, at_least_one=False)
            committed = self._committed_only
            aborted = partition.aborted_transactions(reader.offset, read) if committed else None
        except (StorageError, CorruptRecords) as failure:
            return self._unread(reader, partition, figures, failure)
        held_back = read.first_batch_cut and not self._hard_limit
        regions, size = ((), 0) if held_back else (read.regions, read.size)
        return Fetched(reader, _NO_ERROR, *figures, regions, size, aborted, held_back=held_back)

    def _is_throttled(self, follower: FollowerFetch, partition: Partition) -> bool:
        """Tell whether a follower gets nothing now: it is not in sync, and others took too much."""
        throttle = self._throttle
        return (
            throttle is not None
            and follower.broker_id not in partition.role.isr
            and throttle.applies_to(partition.key, partition.config)
            and throttle.wait_s() > 0
        )

    def _unread(
        self,
        reader: Reader,
        partition: Partition,
        figures: tuple[int, int, int],
        failure: StorageError | CorruptRecords,
    ) -> Fetched:
        """Tell a reader what failed, or let it wait until a damaged index is made anew."""
        if isinstance(failure, DamagedTransactionIndex) and self._rebuild_index(partition, failure):
            # Whatever was read goes unsent: without the index it would show what was aborted.
            return Fetched(reader, _NO_ERROR, *figures, aborted=(), held_back=True)
        return Fetched(reader, self._failed(failure))

    def _failed(self, failure: StorageError | CorruptRecords) -> ErrorCode:
        """Say what a reader is told of a disk that fails, or of bytes on it that have rotted."""
        if isinstance(failure, CorruptRecords):
            return ErrorCode.CORRUPT_MESSAGE
        self._storage_failed(failure)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _led(self, reader: Reader) -> Partition | ErrorCode:
        """Find the partition a reader means, unless this broker may not serve it to that reader."""
        if self._refusal is not _NO_ERROR:
            return self._refusal
        partition = self._find(reader)
        if isinstance(partition, ErrorCode):
            return partition
        error = partition.fence(reader.leader_epoch)
        if error is _NO_ERROR and self._follower is not None:
            error = _check_replica(self._follower.broker_id, reader, partition)
        return partition if error is _NO_ERROR else error

    def _check_position(self, reader: Reader, partition: Partition) -> EpochEnd | None:
        """Say where a reader's log parts from this one, if it does; note how far a follower is.

        ApiError if nothing can be read where the reader stands.
        """
        diverging = partition.diverging(reader.last_fetched_epoch, reader.offset)
        if diverging is not None:
            return diverging
        if not partition.log_start_offset <= reader.offset <= partition.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if self._tells_offsets:
            assert self._follower is not None
            partition.update_follower(
                self._follower.broker_id,
                reader.offset,
                reader.leader_epoch,
                self.session.last_used,
                log_start_offset=reader.log_start_offset,
                broker_epoch=self._follower.broker_epoch,
            )
        return None

    def _find(self, reader: Reader) -> Partition | ErrorCode:
        topic = reader.topic
        if isinstance(topic, bytes):
            name = self._partitions.topic_name(TopicId(topic))
            if name is None:
                self.session.detach(reader)
                return ErrorCode.UNKNOWN_TOPIC_ID
            topic = name
        partition = self._partitions.get(topic, reader.index)
        if partition is None:
            self.session.detach(reader)
            return self._partitions.missing(topic, reader.index)
        if self._listens:
            self.session.attach(reader, partition)
        else:
            reader.partition = partition
        return partition


def _check_replica(broker_id: BrokerId, reader: Reader, partition: Partition) -> ErrorCode:
    """Say why a broker is not served, if it is no replica, also after it was one.

    It may know of a newer assignment than this leader; without an epoch nobody can tell.
    """
    if broker_id in partition.role.replicas:
        return _NO_ERROR
    if reader.leader_epoch == NO_LEADER_EPOCH:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def _next_turn(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(callback)


class ParkedFetches:
    """How many fetches wait, for those who watch the broker, and how one is looked at again."""

    __slots__ = ("call_soon", "count")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object] = _next_turn) -> None:
        """`call_soon` calls back when everything that has arrived is handled."""
        self.call_soon = call_soon
        self.count = 0


class ParkedFetch:
    """A fetch that waits for more, for as long as its client allows.

    It looks when it is woken and when time is up: once for everything that happens in one turn of
    the loop, and a step in each turn where there is much to look at.
    """

    __slots__ = (
        "_fetch",
        "_is_looking",
        "_is_time_up",
        "_is_woken",
        "_look",
        "_loop",
        "_parked",
        "_respond",
        "_timer",
        "future",
    )

    def __init__(
        self,
        fetch: Fetch,
        wait_s: float,
        respond: Callable[[list[Fetched]], Sliced[object]],
        parked: ParkedFetches,
    ) -> None:
        self._fetch = fetch
        self._parked = parked
        parked.count += 1
        self._respond = respond
        self._look: Sliced[object] | None = None
        self._is_looking = False
        self._is_woken = False
        self._is_time_up = False
        self._loop = asyncio.get_running_loop()
        self.future: PromptFuture[object] = PromptFuture()
        self.future.on_cancel = self._end
        fetch.listen()
        fetch.session.wake = self._wake
        self._timer = fetch.session.take_timer()
        self._timer.start(wait_s, self._time_up)
        if fetch.pauses:
            self._wake()

    def _wake(self) -> None:
        """Look once after everything that happens in this turn of the loop."""
        self._is_woken = True
        if not self._is_looking:
            self._is_looking = True
            self._parked.call_soon(self._begin)

    def _time_up(self) -> None:
        self._is_time_up = True
        if not self._is_looking:
            self._is_looking = True
            self._begin()

    def _begin(self) -> None:
        self._is_woken = False
        self._look = self._looked()
        self._step()

    def _looked(self) -> Sliced[object]:
        """Look, and return a response if there is enough for one, or no more time."""
        found, enough = yield from self._fetch.look()
        if enough or self._is_time_up:
            return (yield from self._respond(found))
        return None

    def _step(self) -> None:
        """Go on with a look; a bug on the way is the request's, not the loop's."""
        if self.future.done():
            return
        assert self._look is not None
        try:
            next(self._look)
        except StopIteration as end:
            self._end_look(end.value)
        except Exception as error:  # noqa: BLE001 - whoever holds the future raises it
            self._end()
            self.future.set_exception(error)
        else:
            self._loop.call_soon(self._step)

    def _end_look(self, response: object) -> None:
        self._is_looking = False
        if response is not None:
            # Before the answer: the session's next fetch may be handled right behind it.
            self._end()
            self.future.set_result(response)
        elif self._is_woken or self._is_time_up:
            self._wake()

    def _end(self) -> None:
        """Wait for nothing any more: the future is about to be done, or was cancelled."""
        session = self._fetch.session
        self._parked.count -= 1
        if session.wake == self._wake:
            # Not that of a later request, which came on another connection.
            session.wake = None
        session.put_timer_back(self._timer)
        if not session.kept:
            session.close()


def by_topic(fetched: list[Fetched]) -> Iterator[tuple[str | bytes, list[Fetched]]]:
    """Group neighbours of one topic, keeping the order in which partitions were read."""
    group: list[Fetched] = []
    for one in fetched:
        if group and group[0].reader.topic != one.reader.topic:
            yield group[0].reader.topic, group
            group = []
        group.append(one)
    if group:
        yield group[0].reader.topic, group
