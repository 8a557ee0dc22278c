"""The fast path of Produce: the request that a librdkafka producer sends all day, not decoded.

It names one topic and one partition and belongs to no transaction. All requests of a producer to
a partition then have the same prefix, from the client id up to the length of the records, and
their answers differ in the correlation id and three numbers. So the first request is decoded, and
its meaning is remembered by its prefix; later requests are recognised by theirs. The compiled
codecs give the meaning of a prefix and the template of its answer: this module knows only in
which places two such requests may differ.

Requests of another shape, and those that cannot be answered at once with success, are left to
`ProduceHandler` with nothing done: `answer` returns None. A miss costs a look at five bytes.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from moldau.base.clock import Clock
from moldau.base.errors import ProtocolError
from moldau.base.ids import ZERO_TOPIC_ID
from moldau.base.network import Part
from moldau.observe.requests import RequestStats
from moldau.protocol.messages.data import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.protocol.registry import decode_header, decode_request, encode_response, find_api
from moldau.protocol.wire import read_uvarint
from moldau.records.batch import HEADER_SIZE
from moldau.security.session import Principal, Session
from moldau.server.handlers.produce import TOPIC_IDS_FROM, Destination, ProduceHandler

PRODUCE_KEY: Final = 0
FIRST_VERSION, LAST_VERSION = 9, 13
"""Those with the flexible encoding; older clients take the slow path."""

PREFIXES_KEPT: Final = 4096
"""Clients choose the names in a prefix: beyond this many prefixes all are learned anew."""

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

_START: Final = Struct(">hhih").unpack_from
_NUMBERS: Final = Struct(">qqq").pack
_CORRELATION_ID: Final = slice(4, 8)
_MARKS: Final = (0x4D4F4C4441550001, 0x4D4F4C4441550002, 0x4D4F4C4441550003)
"""Stand for base offset, append time and log start in the answer that is cut to pieces."""


_Prefix: TypeAlias = tuple[Principal, int, bytes]
"""Who asks, the version, and the bytes: what one principal may do is not known of another."""


class _Known(NamedTuple):
    """The meaning of a prefix, and the template of its answer around the parts that change."""

    where: Destination
    size: bytes
    before: bytes
    after: bytes


class ProduceFastPath:
    """Answers produce requests whose prefix is known."""

    def __init__(self, handler: ProduceHandler, stats: RequestStats, clock: Clock) -> None:
        self._handler = handler
        self._stats = stats
        self._clock = clock
        self._known: dict[_Prefix, _Known] = {}

    def answer(self, frame: memoryview, session: Session) -> list[Part] | None:
        """Handle the request in this frame, or return None with nothing done."""
        began = self._clock.monotonic()
        recognised = self._recognise(frame, session.principal)
        if recognised is None:
            return None
        known, version, records = recognised
        where, size, before, after = known
        placed = self._handler.append_at_once(where, records, version)
        if placed is None:
            return None
        self._stats.answered(len(frame), self._clock.monotonic() - began)
        return [b"".join((size, frame[_CORRELATION_ID], before, _NUMBERS(*placed), after))]

    def _recognise(
        self, frame: memoryview, principal: Principal
    ) -> tuple[_Known, int, memoryview] | None:
        """Find the prefix among those known, and the records behind it."""
        frame_size = len(frame)
        if frame_size < HEADER_SIZE:
            return None
        _, version, _, name_size = _START(frame)
        topics = _CLIENT_ID + name_size + _BEFORE_TOPICS
        if not FIRST_VERSION <= version <= LAST_VERSION or not 0 <= name_size < frame_size:
            return None
        by_name = version < TOPIC_IDS_FROM and topics < frame_size - 1
        end = topics + _BEFORE_RECORDS + (frame[topics + 1] if by_name else _TOPIC_ID_SIZE)
        if end > frame_size - HEADER_SIZE:
            return None
        prefix = (principal, version, bytes(frame[8:end]))
        known = self._known.get(prefix) or self._learn(prefix, frame, topics)
        if known is None:
            return None  # in another shape a length need not stand where it is looked for below
        length, start = read_uvarint(frame, end)
        stop = start + length - 1
        if stop + len(_NO_TAGS) != frame_size or bytes(frame[stop:]) != _NO_TAGS:
            return None
        return known, version, frame[start:stop]

    def _learn(self, prefix: _Prefix, frame: memoryview, topics: int) -> _Known | None:
        """Decode a request with a new prefix; remember it if it is of the shape served here."""
        _, version, content = prefix
        header_tags, transactional_id, *acks = frame[topics - 8 : topics - 4]
        one_of_each = frame[topics] == _ONE and content[-5] == _ONE
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
        if len(self._known) >= PREFIXES_KEPT:
            self._known.clear()
        known = self._known[prefix] = _Known(where, *_answer_around(where, version))
        return known


def _answer_around(where: Destination, version: int) -> tuple[bytes, bytes, bytes]:
    """Encode an answer and cut it where one answer differs from another."""
    result = PartitionProduceResponse(where.partition, 0, *_MARKS)
    topic = TopicProduceResponse(where.topic, where.topic_id or ZERO_TOPIC_ID, [result])
    parts = encode_response(find_api(PRODUCE_KEY), version, 0, ProduceResponse([topic]))
    answer = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
    marks = _NUMBERS(*_MARKS)
    numbers = answer.index(marks)
    return answer[:4], answer[8:numbers], answer[numbers + len(marks) :]
