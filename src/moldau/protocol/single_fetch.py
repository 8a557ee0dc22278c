"""A fetch that names one partition, and its answer, read and written by position.

A follower that keeps up sends this request for every batch: in its fetch session one partition has
moved, and everything else is as before. So does a consumer, in a session or, as librdkafka, with
one partition and no session. In all versions from 15 on each field has a fixed place. So one
`struct` call reads or writes the request, where the codec makes half a dozen objects. The leader
and the follower use the same layout (ADR 0007).

Whatever differs from the layout is not read here: None says so, and the codec reads it. What is
written here is what the codec would write; tests say so.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from moldau.protocol.wire import long_uvarint, uvarint

FETCH_KEY: Final = 1
FIRST_VERSION: Final = 15
"""The first one that names the follower in a tagged field."""
LAST_VERSION: Final = 18

_HEAD: Final = Struct(">hhih")
"""API key, version, correlation id and the length of the client id."""
_HEAD_SIZE: Final = 10

_REQUEST: Final = Struct(">xiiibiic16scii" + "qiqi")
_REQUEST_SIZE: Final = _REQUEST.size
"""The tags of the header, then the request up to the last field of the partition."""
_FROM_FOLLOWER: Final = Struct(">7siqc")
_FROM_FOLLOWER_SIZE: Final = _FROM_FOLLOWER.size
"""What a follower's request ends with."""
_ONE: Final = b"\x02"
"""How a compact array says that it has one element."""
_BEFORE_REPLICA: Final = b"\0\0\x01\x01\x01\x01\x0d"
"""No tags of the partition and the topic, nothing forgotten, no rack; one tag, which is the
replica, of thirteen bytes."""
_FROM_CONSUMER: Final = b"\0\0\x01\x01\0"
"""What a consumer's request ends with: no tags of the partition and the topic, nothing forgotten,
no rack, no tags."""
NO_BROKER: Final = -1
_NO_TAGS: Final = b"\0"

_ANSWER: Final = Struct(">ic" + "ihi" + "c16sc" + "ih" + "qqq" + "ci")
_ANSWER_SIZE: Final = _ANSWER.size
"""From the correlation id up to the length of the records."""
_AFTER_RECORDS: Final = b"\0\0\0"
"""No tags of the partition, the topic and the answer."""
_TRANSACTIONS_UNTOLD: Final = b"\0"
_NO_TRANSACTIONS: Final = b"\x01"
"""An empty list: readers of committed records get one, others get null."""
_NO_REPLICA: Final = -1
_SIZE: Final = 4
"""The int32 before every frame."""


