"""The produce request that a busy producer sends all day, cast instead of encoded.

It takes one batch to one partition. All such requests of a producer differ in the correlation id
and the records only, and their answers, while all is well, in the correlation id and three numbers.
At 1 KB a record a batch of the usual size has sixteen of them, and messages taken apart and put
together by fields are a third of what a record costs; so both are cut out once of what the codecs
make of them, and this module knows only in which places one may differ from another.

Whatever else the broker answers is not known here, and is decoded as any answer is.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from moldau.base.tuples import NamedTuple
from moldau.protocol.messages.data import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.protocol.registry import api_of, encode_request, encode_response
from moldau.protocol.wire import uvarint

FIRST_CAST_VERSION: Final = 9
"""The first with the flexible encoding, which Kafka has had since 2.4; older ones are encoded."""

_START: Final = Struct(">ihhi").pack
"""Size, API key, version, correlation id."""
_START_SIZE: Final = 12
_SIZE_SIZE: Final = 4
_CORRELATION_ID_END: Final = 4
"""In an answer, whose size has been taken off."""
_NUMBERS: Final = Struct(">qqq")
_MARKS: Final = (0x4D4F4C4441550001, 0x4D4F4C4441550002, 0x4D4F4C4441550003)
"""Stand for base offset, append time and log start in the answer that is cut to pieces."""
_MARK: Final = _NUMBERS.pack(*_MARKS)
"""Stands for the records in the request that is cut to pieces; its length takes one byte."""


class Written(NamedTuple):
    """What the usual answer says: the batch was written, and where."""

    base_offset: int
    append_time_ms: int


class ProduceMould:
    """The requests of one producer to one partition, in one version."""

    __slots__ = (
        "_after",
        "_answer_after",
        "_answer_before",
        "_answer_numbers",
        "_answer_size",
        "_before",
        "_size",
        "api",
        "topic_id",
        "version",
    )

    def __init__(self, version: int, client_id: str | None, request: ProduceRequest) -> None:
        """Take the shape of this request, which has one topic with one partition."""
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        self.api = api_of(request)
        self.version = version
        self.topic_id = topic.topic_id
        marked = ProduceRequest(
            request.transactional_id,
            request.acks,
            request.timeout_ms,
            [
                TopicProduceData(
                    topic.name, topic.topic_id, [PartitionProduceData(partition.index, _MARK)]
                )
            ],
        )
        whole = b"".join(encode_request(self.api, version, 0, client_id, marked))  # type: ignore[arg-type]
        before, _, self._after = whole.rpartition(_MARK)
        self._before = before[_START_SIZE:-1]
        self._size = len(before) - 1 - _SIZE_SIZE + len(self._after)
        self._cut_answer(topic, partition.index)

    def _cut_answer(self, topic: TopicProduceData, partition: int) -> None:
        written = PartitionProduceResponse(partition, 0, *_MARKS)
        response = ProduceResponse([TopicProduceResponse(topic.name, topic.topic_id, [written])])
        whole = b"".join(encode_response(self.api, self.version, 0, response))  # type: ignore[arg-type]
        before, _, self._answer_after = whole[_SIZE_SIZE:].rpartition(_MARK)
        self._answer_before = before[_CORRELATION_ID_END:]
        self._answer_numbers = len(before)
        self._answer_size = len(whole) - _SIZE_SIZE

    def cast(self, correlation_id: int, records: bytes) -> list[bytes]:
        """Make the request that takes these records there, ready to send."""
        length = uvarint(len(records) + 1)
        size = self._size + len(length) + len(records)
        start = _START(size, self.api.key, self.version, correlation_id)
        return [start + self._before + length, records, self._after]

    def read(self, frame: bytes) -> Written | None:
        """Read the usual answer; None if this is another one."""
        if (
            len(frame) != self._answer_size
            or not frame.startswith(self._answer_before, _CORRELATION_ID_END)
            or not frame.endswith(self._answer_after)
        ):
            return None
        base_offset, append_time_ms, _ = _NUMBERS.unpack_from(frame, self._answer_numbers)
        return Written(base_offset, append_time_ms)
