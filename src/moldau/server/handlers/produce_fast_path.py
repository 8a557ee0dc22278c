"""The fast path of Produce: the request that a librdkafka producer sends all day, not decoded.

It names one topic and one partition and belongs to no transaction. All requests of a producer to
a partition then have the same prefix, from the client id up to the length of the records, and
their answers differ in the correlation id and three numbers. This module knows only in which places
two such requests may differ; the rest is `network.fast_path`. A miss costs a look at five bytes.

With acks=all and followers the batch is appended at once, and its answer waits at the partition
until the high watermark has passed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from moldau.base.clock import Clock
from moldau.base.errors import ProtocolError
from moldau.base.ids import ZERO_TOPIC_ID
from moldau.base.network import Part
from moldau.observe.requests import RequestStats
from moldau.protocol.errors import ErrorCode
from moldau.protocol.frame_template import FrameTemplate
from moldau.protocol.messages.data import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.protocol.registry import decode_header, decode_request, encode_response, find_api
from moldau.protocol.wire import read_uvarint
from moldau.records.batch import HEADER_SIZE
from moldau.replication.delayed import Delayed
from moldau.replication.partition import ACKS_ALL
from moldau.security.session import Session
from moldau.server.handlers.produce import TOPIC_IDS_FROM, Destination, Placed, ProduceHandler
from moldau.server.network.fast_path import PREFIX_START, KnownRequest, PrefixFastPath

PRODUCE_KEY: Final = 0
FIRST_VERSION: Final = 9
LAST_VERSION: Final = 13
"""Those with the flexible encoding; older clients take the slow path."""

PREFIX_SIZE_MAX: Final = 1024
"""Names of ordinary lengths take a tenth of it. Bounds what is kept: some megabytes."""

_CLIENT_ID: Final = 10
"""Where the client id begins, behind its length."""
_BEFORE_TOPICS: Final = 8
"""Header's tags, no transactional id, acks, timeout: from the client id's end to the topics."""
_BEFORE_RECORDS: Final = 6
"""Count of topics, count of partitions and index: the rest of a prefix, besides the topic."""

_TOPIC_ID_SIZE: Final = 16
_LONG_NAME: Final = 128
"""From here on the length of a topic's name takes two bytes."""
_ONE: Final = 2
"""How a compact array says that it has one element."""

_NO_TAGS: Final = b"\0\0\0"
"""Behind the records: of the partition, of the topic, of the request."""

_CORRELATION_ID: Final = 4
"""Where it begins; the prefix follows it."""
_CLIENT_ID_SIZE: Final = Struct(">8xh").unpack_from
_NO_ERROR: Final = ErrorCode.NONE
_NUMBERS: Final = Struct(">qqq").pack
_MARKS: Final = (0x4D4F4C4441550001, 0x4D4F4C4441550002, 0x4D4F4C4441550003)
"""Stand for base offset, append time and log start in the answer that becomes the template."""


class KnownProduce(KnownRequest):
    """The produce requests with one prefix: their destination, version and where records begin."""

    __slots__ = ("destination", "records", "timeout_s", "version")

    def __init__(
        self,
        template: FrameTemplate,
        destination: Destination,
        timeout_s: float,
        version: int,
        records: int,
    ) -> None:
        super().__init__(template)
        self.destination = destination
        self.timeout_s = timeout_s
        """How long they wait for followers."""
        self.version = version
        self.records = records
        """Where the length of the records stands in a frame."""