class SingleFetchRequest:
    """What a follower or consumer asks for, and where it stands.

    A consumer has no broker id (-1).
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "fetch_offset",
        "index",
        "isolation_level",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "partition_max_bytes",
        "session_epoch",
        "session_id",
        "topic_id",
    )

    def __init__(
        self,
        broker_id: int,
        broker_epoch: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        session_id: int,
        session_epoch: int,
        topic_id: bytes,
        index: int,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        partition_max_bytes: int,
        isolation_level: int = 0,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.isolation_level = isolation_level


class SingleFetchAnswer:
    """What the leader has for the one partition."""

    __slots__ = ("high_watermark", "index", "log_start_offset", "records", "session_id", "topic_id")

    def __init__(
        self,
        session_id: int,
        topic_id: bytes,
        index: int,
        high_watermark: int,
        log_start_offset: int,
        records: memoryview,
    ) -> None:
        self.session_id = session_id
        self.topic_id = topic_id
        self.index = index
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.records = records


def read_request(frame: memoryview) -> SingleFetchRequest | None:
    """Read the request in a frame; None if it has another layout."""
    if len(frame) < _HEAD_SIZE:
        return None
    name_size: int
    version: int
    _, version, _, name_size = _HEAD.unpack_from(frame)
    start = _HEAD_SIZE + name_size
    end = start + _REQUEST_SIZE
    if not FIRST_VERSION <= version <= LAST_VERSION or name_size < 0 or len(frame) <= end:
        return None
    sender = _read_sender(frame, end)
    if sender is None or frame[start]:
        return None
    broker_id, broker_epoch = sender
    (max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
     topic_count, topic_id, partition_count, index, leader_epoch, fetch_offset,
     last_fetched_epoch, log_start_offset, partition_max_bytes,
     ) = _REQUEST.unpack_from(frame, start)  # fmt: skip
    if topic_count != _ONE or partition_count != _ONE:
        return None
    return SingleFetchRequest(
        broker_id,
        broker_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        session_id,
        session_epoch,
        topic_id,
        index,
        leader_epoch,
        fetch_offset,
        last_fetched_epoch,
        log_start_offset,
        partition_max_bytes,
        isolation_level,
    )


def _read_sender(frame: memoryview, end: int) -> tuple[int, int] | None:
    """Read the broker id and epoch of who asks, behind the partition; None in another layout."""
    size = len(frame) - end
    if size == len(_FROM_CONSUMER):
        return (NO_BROKER, -1) if bytes(frame[end:]) == _FROM_CONSUMER else None
    if size != _FROM_FOLLOWER_SIZE:
        return None
    before_replica, broker_id, broker_epoch, tags = _FROM_FOLLOWER.unpack_from(frame, end)
    if before_replica != _BEFORE_REPLICA or tags != _NO_TAGS:
        return None
    return broker_id, broker_epoch


def write_request(version: int, correlation_id: int, client_id: bytes, body: bytes) -> bytes:
    """Make the frame of a request, with its size."""
    size = _HEAD_SIZE + len(client_id) + len(body)
    head = _HEAD.pack(FETCH_KEY, version, correlation_id, len(client_id))
    return b"".join((size.to_bytes(_SIZE), head, client_id, body))


def request_body(asked: SingleFetchRequest) -> bytes:
    """Make what stands behind the client id of a follower's request."""
    wanted = _REQUEST.pack(
        asked.max_wait_ms,
        asked.min_bytes,
        asked.max_bytes,
        asked.isolation_level,
        asked.session_id,
        asked.session_epoch,
        _ONE,
        asked.topic_id,
        _ONE,
        asked.index,
        asked.leader_epoch,
        asked.fetch_offset,
        asked.last_fetched_epoch,
        asked.log_start_offset,
        asked.partition_max_bytes,
    )
    sender = _FROM_FOLLOWER.pack(_BEFORE_REPLICA, asked.broker_id, asked.broker_epoch, _NO_TAGS)
    return wanted + sender


def write_answer(
    correlation_id: int,
    asked: SingleFetchRequest,
    figures: tuple[int, int, int],
    records_size: int,
    *,
    tells_transactions: bool = False,
) -> tuple[bytes, bytes]:
    """Make what stands before and behind the records of an answer without errors.

    The figures are the high watermark, the last stable offset and the start of the log. A reader of
    what is committed is told that no transaction among the records was aborted.
    """
    high_watermark, last_stable_offset, log_start_offset = figures
    length = uvarint(records_size + 1)
    size = _ANSWER_SIZE + len(length) + records_size + len(_AFTER_RECORDS)
    head = _ANSWER.pack(
        correlation_id,
        _NO_TAGS,
        0,
        0,
        asked.session_id,
        _ONE,
        asked.topic_id,
        _ONE,
        asked.index,
        0,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        _NO_TRANSACTIONS if tells_transactions else _TRANSACTIONS_UNTOLD,
        _NO_REPLICA,
    )
    return b"".join((size.to_bytes(_SIZE), head, length)), _AFTER_RECORDS


def read_answer(frame: memoryview) -> SingleFetchAnswer | None:
    """Read an answer without errors for one partition; None if it has another layout.

    The records are part of the frame.
    """
    if len(frame) <= _ANSWER_SIZE + len(_AFTER_RECORDS):
        return None
    (_, tags, throttle_time_ms, error_code, session_id,
     topic_count, topic_id, partition_count, index, partition_error, high_watermark, _,
     log_start_offset, transactions, replica) = _ANSWER.unpack_from(frame)  # fmt: skip
    if throttle_time_ms or error_code or partition_error or replica != _NO_REPLICA:
        return None
    if tags != _NO_TAGS or transactions != _TRANSACTIONS_UNTOLD:
        return None
    if topic_count != _ONE or partition_count != _ONE:
        return None
    records = _records_of(frame)
    if records is None:
        return None
    return SingleFetchAnswer(session_id, topic_id, index, high_watermark, log_start_offset, records)


def _records_of(frame: memoryview) -> memoryview | None:
    """Return the records of an answer; None if they are not what fills it."""
    length: int = frame[_ANSWER_SIZE]
    start = _ANSWER_SIZE + 1
    if length > 127 and len(frame) > start + 4:
        length, start = long_uvarint(frame, start, length)
    end = start + length - 1
    if length < 1 or bytes(frame[end:]) != _AFTER_RECORDS:
        return None
    return frame[start:end]
