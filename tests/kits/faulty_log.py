"""A broker with a log of its own that checks producers' numbers as Kafka does, and misbehaves.

What it does to each Produce is decided by a function of the test's (`Fault`), so that faults can be
drawn at random or written down. Everything it has written is in `logs`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple

from kits.scripted_broker import PRODUCE, Asked, ScriptedBroker
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.protocol.messages.metadata import ApiVersion, ApiVersionsResponse
from moldau.protocol.messages.transactions import InitProducerIdResponse
from moldau.protocol.registry import find_api
from moldau.records.batch import parse_header
from moldau.records.record import read_records

INIT_PRODUCER_ID = 22
REMEMBERED = 5


class Fault(Enum):
    """What happens to one Produce request."""

    NONE = auto()
    SLOW = auto()
    CUT_BEFORE_WRITING = auto()
    CUT_AFTER_WRITING = auto()
    NOT_ENOUGH_REPLICAS = auto()
    TIMED_OUT_AFTER_WRITING = auto()
    GARBAGE_AFTER_WRITING = auto()


class _Written(NamedTuple):
    sequence: int
    size: int
    base_offset: int


class _Producer:
    """What a leader remembers of one producer."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.first = 0
        self.batches: deque[_Written] = deque(maxlen=REMEMBERED)

    @property
    def due(self) -> int:
        if not self.batches:
            return self.first
        return self.batches[-1].sequence + self.batches[-1].size


class _Log:
    """One partition."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.headers: list[list[tuple[str, bytes | None]]] = []
        """By record, as the values are."""
        self.producers: dict[int, _Producer] = {}

    def append(self, view: memoryview, most_records: int) -> tuple[ErrorCode, int]:
        header = parse_header(view)
        if header.count > most_records:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        known = self.producers.get(header.producer_id)
        if known is None:
            # Kafka takes any number of a producer it does not know (KIP-360).
            known = _Producer(header.producer_epoch)
            known.first = header.base_sequence
        elif header.producer_epoch > known.epoch:
            known = _Producer(header.producer_epoch)
        if header.producer_epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        for one in known.batches:
            if (one.sequence, one.size) == (header.base_sequence, header.count):
                return ErrorCode.NONE, one.base_offset
        if header.base_sequence != known.due:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        self.producers[header.producer_id] = known
        base_offset = len(self.values)
        known.batches.append(_Written(header.base_sequence, header.count, base_offset))
        records = list(read_records(view))
        self.values += [record.value for record in records]
        self.headers += [list(record.headers) for record in records]
        return ErrorCode.NONE, base_offset


class FaultyLog(ScriptedBroker):
    """Such a broker. `fault` is asked for every Produce that arrives."""

    def __init__(
        self,
        partitions: int,
        fault: Callable[[], Fault],
        *,
        most_records: int = 1_000_000,
        topic: str = "t",
    ) -> None:
        super().__init__()
        self.topics[topic] = [(self.broker_id, 0)] * partitions
        self.logs = [_Log() for _ in range(partitions)]
        self.fault = fault
        self.most_records = most_records
        self.newest[INIT_PRODUCER_ID] = find_api(INIT_PRODUCER_ID).versions.last
        self._answers[PRODUCE] = self._produce
        self._answers[INIT_PRODUCER_ID] = self._init_producer_id
        self._next_producer_id = 100

    def say_versions(self, asked: Asked) -> None:
        keys = [
            ApiVersion(key, find_api(key).versions.first, newest)
            for key, newest in self.newest.items()
        ]
        asked.answer(ApiVersionsResponse(api_keys=keys))

    def _init_producer_id(self, asked: Asked) -> None:
        self._next_producer_id += 1
        asked.answer(InitProducerIdResponse(0, 0, self._next_producer_id, 0))

    async def _produce(self, asked: Asked) -> None:
        fault = self.fault()
        if fault is Fault.CUT_BEFORE_WRITING:
            asked.writer.transport.abort()
            return
        if fault is Fault.SLOW:
            await asyncio.sleep(0.002)
        answer = self._response(asked.request, fault)
        if fault is Fault.CUT_AFTER_WRITING:
            asked.writer.transport.abort()
        elif fault is Fault.GARBAGE_AFTER_WRITING:
            asked.frame(b"\xff" * 90)
        elif asked.request.acks:
            asked.answer(answer)

    def _response(self, request: Any, fault: Fault) -> ProduceResponse:
        topics = []
        for topic in request.topic_data:
            answers = []
            for one in topic.partition_data:
                code, base_offset = ErrorCode.NOT_ENOUGH_REPLICAS, -1
                if fault is not Fault.NOT_ENOUGH_REPLICAS:
                    log = self.logs[one.index]
                    code, base_offset = log.append(memoryview(one.records), self.most_records)
                if fault is Fault.TIMED_OUT_AFTER_WRITING and code is ErrorCode.NONE:
                    code, base_offset = ErrorCode.REQUEST_TIMED_OUT, -1
                answers.append(PartitionProduceResponse(one.index, code, base_offset))
            topics.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
        return ProduceResponse(topics)
