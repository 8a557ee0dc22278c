"""One fetcher of a follower: it copies the partitions that one leader leads, request by request.

There is one request on its way at a time. It names what has changed (`plan`), waits at the leader
until a log grows, and its answer is appended before the next one is sent: the offsets in that one
tell the leader what this broker has.

Records go from the answer into the segment without another copy. All of it is done in short
steps, because an answer may have ten megabytes for a thousand partitions. After each step the role
of the partition is looked at again.

An error of one partition lets that one rest, or fails it until its metadata changes; the others go
on. A connection that fails lets all of them rest.

While throttled replicas have fetched more than `follower.replication.throttled.rate` allows, those
that are behind are left out of the requests (`replication.throttle`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords, DiskFull, StorageError
from moldau.base.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicId
from moldau.engine.broker_errors import UnsupportedVersion
from moldau.engine.connection import ClientConnection, LentAnswer
from moldau.engine.errors import ClientClosed, ClientError, ConnectionLost
from moldau.engine.handshake import Expected
from moldau.engine.link import Link
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchRequest,
    FetchResponse,
)
from moldau.protocol.single_fetch import (
    FIRST_VERSION,
    LAST_VERSION,
    SingleFetchAnswer,
    SingleFetchRequest,
)
from moldau.replication.fetching.answers import (
    AT_ONCE_BYTES,
    EXPECTED_ERRORS,
    LeaderOffsets,
    Meaning,
    TruncateTo,
    meaning_of,
    out_of_range,
    pieces,
    rest_after,
)
from moldau.replication.fetching.followed import Followed
from moldau.replication.fetching.offset_requests import ask_offsets
from moldau.replication.fetching.plan import (
    FetchLimits,
    FetchPlan,
    FollowedKey,
    PlannedFetch,
    ReplicaPosition,
    fetch_request,
    moved_request,
)
from moldau.replication.fetching.ports import FollowerContext
from moldau.replication.fetching.repeated_fetch import RepeatedFetch
from moldau.replication.fetching.step import Step
from moldau.replication.partition import Partition
from moldau.storage.epochs import EpochEnd
from moldau.storage.log_truncation import BlockingSteps

logger = logging.getLogger(__name__)

TOPIC_IDS_FROM: Final = 13
"""The first version of Fetch that names topics by their ids, by which the plan goes."""

NEVER_IDLE_MS: Final = 2**31 - 1
"""A fetcher that waits for a partition to be due keeps its connection."""


class _Answer(NamedTuple):
    """What a leader says of one partition, and which position it is about."""

    followed: Followed
    asked: ReplicaPosition
    told: FetchablePartitionResponse


class Fetcher:
    """Copies partitions of one leader. Owned by the event loop's thread."""

    def __init__(self, leader: BrokerId, number: int, context: FollowerContext) -> None:
        self.leader = leader
        self._context = context
        self._clock = context.ports.clock
        settings = context.settings
        self._backoff_s = settings.replica_fetch_backoff_ms / 1000
        self._limits = FetchLimits(
            settings.replica_fetch_wait_max_ms,
            settings.replica_fetch_min_bytes,
            settings.replica_fetch_response_max_bytes,
            settings.replica_fetch_max_bytes,
        )
        self._name = f"broker-{context.broker_id}-fetcher-{number}"
        self._plan = FetchPlan()
        self._followed: dict[FollowedKey, Followed] = {}
        self._link: Link | None = None
        self._broker_epoch = context.broker_epoch()
        """The epoch of this broker that the leader was told of all partitions of the session."""
        self._wanted = asyncio.Event()
        """Set when a partition was added."""
        self._throttled: dict[FollowedKey, None] = {}
        """Partitions that rest because throttled replicas have fetched too much."""
        self._throttled_until_s = 0.0
        """When the first of them is due."""
        self._is_reachable = True
        self.bytes_in = 0
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    # Partitions

    def __len__(self) -> int:
        return len(self._followed)

    def __iter__(self) -> Iterator[Followed]:
        return iter(self._followed.values())

    def get(self, key: FollowedKey) -> Followed | None:
        """Find a partition of this fetcher."""
        return self._followed.get(key)

    def add(self, replica: Partition) -> None:
        """Copy a partition from where it ends now, in the epoch of its role."""
        followed = Followed(replica)
        self._followed[followed.key] = followed
        self._plan.add(followed.key, followed.position())
        self._wanted.set()

    def remove(self, key: FollowedKey) -> None:
        """Copy a partition no more; what arrives of it is dropped."""
        if self._followed.pop(key, None) is not None:
            self._throttled.pop(key, None)
            self._plan.remove(key)

    async def close(self) -> None:
        """End the loop and the connection."""
        self._task.cancel()
        self._drop_link()
        with suppress(asyncio.CancelledError):
            await self._task
        if self._link is not None:
            await self._link.ended()

    @property
    def waiting_since(self) -> float | None:
        """Since when, by the loop's clock, the leader owes an answer; None if it owes none."""
        connection = None if self._link is None else self._link.connection
        return None if connection is None else connection.waiting_since

    # The loop

    async def _run(self) -> None:
        while True:
            self._wanted.clear()
            self._follow_broker_epoch()
            self._go_on_throttled()
            planned = self._plan.next_request(self._clock.monotonic())
            # Not in a handler of exceptions: see `tests/unit/test_compiled_modules.py`.
            if not await self._is_done(planned):
                await self._rest()

    async def _is_done(self, planned: PlannedFetch | None) -> bool:
        """Do what comes next: fetch, or wait for something to fetch; False if that failed."""
        try:
            if planned is None:
                await self._wait_for_partition()
            else:
                await self._fetch(planned)
        except (ClientError, OSError) as error:
            self._unreachable(str(error))
        except Exception:
            logger.exception("%s: a bug while fetching from broker %d", self._name, self.leader)
        else:
            return True
        return False

    async def _fetch(self, planned: PlannedFetch) -> None:
        """Send a request and take its answer, megabytes of records in the receive buffer."""
        connection = await self._connected()
        answer = await self._ask(connection, planned)
        self._reachable()
        if answer is not None:
            try:
                await self._take(connection, answer.message)
            finally:
                answer.release()

    def _follow_broker_epoch(self) -> None:
        """Name every partition again once this broker has registered anew.

        A leader takes no replica into the ISR of which it knows an earlier registration only
        (KIP-903), and the requests of a session pass quiet partitions by.
        """
        epoch = self._context.broker_epoch()
        if epoch != self._broker_epoch:
            self._broker_epoch = epoch
            self._plan.lost()

    async def _wait_for_partition(self) -> None:
        """Wait until a partition is added or has rested long enough."""
        due_s = self._plan.next_due_s()
        wait_s = None if due_s is None else max(0.0, due_s - self._clock.monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wanted.wait()

    async def _rest(self) -> None:
        """Begin again after a while, with a new session."""
        self._plan.lost()
        await asyncio.sleep(self._backoff_s)

    def _unreachable(self, reason: str) -> None:
        """Say once that the leader cannot be fetched from."""
        log = logger.warning if self._is_reachable else logger.debug
        self._is_reachable = False
        log("%s: cannot fetch from broker %d, %d partition(s) wait: %s",
            self._name, self.leader, len(self._plan), reason)  # fmt: skip

    def _reachable(self) -> None:
        if not self._is_reachable:
            self._is_reachable = True
            logger.info("%s: fetches from broker %d again", self._name, self.leader)

    async def _connected(self) -> ClientConnection:
        """Return the connection to the leader, at the address that it has now."""
        context = self._context
        address = context.leaders.address(self.leader)
        if address is None:
            raise ConnectionLost(f"the address of broker {self.leader} is not known")
        if self._link is None or self._link.address != address:
            self._drop_link()
            settings = ConnectionSettings(
                client_id=self._name,
                request_timeout_ms=context.settings.replica_socket_timeout_ms,
                connections_max_idle_ms=NEVER_IDLE_MS,
            )
            expected = Expected(broker_id=self.leader)
            self._link = Link(address, settings, context.ports, expected, lambda _: None)
        return await self._link.connected()

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.close(ClientClosed("the fetcher goes elsewhere"))

    async def _ask(self, connection: ClientConnection, planned: PlannedFetch) -> LentAnswer | None:
        """Send a request and return its answer; None if that, and maybe more, was taken already."""
        version = connection.agreed_version(FetchRequest)
        if version < TOPIC_IDS_FROM:
            raise UnsupportedVersion(f"broker {self.leader} serves Fetch up to {version} only")
        if planned.names_one and FIRST_VERSION <= version <= LAST_VERSION:
            return await RepeatedFetch(self, connection, version, self._name).run(planned)
        context = self._context
        request = fetch_request(planned, self._limits, context.broker_id, self._broker_epoch)
        return await connection.call_in_place(request, version)

    # Answers that are taken at once (`repeated_fetch`)

    def moved_request(self, planned: PlannedFetch) -> SingleFetchRequest:
        """Make a request that names one partition."""
        broker_id = self._context.broker_id
        return moved_request(planned, self._limits, broker_id, self._broker_epoch)

    def takes_at_once(self, answer: SingleFetchAnswer) -> bool:
        """Tell whether an answer can be taken in one short step."""
        key = TopicId(answer.topic_id), answer.index
        followed, asked = self._followed.get(key), self._plan.asked(key)
        return (
            followed is not None
            and asked is not None
            and len(answer.records) <= AT_ONCE_BYTES
            and self._plan.is_session(answer.session_id)
            and self._is_current(followed, asked)
            and followed.replica.start_below(answer.records, asked.leader_epoch) is None
        )

    def take_at_once(self, answer: SingleFetchAnswer) -> PlannedFetch | None:
        """Take an answer, and return the next request if it again names one partition."""
        self._plan.answered(ErrorCode.NONE, answer.session_id)
        followed = self._followed[TopicId(answer.topic_id), answer.index]
        try:
            self._append_at_once(
                followed, answer.records, answer.high_watermark, answer.log_start_offset
            )
        except Exception as error:  # noqa: BLE001 - as with the answers of several partitions
            self._failed(followed, error)
        self._reachable()
        self._follow_broker_epoch()
        self._go_on_throttled()
        link = self._link
        if link is None or link.address != self._context.leaders.address(self.leader):
            return None
        return self._plan.next_moved(self._clock.monotonic())

    # Answers

    async def _take(self, connection: ClientConnection, response: FetchResponse) -> None:
        error = ErrorCode.of(response.error_code)
        if not self._plan.answered(error, response.session_id):
            logger.debug("%s: broker %d ended the session: %s", self._name, self.leader, error.name)
            if self._plan.failure_count > 1:
                await self._rest()
            return
        step = Step(self._context)
        unplaced: list[_Answer] = []
        for answer in self._answers(response):
            if not self._is_current(answer.followed, answer.asked):
                # Its role has changed, and who changed it has not said yet what to fetch instead.
                # Until then the same question would get the same answer at once.
                self._rest_partition(answer.followed)
                continue
            if meaning_of(answer.told) is Meaning.LOOK_UP:
                unplaced.append(answer)
            else:
                await self._take_partition(answer, step)
            await step.pause()
        if unplaced:
            await self._place(connection, unplaced)

    def _answers(self, response: FetchResponse) -> Iterator[_Answer]:
        """Find the partitions that an answer is about, without those that stand elsewhere now."""
        for topic in response.responses:
            for told in topic.partitions:
                key = TopicId(topic.topic_id), told.partition_index
                followed, asked = self._followed.get(key), self._plan.asked(key)
                if followed is not None and asked is not None:
                    yield _Answer(followed, asked, told)

    def _is_current(self, followed: Followed, asked: ReplicaPosition) -> bool:
        """Tell whether a replica is still where the leader was asked for it."""
        replica = followed.replica
        return (
            self._followed.get(followed.key) is followed
            and replica.role.leader == self.leader
            and replica.role.leader_epoch == asked.leader_epoch
            and replica.log_end_offset == asked.offset
            # An earlier leader had it truncated, and its files are still being cut.
            and not replica.log.is_truncating
        )

    async def _take_partition(self, answer: _Answer, step: Step) -> None:
        """Do what an answer means for one partition; an error of it is its own."""
        followed, told = answer.followed, answer.told
        meaning = meaning_of(told)
        try:
            if meaning is Meaning.APPEND:
                await self._append(answer, step)
            elif meaning is Meaning.TRUNCATE:
                diverging = told.diverging_epoch
                epoch, end_offset = LeaderEpoch(diverging.epoch), Offset(diverging.end_offset)
                await self._truncate(followed, EpochEnd(epoch, end_offset), step)
            elif meaning is Meaning.FAIL:
                # Its metadata is on the way here: nobody has to know.
                error = ErrorCode.of(told.error_code)
                self._fail(followed, f"the leader answers {error.name}", logging.DEBUG)
            else:
                self._refused(followed, ErrorCode.of(told.error_code))
        except Exception as error:  # noqa: BLE001 - one partition must not end the others
            self._failed(followed, error)

    async def _append(self, answer: _Answer, step: Step) -> None:
        """Append the records of an answer in pieces, as long as the partition is followed."""
        followed, asked, told = answer
        replica, epoch = followed.replica, asked.leader_epoch
        records = memoryview(told.records or b"")  # type: ignore[arg-type]  # decoded: one buffer
        start = replica.start_below(records, epoch)
        if start is not None and not await self._restart(followed, start):
            return
        if len(records) <= AT_ONCE_BYTES:
            self._append_at_once(followed, records, told.high_watermark, told.log_start_offset)
            return
        received = 0
        try:
            for piece in pieces(records):
                received += replica.append_as_follower(
                    piece, epoch, told.high_watermark, told.log_start_offset
                )
                await step.pause()
                if self._followed.get(followed.key) is not followed:
                    return
        finally:
            self.bytes_in += received
            self._moved(followed)
        self._appended(followed, told.high_watermark, len(records), received)

    def _append_at_once(
        self, followed: Followed, records: memoryview, high_watermark: int, log_start_offset: int
    ) -> None:
        """Append records that are too few for pieces."""
        received = 0
        try:
            received = followed.replica.append_as_follower(
                records, followed.leader_epoch, high_watermark, log_start_offset
            )
        finally:
            self.bytes_in += received
            self._moved(followed)
        self._appended(followed, high_watermark, len(records), received)

    def _appended(
        self, followed: Followed, high_watermark: int, offered: int, received: int
    ) -> None:
        """Note how far a replica is behind, and that nothing is wrong with it."""
        followed.lag = max(0, high_watermark - followed.replica.log_end_offset)
        if offered and not received:
            # A length or an epoch has rotted, or the metadata is about to name another leader.
            raise CorruptRecords(f"{offered} bytes without a batch that can be taken")
        followed.trouble = ""
        self._throttle(followed, received)

    def _throttle(self, followed: Followed, received: int) -> None:
        """Let a throttled partition rest that is behind, if too much was fetched."""
        throttle, replica = self._context.throttle, followed.replica
        if not throttle.applies_to(replica.key, replica.config):
            return
        throttle.record(received)
        wait_s = throttle.wait_s() if followed.lag else 0.0
        if wait_s:
            until_s = self._clock.monotonic() + wait_s
            if not self._throttled or until_s < self._throttled_until_s:
                self._throttled_until_s = until_s
            self._throttled[followed.key] = None
            self._plan.rest(followed.key, until_s)

    def _go_on_throttled(self) -> None:
        """Let throttled partitions rest on when they are due, if still too much was fetched."""
        now_s = self._clock.monotonic()
        if not self._throttled or now_s < self._throttled_until_s:
            return
        wait_s = self._context.throttle.wait_s()
        if not wait_s:
            self._throttled.clear()
            return
        self._throttled_until_s = now_s + wait_s
        for key in self._throttled:
            self._plan.rest(key, self._throttled_until_s)

    def _moved(self, followed: Followed) -> None:
        """Ask for a partition from where its replica ends now, if it is still followed."""
        if self._followed.get(followed.key) is followed and not followed.failed:
            position = followed.position()
            if position != self._plan.asked(followed.key):
                self._plan.move(followed.key, position)

    async def _truncate(self, followed: Followed, epoch_end: EpochEnd, step: Step) -> None:
        """Cut a replica to what it shares with the leader, and ask again from there."""
        replica, log = followed.replica, followed.replica.log
        before = replica.log_end_offset
        offset = replica.divergence(epoch_end, followed.leader_epoch)
        for _ in log.prepare_truncation(offset):
            await step.pause()
            if self._followed.get(followed.key) is not followed:
                return
        if not await self._lower_recovery_point(followed, offset):
            return
        steps = replica.truncate_to(offset, followed.leader_epoch)
        if not await self._cut(followed, steps):
            return
        logger.info("%s: truncated from %d to %d, where leader %d (epoch %d) went another way",
                    replica.key, before, replica.log_end_offset, self.leader,
                    followed.leader_epoch)  # fmt: skip
        if replica.log_end_offset == before:
            # The same question would get the same answer at once.
            self._rest_partition(followed)
        self._moved(followed)

    async def _restart(self, followed: Followed, offset: Offset) -> bool:
        """Empty a replica and let it go on at an offset; return whether it does."""
        if not await self._lower_recovery_point(followed, offset):
            return False
        return await self._cut(followed, followed.replica.restart_at(offset, followed.leader_epoch))

    async def _cut(self, followed: Followed, steps: BlockingSteps) -> bool:
        """Wait until the files of a truncation are cut; return whether they are."""
        context = self._context
        if await context.flusher.truncate(followed.replica.log, steps, context.storage_failed):
            return True
        self._fail(followed, "its files could not be truncated")
        return False

    async def _lower_recovery_point(self, followed: Followed, offset: int) -> bool:
        """Write down how far a log is durable, before it is cut; DiskFull if there is no room.

        False if the partition has left this fetcher meanwhile. In the same leader epoch another
        fetcher may have truncated the log already, and have appended to it.
        """
        write = followed.replica.log.lower_recovery_point(offset)
        if write is not None:
            await self._context.flusher.run(write)
        return self._followed.get(followed.key) is followed

    # Offsets that the leader does not have

    async def _place(self, connection: ClientConnection, unplaced: Iterable[_Answer]) -> None:
        """Ask where the leader's logs begin and end, and go on inside of them."""
        answers = {answer.followed.key: answer for answer in unplaced}
        asked = {key: answer.asked for key, answer in answers.items()}
        offsets = await ask_offsets(connection, self._context.broker_id, asked)
        step = Step(self._context)
        for key, answer in answers.items():
            if self._is_current(answer.followed, answer.asked):
                await self._place_partition(answer.followed, offsets.get(key), step)
                await step.pause()

    async def _place_partition(
        self, followed: Followed, leader: LeaderOffsets | ErrorCode | None, step: Step
    ) -> None:
        replica = followed.replica
        if leader is None or isinstance(leader, ErrorCode):
            self._refused(followed, leader or ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        decision = out_of_range(replica.log_end_offset, leader)
        logger.warning("%s: offset %d is out of range at leader %d, which has [%d, %d)",
                       replica.key, replica.log_end_offset, self.leader,
                       leader.start, leader.end)  # fmt: skip
        try:
            if decision is None:
                self._rest_partition(followed)
            elif isinstance(decision, TruncateTo):
                end = EpochEnd(NO_LEADER_EPOCH, Offset(decision.offset))
                await self._truncate(followed, end, step)
                # A batch whose offset has rotted leads here again and again.
                self._rest_partition(followed)
            elif await self._restart(followed, Offset(decision.offset)):
                self._moved(followed)
        except Exception as error:  # noqa: BLE001 - one partition must not end the others
            self._failed(followed, error)

    # Errors

    def _say(self, followed: Followed, level: int, trouble: str) -> None:
        """Say what is wrong with a partition, once for as long as it is."""
        if trouble != followed.trouble:
            logger.log(level, "%s: %s", followed.replica.key, trouble)
            followed.trouble = trouble

    def _rest_partition(self, followed: Followed, rest_s: float | None = None) -> None:
        if self._followed.get(followed.key) is followed:
            rest_s = self._backoff_s if rest_s is None else rest_s
            self._plan.rest(followed.key, self._clock.monotonic() + rest_s)

    def _refused(self, followed: Followed, error: ErrorCode) -> None:
        """Let a partition rest that the leader does not serve now."""
        is_expected = error in EXPECTED_ERRORS
        level = logging.DEBUG if is_expected else logging.ERROR
        self._say(followed, level, f"leader {self.leader} answers {error.name}")
        if is_expected:
            self._rest_partition(followed, rest_after(followed.refusals, self._backoff_s))
            followed.refusals += 1
        else:
            self._rest_partition(followed)

    def _fail(self, followed: Followed, reason: str, level: int = logging.WARNING) -> None:
        """Do not ask for a partition before its metadata changes."""
        logger.log(level, "%s: not fetched before its metadata changes: %s",
                   followed.replica.key, reason)  # fmt: skip
        followed.failed = True
        if self._followed.get(followed.key) is followed:
            self._plan.remove(followed.key)

    def _failed(self, followed: Followed, error: Exception) -> None:
        """Take what went wrong with one replica for what it is."""
        replica = followed.replica
        if isinstance(error, CorruptRecords):
            where = f"a corrupt batch at offset {replica.log_end_offset} from leader {self.leader}"
            self._say(followed, logging.WARNING, f"{where}, fetched again: {error}")
            self._rest_partition(followed)
        elif isinstance(error, StorageError):
            self._context.storage_failed(error)
            if isinstance(error, DiskFull):
                self._rest_partition(followed)
            else:
                self._fail(followed, str(error))
        elif isinstance(error, ApiError) and error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            pass  # The role has changed. Whoever changed it says what to fetch next.
        else:
            logger.error("%s: a bug while it was copied", replica.key, exc_info=error)
            self._fail(followed, str(error))
