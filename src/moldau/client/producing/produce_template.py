"""The produce request that a busy producer sends all day, rendered instead of encoded.

It takes one batch to one partition. All such requests of a producer differ in the correlation id
and the records only, and their answers, while all is well, in the correlation id and three numbers.
At 1 KB a record a batch of the usual size has sixteen of them, and messages taken apart and put
together by fields are a third of what a record costs. So both are templates of what the codecs make
of them (`protocol.frame_template`): this module knows only in which places one may differ.

Whatever else the broker answers is not known here, and is decoded as any answer is.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from moldau.base.tuples import NamedTuple
from moldau.protocol.frame_template import FrameTemplate
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

FIRST_TEMPLATE_VERSION: Final = 9
"""The first with the flexible encoding, which Kafka has had since 2.4; older ones are encoded."""

_HEAD_SIZE: Final = 4
"""API key and version, before the correlation id of a request."""
_CORRELATION_ID_SIZE: Final = 4
_NUMBERS: Final = Struct(">qqq")
_MARKS: Final = (0x4D4F4C4441550001, 0x4D4F4C4441550002, 0x4D4F4C4441550003)
"""Stand for base offset, append time and log start in the answer that becomes a template."""
_MARK: Final = _NUMBERS.pack(*_MARKS)
"""Stands for the records in the request that becomes a template."""


class Written(NamedTuple):
    """What the usual answer says: the batch was written, and where."""

    base_offset: int
    append_time_ms: int


class ProduceTemplate:
    """The requests of one producer to one partition, in one version."""

    __slots__ = ("_answer", "_request", "api", "topic_id", "version")

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
        parts = encode_request(self.api, version, 0, client_id, marked)
        self._request = FrameTemplate(parts, uvarint(len(_MARK) + 1) + _MARK, _HEAD_SIZE)
        written = PartitionProduceResponse(partition.index, 0, *_MARKS)
        response = ProduceResponse([TopicProduceResponse(topic.name, topic.topic_id, [written])])
        self._answer = FrameTemplate(encode_response(self.api, version, 0, response), _MARK)

    def render(self, correlation_id: int, records: bytes) -> list[bytes]:
        """Make the request that takes these records there, ready to send."""
        length = uvarint(len(records) + 1)
        before, after = self._request.render_around(
            correlation_id.to_bytes(_CORRELATION_ID_SIZE), len(length) + len(records)
        )
        return [before + length, records, after]

    def read(self, frame: memoryview) -> Written | None:
        """Read the usual answer; None if this is another one."""
        numbers = self._answer.field_position(bytes(frame), _NUMBERS.size)
        if numbers is None:
            return None
        base_offset, append_time_ms, _ = _NUMBERS.unpack_from(frame, numbers)
        return Written(base_offset, append_time_ms)