class ProduceFastPath(PrefixFastPath[KnownProduce]):
    """Answers produce requests whose prefix is known."""

    def __init__(self, handler: ProduceHandler, stats: RequestStats, clock: Clock) -> None:
        super().__init__(stats, clock)
        self._handler = handler

    def prefix_of(self, frame: memoryview, version: int) -> bytes | None:
        frame_size = len(frame)
        if frame_size < HEADER_SIZE:
            return None
        name_size: int
        (name_size,) = _CLIENT_ID_SIZE(frame)
        topics = _CLIENT_ID + name_size + _BEFORE_TOPICS
        if not FIRST_VERSION <= version <= LAST_VERSION or not 0 <= name_size < frame_size:
            return None
        by_name = version < TOPIC_IDS_FROM and topics < frame_size - 1
        end = topics + _BEFORE_RECORDS + (frame[topics + 1] if by_name else _TOPIC_ID_SIZE)
        if end > frame_size - HEADER_SIZE or end > PREFIX_SIZE_MAX:
            return None
        return bytes(frame[PREFIX_START:end])

    def understand(self, frame: memoryview, prefix: bytes, version: int) -> KnownProduce | None:
        topics = _CLIENT_ID + _CLIENT_ID_SIZE(frame)[0] + _BEFORE_TOPICS
        header_tags, transactional_id, *acks = frame[topics - 8 : topics - 4]
        one_of_each = frame[topics] == _ONE and prefix[-5] == _ONE
        long_name = version < TOPIC_IDS_FROM and frame[topics + 1] >= _LONG_NAME
        # Without acks there is nothing to answer, and nothing may be decoded twice for that.
        if header_tags or transactional_id or not any(acks) or not one_of_each or long_name:
            return None
        try:
            request = decode_request(decode_header(frame), frame)
        except ProtocolError:
            return None
        (topic,) = request.topic_data
        where = self._handler.destination(topic, request.acks, version)
        if where is None:
            return None
        records = PREFIX_START + len(prefix)
        timeout_s = max(0, request.timeout_ms) / 1000
        return KnownProduce(_answer_template(where, version), where, timeout_s, version, records)

    def carry_out(
        self, known: KnownProduce, frame: memoryview, session: Session, began: float
    ) -> bytes | WaitingProduce | None:
        length, start = read_uvarint(frame, known.records)
        stop = start + length - 1
        if stop + len(_NO_TAGS) != len(frame) or bytes(frame[stop:]) != _NO_TAGS:
            return None
        records = frame[start:stop]
        where = known.destination
        placed = self._handler.append_at_once(where, records, known.version)
        if placed is None:
            return None
        partition, end_offset, base_offset, timestamp, log_start = placed
        if where.acks != ACKS_ALL or end_offset <= partition.high_watermark:
            return _NUMBERS(base_offset, timestamp, log_start)
        correlation_id = bytes(frame[_CORRELATION_ID:PREFIX_START])
        waiting = WaitingProduce(self, known, placed, correlation_id, session, began)
        waiting.delayed = partition.delay(end_offset, waiting.completed, known.timeout_s)
        return waiting

    def answer_waiting(self, waiting: WaitingProduce, code: ErrorCode) -> list[Part]:
        """Make the answer to a request that has waited for followers."""
        self._stats.time(self._monotonic() - waiting.began)
        known, placed = waiting.known, waiting.placed
        if code is _NO_ERROR:
            field = _NUMBERS(placed.base_offset, placed.timestamp, placed.log_start_offset)
            return [known.template.render(waiting.correlation_id, field)]
        where, version = known.destination, known.version
        response = self._handler.not_committed(where, placed, code, waiting.session, version)
        correlation_id = int.from_bytes(waiting.correlation_id, signed=True)
        return encode_response(find_api(PRODUCE_KEY), version, correlation_id, response)


class WaitingProduce:
    """The answer to a batch that was appended, and waits until followers have it as well.

    No future stands between it and its connection: it is told within the turn of the loop, and
    one for each batch would cost as much as the answer.
    """

    __slots__ = (
        "_code",
        "_is_abandoned",
        "_listener",
        "_path",
        "began",
        "correlation_id",
        "delayed",
        "is_applied",
        "known",
        "placed",
        "session",
    )

    def __init__(
        self,
        path: ProduceFastPath,
        known: KnownProduce,
        placed: Placed,
        correlation_id: bytes,
        session: Session,
        began: float,
    ) -> None:
        self._path = path
        self.known = known
        self.placed = placed
        self.correlation_id = correlation_id
        self.session = session
        self.began = began
        self.delayed: Delayed | None = None
        """Its place in the queue of the partition."""
        self.is_applied = True
        self._code: ErrorCode | None = None
        """What came of it, once that is known."""
        self._is_abandoned = False
        self._listener: Callable[[Any], None] | None = None

    @property
    def work(self) -> asyncio.Future[Any] | None:
        return None

    def listen(self, listener: Callable[[Any], None]) -> None:
        if self._code is None and not self._is_abandoned:
            self._listener = listener
        else:
            asyncio.get_running_loop().call_soon(listener, self)

    def completed(self, code: ErrorCode) -> None:
        """Learn that the batch is committed, or why it is not waited for any more."""
        self._code = code
        listener, self._listener = self._listener, None
        if listener is not None:
            listener(self)

    def framed(self) -> list[Part]:
        code = self._code
        if code is None:
            raise asyncio.CancelledError
        return self._path.answer_waiting(self, code)

    def abandon(self) -> None:
        """Wait no more. The connection hears of it a turn later, and looks at what is behind."""
        if self._code is not None or self._is_abandoned:
            return
        self._is_abandoned = True
        if self.delayed is not None:
            self.delayed.cancel()
        listener, self._listener = self._listener, None
        if listener is not None:
            asyncio.get_running_loop().call_soon(listener, self)


def _answer_template(where: Destination, version: int) -> FrameTemplate:
    result = PartitionProduceResponse(where.partition, 0, *_MARKS)
    topic = TopicProduceResponse(where.topic, where.topic_id or ZERO_TOPIC_ID, [result])
    parts = encode_response(find_api(PRODUCE_KEY), version, 0, ProduceResponse([topic]))
    return FrameTemplate(parts, _NUMBERS(*_MARKS))
