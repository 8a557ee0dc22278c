"""Producers with a transactional id, and what they leave in a partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    DescribeProducersRequest,
    DescribeProducersTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)
from moldau.records.batch import iter_batches, parse_header
from moldau.records.record import read_records

from .batches import batch, fetch, produce
from .peer import Peer

LAST_OF_CLIENTS = 3
"""Newer versions of AddPartitionsToTxn are for brokers, and name many transactions."""
FIRST_ADDING_BY_ITSELF = 12
"""From this version of Produce on the leader adds the partition to the transaction (KIP-890)."""
FIRST_RAISING_EPOCHS = 5
"""From this version of EndTxn on every end raises the epoch (KIP-890)."""

NO_PRODUCER = 1 << 40
"""A producer id that no broker has given away."""

_UNDER_WAY = ("PrepareCommit", "PrepareAbort")


class Transactional:
    """One transactional id, and the producer it has at present."""

    def __init__(self, peer: Peer, about: str) -> None:
        self.peer = peer
        self.name = peer.name(about)
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[str, int] = {}
        peer.until(self._ids_are_given, "producer ids are given")

    def _ids_are_given(self) -> bool:
        """Tell whether the broker has producer ids: Kafka's fetches a block of them first."""
        new = self.peer.call(InitProducerIdRequest(None, 60_000))
        return bool(new.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    # Asking

    def described(self) -> Any:
        return self.peer.call(DescribeTransactionsRequest([self.name])).transaction_states[0]

    def rest(self) -> None:
        """Wait until what was decided has been carried out."""
        self.peer.until(
            lambda: self.described().transaction_state not in _UNDER_WAY, f"{self.name} rests"
        )

    def init_request(self, **changes: Any) -> InitProducerIdRequest:
        return InitProducerIdRequest(**{
            "transactional_id": self.name, "transaction_timeout_ms": 60_000, **changes,
        })  # fmt: skip

    def init(self, label: str, version: int | None = None, **changes: Any) -> Any:
        """Get a producer and write it down; the ids are given names in the order they come."""
        peer = self.peer
        if version is None:
            version = peer.newest(InitProducerIdRequest)
        answer = peer.call(self.init_request(**changes), version)
        if answer.error_code == ErrorCode.NONE:
            self.become(answer)
        peer.note_answer(f"init {label} v{version}", answer)
        return answer

    def become(self, answer: Any) -> None:
        """Go on with the producer id and epoch of an answer."""
        if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.peer.names.given_producer(self.producer_id)

    def add_request(
        self, *topics: tuple[str, Sequence[int]], **changes: Any
    ) -> AddPartitionsToTxnRequest:
        named = [AddPartitionsToTxnTopic(name, list(indexes)) for name, indexes in topics]
        return AddPartitionsToTxnRequest(**{
            "v3_and_below_transactional_id": self.name,
            "v3_and_below_producer_id": self.producer_id,
            "v3_and_below_producer_epoch": self.epoch,
            "v3_and_below_topics": named,
            **{f"v3_and_below_{name}": value for name, value in changes.items()},
        })  # fmt: skip

    def add(self, *topics: tuple[str, Sequence[int]]) -> None:
        """Add partitions, as it must go well."""
        answer = self.peer.call(self.add_request(*topics), LAST_OF_CLIENTS)
        for topic in answer.results_by_topic_v3_and_below:
            for one in topic.results_by_partition:
                assert one.partition_error_code == 0, ErrorCode(one.partition_error_code).name

    def add_offsets_request(self, group: str, **changes: Any) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(**{
            "transactional_id": self.name, "producer_id": self.producer_id,
            "producer_epoch": self.epoch, "group_id": group, **changes,
        })  # fmt: skip

    def end_request(self, *, committed: bool, **changes: Any) -> EndTxnRequest:
        return EndTxnRequest(**{
            "transactional_id": self.name, "producer_id": self.producer_id,
            "producer_epoch": self.epoch, "committed": committed, **changes,
        })  # fmt: skip

    def end(self, label: str, version: int, *, committed: bool) -> Any:
        """End the transaction, write down what is said, and wait until it is done."""
        answer = self.peer.ask(f"end {label}", self.end_request(committed=committed), version)
        if version >= FIRST_RAISING_EPOCHS and answer.error_code == ErrorCode.NONE:
            self.become(answer)
        self.rest()
        return answer

    # Writing

    def batch(self, topic: str, *values: bytes, **changes: Any) -> bytes:
        """Make the next batch for a topic's partition 0."""
        sequence = self._sequences.get(topic, 0)
        producer = changes.pop("producer", (self.producer_id, self.epoch, sequence))
        return batch(*values, producer=producer, transactional=True)

    def write(self, label: str, topic: str, *values: bytes, version: int, **more: Any) -> Any:
        """Write in the transaction; what was taken moves the sequence on."""
        request = produce(
            self.peer, topic, self.batch(topic, *values), transactional_id=self.name, **more
        )
        answer = self.peer.ask(f"write {label}", request, version)
        (response,) = answer.responses
        if response.partition_responses[0].error_code == ErrorCode.NONE:
            self._sequences[topic] = self._sequences.get(topic, 0) + len(values)
        return answer


def note_state(peer: Peer, label: str, *transactions: Transactional) -> None:
    """Write down what the coordinator tells of transactions, their topics in order."""
    for one in transactions:
        answer = peer.call(DescribeTransactionsRequest([one.name]))
        for state in answer.transaction_states:
            state.topics.sort(key=lambda topic: topic.topic)
            for topic in state.topics:
                topic.partitions.sort()
        peer.note_answer(f"state {label}: {one.name}", answer)


def note_partition(peer: Peer, label: str, topic: str) -> None:
    """Write down what readers of both kinds see of partition 0, and its open transactions."""
    for isolation in (0, 1):
        answer = peer.call(fetch(peer, topic, isolation_level=isolation))
        (found,) = answer.responses[0].partitions
        aborted = found.aborted_transactions or []
        aborted.sort(key=lambda one: (one.first_offset, one.producer_id))
        seen = _batches(peer, bytes(found.records or b""))
        found.records = b""
        peer.note_answer(f"fetch {label}, {isolation}", answer)
        peer.note(f"batches {label}, {isolation}", seen)
        asked = ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=-1)])
        latest = peer.call(ListOffsetsRequest(-1, isolation, [asked])).topics[0].partitions[0]
        peer.note(f"end {label}, {isolation}", (latest.error_code, latest.offset))
    answer = peer.call(DescribeProducersRequest([DescribeProducersTopic(topic, [0])]))
    answer.topics[0].partitions[0].active_producers.sort(
        key=lambda one: list(peer.names.producers).index(one.producer_id)
    )
    peer.note_answer(f"producers {label}", answer)


def _batches(peer: Peer, data: bytes) -> list[dict[str, Any]]:
    """The batches without what must differ: ids, times, checksums."""
    found = []
    for span in iter_batches(data):
        header = parse_header(data, span.position)
        found.append(
            {
                "base_offset": header.base_offset,
                "attributes": header.attributes,
                "producer_id": peer.names.producers.get(header.producer_id, header.producer_id),
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
                "records": [(one.key, one.value) for one in read_records(data, span.position)],
            }
        )
    return found
