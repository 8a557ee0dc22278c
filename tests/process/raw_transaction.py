"""One transaction, request by request, in the words of either protocol.

A client that repeats nothing and hides nothing, so that a test knows exactly what the broker had
been asked, and what it had promised, when it was ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_harness.waiting import eventually
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.metadata import FindCoordinatorRequest
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from moldau.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.records.builder import BatchBuilder
from process.raw_client import RawClient

GROUP_KEY, TRANSACTION_KEY = 0, 1
NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}
"""What a client waits out."""


def patiently(ask: Callable[[], Any], error_of: Callable[[Any], int] | None = None) -> Any:
    """Ask until the coordinator is there; any other error than that is one."""
    code_of = error_of or (lambda answer: answer.error_code)
    answers: list[Any] = []

    def served() -> bool:
        answers.append(ask())
        return ErrorCode(code_of(answers[-1])) not in NOT_YET

    eventually(served, "the coordinator serves")
    code = ErrorCode(code_of(answers[-1]))
    assert code is ErrorCode.NONE, code.name
    return answers[-1]


def find_coordinators(client: RawClient, transactional_id: str, group: str) -> None:
    """Have the internal topics made, which happens when they are first asked for."""
    for key, kind in ((transactional_id, TRANSACTION_KEY), (group, GROUP_KEY)):
        patiently(lambda key=key, kind=kind: client.call(FindCoordinatorRequest(key, kind), 2))


class RawTransaction:
    """One producer; `adds_by_itself` is the protocol of transaction version 2 (KIP-890)."""

    def __init__(
        self, client: RawClient, transactional_id: str, timeout_ms: int, *, adds_by_itself: bool
    ) -> None:
        self._client = client
        self._id = transactional_id
        self._adds_by_itself = adds_by_itself
        request = InitProducerIdRequest(transactional_id, timeout_ms)
        answer = patiently(lambda: client.call(request, 4))
        self._producer = (answer.producer_id, answer.producer_epoch)

    def add(self, topic: str, partitions: int) -> None:
        """Announce partitions, if the protocol asks for it."""
        if not self._adds_by_itself:
            topics = [AddPartitionsToTxnTopic(topic, list(range(partitions)))]
            request = AddPartitionsToTxnRequest([], self._id, *self._producer, topics)
            (result,) = self._client.call(request, 3).results_by_topic_v3_and_below
            assert not any(one.partition_error_code for one in result.results_by_partition), result

    def send(self, topic: str, partitions: int, value: bytes) -> None:
        """Write a record to each of the first partitions of a topic, in one request."""
        builder = BatchBuilder(
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=0,
            transactional=True,
        )
        builder.append(1, b"key", value)
        data = [PartitionProduceData(index, builder.build()) for index in range(partitions)]
        request = ProduceRequest(
            self._id, -1, 10_000, [TopicProduceData(topic, partition_data=data)]
        )
        (answer,) = self._client.call(request, 12 if self._adds_by_itself else 11).responses
        for result in answer.partition_responses:
            assert result.error_code == 0, ErrorCode(result.error_code).name

    def commit_offset(self, group: str, topic: str, offset: int) -> None:
        """Commit a group's offset of partition 0 in the transaction."""
        if not self._adds_by_itself:
            added = self._client.call(AddOffsetsToTxnRequest(self._id, *self._producer, group), 3)
            assert added.error_code == 0, ErrorCode(added.error_code).name
        place = TxnOffsetCommitRequestPartition(0, offset)
        request = TxnOffsetCommitRequest(
            self._id,
            group,
            *self._producer,
            topics=[TxnOffsetCommitRequestTopic(topic, partitions=[place])],
        )
        (answer,) = self._client.call(request, 5 if self._adds_by_itself else 3).topics
        (result,) = answer.partitions
        assert result.error_code == 0, ErrorCode(result.error_code).name

    def end(self, *, commit: bool) -> None:
        request = EndTxnRequest(self._id, *self._producer, commit)
        answer = self._client.call(request, 5 if self._adds_by_itself else 3)
        assert answer.error_code == 0, ErrorCode(answer.error_code).name


def commit_plainly(client: RawClient, group: str, topic: str, offset: int) -> None:
    """Commit a group's offset of partition 0 outside of any transaction."""
    place = OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, offset)])
    request = OffsetCommitRequest(group, topics=[place])
    patiently(
        lambda: client.call(request, 7), lambda answer: answer.topics[0].partitions[0].error_code
    )


def stable_offset(client: RawClient, group: str, topic: str) -> int:
    """Ask for a group's offset of partition 0 until no open transaction may change it; -1: none."""
    request = OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, [0])], require_stable=True)

    def code(answer: Any) -> int:
        return answer.error_code or answer.topics[0].partitions[0].error_code

    answer = patiently(lambda: client.call(request, 7), code)
    return int(answer.topics[0].partitions[0].committed_offset)
