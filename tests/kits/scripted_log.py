"""A broker of which a test decides what its log holds, and what it says about it.

It serves fetches and look-ups of offsets honestly from lists of batches. A test replaces single
answers: a log that was cut, a leader that moved, a nearer replica, records nobody asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kits.scripted_broker import Asked, ScriptedBroker
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from moldau.protocol.messages.metadata import ApiVersion, ApiVersionsResponse
from moldau.protocol.registry import find_api
from moldau.records.batch import iter_batches, parse_header

FETCH, LIST_OFFSETS, EPOCHS = 1, 2, 23
TOPIC = "t"
TOPIC_ID = b"t".ljust(16, b"\1")


class ScriptedLog(ScriptedBroker):
    """One topic `t` with one partition, led by this broker in term 0."""

    def __init__(self, *batches: bytes, broker_id: int = 1) -> None:
        super().__init__(broker_id)
        self.topics = {TOPIC: [(broker_id, 0)]}
        self.batches = list(batches)
        self.fetches: list[Callable[[Asked], FetchResponse | None]] = []
        """What to answer instead, fetch by fetch; None means nothing at all."""
        self.epoch_end: tuple[int, int] = (0, 10**9)
        """The epoch and the end offset told to who asks where an epoch ends."""
        self.newest |= {key: find_api(key).versions.last for key in (FETCH, LIST_OFFSETS, EPOCHS)}
        self._answers |= {
            FETCH: self.say_records,
            LIST_OFFSETS: self.say_offsets,
            EPOCHS: self.say_epochs,
        }

    def say_versions(self, asked: Asked) -> None:
        keys = [ApiVersion(key, find_api(key).versions.first, up_to)
                for key, up_to in self.newest.items()]  # fmt: skip
        asked.answer(ApiVersionsResponse(api_keys=keys))

    @property
    def end_offset(self) -> int:
        return max((parse_header(one).next_offset for one in self.batches), default=0)

    def say_records(self, asked: Asked) -> None:
        if self.fetches:
            answer = self.fetches.pop(0)(asked)
            if answer is not None:
                asked.answer(answer)
            return
        if wanted := asked.request.topics:
            (partition,) = wanted[0].partitions
            if 0 <= partition.current_leader_epoch < self.topics[TOPIC][0][1]:
                fenced = ErrorCode.FENCED_LEADER_EPOCH
                asked.answer(self.fetched(error_code=fenced, records=None))
            else:
                asked.answer(self.fetched(partition.fetch_offset))
        else:
            asked.answer(FetchResponse())

    def fetched(self, offset: int = 0, **told: Any) -> FetchResponse:
        """Return the answer to a fetch, with some of it replaced."""
        content = b"".join(one for one in self.batches if parse_header(one).next_offset > offset)
        partition = FetchablePartitionResponse(
            0,
            high_watermark=self.end_offset,
            last_stable_offset=self.end_offset,
            log_start_offset=0,
            aborted_transactions=None,
            records=content,
        )
        for name, value in told.items():
            setattr(partition, name, value)
        return FetchResponse(responses=[FetchableTopicResponse(TOPIC, TOPIC_ID, [partition])])

    def say_offsets(self, asked: Asked) -> None:
        (topic,) = asked.request.topics
        (partition,) = topic.partitions
        first = min((span.base_offset for one in self.batches for span in iter_batches(one)),
                    default=0)  # fmt: skip
        offset = first if partition.timestamp == -2 else self.end_offset
        told = ListOffsetsPartitionResponse(0, offset=offset, leader_epoch=0)
        asked.answer(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(TOPIC, [told])]))

    def say_epochs(self, asked: Asked) -> None:
        epoch, end_offset = self.epoch_end
        told = OffsetForLeaderPartitionResult(
            partition=0, leader_epoch=epoch, end_offset=end_offset
        )
        asked.answer(
            OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(TOPIC, [told])])
        )
