"""A consumer by assignment: reads every topic there is, over and over, and jumps about in it.

It reads in a fetch session or without one, by topic names or ids as its version has them, and
checks every answer on arrival: checksums, offsets without a gap, nothing above the end.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import Buffer
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.records.batch import crc_ok, iter_batches
from moldau.records.record import read_records
from moldau.sim.history import Known, LogEnds, Read, Violation
from moldau.sim.workload.client import Link, Worker
from moldau.sim.workload.targets import Targets, TopicTarget

FIRST_VERSION_WITH_START = 5
FIRST_VERSION_WITH_IDS = 13
LATEST, EARLIEST = -1, -2
NO_SESSION, FIRST_EPOCH = -1, 0
SESSION_ERRORS = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)
JUMP_CHANCE = 0.05


class ConsumerPlan(NamedTuple):
    """What kind of consumer it is."""

    version: int
    session: bool
    committed_only: bool
    max_bytes: int
    min_bytes: int
    max_wait_ms: int


@dataclass
class Seat:
    """One partition, as this consumer reads it."""

    topic: TopicTarget
    index: int
    era: int
    offset: int = -1
    """Where it reads on; -1 when it must be asked where the log starts."""
    asked: int = -1
    """What the session was told last."""
    unknown: tuple[int, int] | None = None
    """An offset that the broker did not know, and the end that was known when it was asked for."""


class Consumer(Worker):
    """Reads every topic that its version can name."""

    def __init__(self, targets: Targets, name: str, plan: ConsumerPlan) -> None:
        super().__init__(targets, name)
        self._plan = plan
        self._by_id = plan.version >= FIRST_VERSION_WITH_IDS
        self._seats: dict[tuple[bytes, int], Seat] = {}
        self._session_id, self._session_epoch = 0, NO_SESSION

    async def work(self, link: Link) -> None:
        self._begin_session()
        while not self.finished:
            forgotten = self._take_seats()
            for seat in list(self._seats.values()):
                await self._find_place(link, seat)
            if self._seats:
                await self._fetch(link, forgotten)
            else:
                await asyncio.sleep(0.1)

    def _begin_session(self) -> None:
        self._session_id = 0
        self._session_epoch = FIRST_EPOCH if self._plan.session else NO_SESSION
        for seat in self._seats.values():
            seat.asked = -1

    def _take_seats(self) -> list[Seat]:
        """Follow the topics there are; return the seats that were given up."""
        topics = [topic for topic in self.targets.live if topic.by_id == self._by_id]
        wanted = {(topic.id, index): topic for topic in topics for index in _indexes(topic)}
        gone = [seat for key, seat in self._seats.items() if key not in wanted]
        self._seats = {key: seat for key, seat in self._seats.items() if key in wanted}
        for (topic_id, index), topic in wanted.items():
            if (topic_id, index) not in self._seats:
                seat = Seat(topic, index, self.targets.era)
                self._seats[topic_id, index] = seat
        return gone

    # Places

    async def _find_place(self, link: Link, seat: Seat) -> None:
        """Begin where the log does; now and then jump, so that indexes are used."""
        if seat.era != link.era:
            seat.era, seat.offset, seat.unknown = link.era, -1, None
        jump = self.chance.random() < JUMP_CHANCE
        if seat.offset >= 0 and not jump:
            return
        start = await self._ask(link, seat, EARLIEST)
        end = await self._ask(link, seat, LATEST)
        if start is None or end is None:
            return
        _check_unknown(seat, start.offset)
        seat.offset = start.offset
        if jump and end.offset > start.offset:
            seat.offset = self.chance.randrange(start.offset, end.offset + 1)
            await self._ask_by_time(link, seat)

    async def _ask(
        self, link: Link, seat: Seat, timestamp: int
    ) -> ListOffsetsPartitionResponse | None:
        topic, history = seat.topic, seat.topic.histories[seat.index]
        known = link.known(history)
        asked = [ListOffsetsPartition(seat.index, -1, timestamp)]
        request = ListOffsetsRequest(
            -1, int(self._plan.committed_only), [ListOffsetsTopic(topic.name, asked)]
        )
        response = await link.call(request)
        result: ListOffsetsPartitionResponse = response.topics[0].partitions[0]
        if topic.deleting:
            return None
        if result.error_code:
            self.check_refusal(topic, "a question", result.error_code, None)
            return None
        if timestamp == LATEST:
            history.told(known, LogEnds(known.start, result.offset, result.offset))
        elif timestamp == EARLIEST:
            end = max(known.end, result.offset)
            history.told(known, LogEnds(result.offset, end, end))
        return result

    async def _ask_by_time(self, link: Link, seat: Seat) -> None:
        """Ask for a time at which something was written."""
        history = seat.topic.histories[seat.index]
        if not history.timestamps:
            return
        asked_ms = history.timestamps[self.chance.choice(sorted(history.timestamps))]
        known = link.known(history)
        found = await self._ask(link, seat, asked_ms)
        # Retention may have removed something meanwhile: only what is still there can be missed.
        start = await self._ask(link, seat, EARLIEST)
        if found is not None and start is not None:
            history.found_by_time(known, asked_ms, found.offset, found.timestamp)

    # Fetching

    async def _fetch(self, link: Link, forgotten: list[Seat]) -> None:
        seats = [seat for seat in self._seats.values() if seat.offset >= 0]
        known: dict[tuple[bytes, int], tuple[int, Known]] = {
            (seat.topic.id, seat.index): (
                seat.offset, link.known(seat.topic.histories[seat.index])
            )
            for seat in seats
        }  # fmt: skip
        response = await link.call(self._request(seats, forgotten), self._plan.version)
        error = ErrorCode.of(response.error_code)
        if error in SESSION_ERRORS and self._plan.session:
            self.targets.seen["fetch session lost"] += 1
            self._begin_session()
            return
        if error:
            raise Violation(f"errors: a fetch was refused: {error.name}")
        if self._session_epoch != NO_SESSION:
            self._session_id = response.session_id
            self._session_epoch = self._session_epoch + 1 if self._session_id else FIRST_EPOCH
        self._take(response, known)

    def _request(self, seats: list[Seat], forgotten: list[Seat]) -> FetchRequest:
        plan = self._plan
        going_on = self._session_epoch > FIRST_EPOCH
        topics: dict[bytes, FetchTopic] = {}
        for seat in seats:
            if going_on and seat.asked == seat.offset:
                continue
            topic = topics.setdefault(seat.topic.id, FetchTopic(seat.topic.name, seat.topic.id))
            topic.partitions.append(
                FetchPartition(
                    seat.index, fetch_offset=seat.offset, partition_max_bytes=plan.max_bytes
                )
            )
            seat.asked = seat.offset
        return FetchRequest(
            max_wait_ms=plan.max_wait_ms,
            min_bytes=plan.min_bytes,
            max_bytes=plan.max_bytes * 2,
            isolation_level=int(plan.committed_only),
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=[
                ForgottenTopic(seat.topic.name, seat.topic.id, [seat.index])
                for seat in forgotten
                if going_on
            ],
        )

    def _take(
        self, response: FetchResponse, known: dict[tuple[bytes, int], tuple[int, Known]]
    ) -> None:
        names = {topic.name: topic.id for topic in self.targets.live if not topic.by_id}
        for topic in response.responses:
            topic_id = topic.topic_id if self._by_id else names.get(topic.topic, b"")
            for result in topic.partitions:
                seat = self._seats.get((topic_id, result.partition_index))
                asked = known.get((topic_id, result.partition_index))
                if seat is not None and asked is not None and not seat.topic.deleting:
                    self._take_partition(seat, result, *asked)

    def _take_partition(
        self, seat: Seat, result: FetchablePartitionResponse, asked: int, known: Known
    ) -> None:
        history = seat.topic.histories[seat.index]
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            seat.offset, seat.unknown = -1, (asked, known.end)
            return
        if result.error_code:
            self.check_refusal(seat.topic, "a fetch", result.error_code, None)
            seat.asked = -1
            return
        tells_start = self._plan.version >= FIRST_VERSION_WITH_START
        start = result.log_start_offset if tells_start else known.start
        place = LogEnds(start, result.last_stable_offset, result.high_watermark)
        records = fetched_records(history.name, result.records, asked)
        history.read(known, asked, place, records)
        seat.offset = asked + len(records)
        self.targets.seen["read"] += len(records)


def _check_unknown(seat: Seat, start: int) -> None:
    """Refuse that the broker did not know an offset between the start and the end of the log.

    A start only moves up: what lies above it now lay above it then.
    """
    unknown, seat.unknown = seat.unknown, None
    if unknown is not None and start <= unknown[0] <= unknown[1]:
        name = seat.topic.histories[seat.index].name
        raise Violation(f"P2: {name} does not know offset {unknown[0]}")


def _indexes(topic: TopicTarget) -> range:
    return range(topic.partition_count)


def fetched_records(name: str, content: object, asked: int) -> list[Read]:
    """Read whole batches from the offset asked for on; one that is cut at the end is left out."""
    if not content:
        return []
    assert isinstance(content, Buffer)
    found: list[Read] = []
    try:
        for span in iter_batches(content, allow_cut=True):
            if not crc_ok(content, span.position, span.size):
                raise Violation(f"P8: {name} served {span.base_offset} with a wrong checksum")
            found += (
                Read(record.offset, record.timestamp, record.value or b"")
                for record in read_records(content, span.position)
                if record.offset >= asked
            )
            if not found:
                raise Violation(f"I5: {name} served {span.base_offset} to a reader at {asked}")
    except CorruptRecords as error:
        raise Violation(f"P8: {name} served what cannot be read: {error}") from error
    return found
