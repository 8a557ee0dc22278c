"""What a produce request needs before its transactional batches may be appended.

A partition that holds records of a producer's open transaction takes more of them: its log knows
the transaction. For all others the coordinator is asked first (KIP-890), once per request. What it
said is a permit. Between the question and the append a marker may end the very transaction that
the coordinator spoke of, and the batch behind it would hang for ever. Since transaction version 2
every marker comes with a new epoch, and the log itself refuses what is left over from the one
before; for older clients a permit is good only until the next marker of its producer. No permit
outlives the leadership that it was asked for in: another leader may have written markers.

A batch that is turned away for the moment comes back, while those that its producer had sent
behind it may pass. The log is told of it, so that it does not begin with the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from moldau.base.errors import CorruptRecords
from moldau.base.ids import PartitionKey
from moldau.coordination.answers import Answer, combined
from moldau.coordination.outcome import ProducerIdentity
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import ProduceRequest, TopicProduceData
from moldau.records.batch import BatchHeader, is_transactional, parse_header
from moldau.replication.partition import Partition
from moldau.replication.partitions import Partitions
from moldau.server.lifecycle.internal_topics import INTERNAL_TOPICS
from moldau.server.transactions.partitions import Verdicts
from moldau.server.transactions.produce_verdicts import ADDS_PARTITIONS, produce_error
from moldau.server.transactions.verification import TransactionVerifier
from moldau.storage.incoming import RefusedUnseen


class Permit(NamedTuple):
    """What the coordinator said of one producer in one partition, and when that was."""

    code: ErrorCode
    partition: Partition
    leader_epoch: int
    marker_count: int | None
    """The producer's markers when it was asked for; None where a later one does not matter."""


Permits: TypeAlias = Mapping[tuple[PartitionKey, ProducerIdentity], Permit]

NO_PERMITS: Permits = {}

NameOf: TypeAlias = Callable[[TopicProduceData, int], str | None]

NOT_ADDED: Final = "Partition was not added to the transaction"
"""Kafka's words, which people look for."""

OUTSIDE: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})
"""Verdicts on a batch whose partition the transaction does not have."""


class TransactionalWrites:
    """Finds out which batches of a request may be appended in its transaction."""

    def __init__(
        self,
        partitions: Partitions,
        verifier: TransactionVerifier,
        verification: Callable[[], bool],
    ) -> None:
        """While `verification` is off, only what must be added is asked for."""
        self._partitions = partitions
        self._verifier = verifier
        self._verification = verification

    def permits(self, request: ProduceRequest, version: int, name_of: NameOf) -> Answer[Permits]:
        """Ask for all batches that need to be asked for."""
        transactional_id = request.transactional_id
        assert transactional_id is not None
        asked: dict[ProducerIdentity, dict[PartitionKey, Partition]] = {}
        for partition, header in self._transactional(request, version, name_of):
            if not _is_open(partition, header):
                asked.setdefault(_producer(header), {})[partition.key] = partition
        adds = version >= ADDS_PARTITIONS
        if not (adds or self._verification()):
            return {
                (key, producer): Permit(
                    ErrorCode.NONE, partition, partition.role.leader_epoch, None
                )
                for producer, partitions in asked.items()
                for key, partition in partitions.items()
            }
        answers = [
            self._ask(transactional_id, producer, partitions, version, add=adds)
            for producer, partitions in asked.items()
        ]
        return combined(answers, _merged)

    def _transactional(
        self, request: ProduceRequest, version: int, name_of: NameOf
    ) -> Iterator[tuple[Partition, BatchHeader]]:
        """Yield what is transactional and meant for a partition here; the rest is refused later."""
        for topic in request.topic_data:
            name = name_of(topic, version)
            if name is None or name in INTERNAL_TOPICS:
                continue
            for data in topic.partition_data:
                partition = self._partitions.get(name, data.index)
                if partition is None or not data.records or not is_transactional(data.records):
                    continue
                try:
                    yield partition, parse_header(data.records)
                except CorruptRecords:
                    continue

    def _ask(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Mapping[PartitionKey, Partition],
        version: int,
        *,
        add: bool,
    ) -> Answer[Permits]:
        marker_counts = {
            key: None if add else partition.marker_count(producer.producer_id)
            for key, partition in partitions.items()
        }

        leader_epochs = {key: partition.role.leader_epoch for key, partition in partitions.items()}

        def permitted(answers: list[Verdicts]) -> Permits:
            return {
                (key, producer): Permit(
                    produce_error(code, version),
                    partitions[key],
                    leader_epochs[key],
                    marker_counts[key],
                )
                for key, code in answers[0].items()
            }

        answer = self._verifier.verify(transactional_id, producer, tuple(partitions), add=add)
        return combined([answer], permitted)


def marker_state(partitions: Partitions, key: PartitionKey, producer_id: int) -> object:
    """Return a value that is another one once the producer has a new marker there, or may have."""
    partition = partitions.get(*key)
    if partition is None:
        return None
    return partition, partition.role.leader_epoch, partition.marker_count(producer_id)


def check_permit(partition: Partition, header: BatchHeader, permits: Permits) -> None:
    """Refuse a transactional batch that nobody has permitted."""
    if _is_open(partition, header):
        return
    permit = permits.get((partition.key, _producer(header)))
    if permit is None:
        raise RefusedUnseen(ErrorCode.INVALID_TXN_STATE, NOT_ADDED)
    code = permit.code
    why = NOT_ADDED if code in OUTSIDE else code.text
    if code is ErrorCode.NONE and _is_spent(permit, partition, header):
        code, why = ErrorCode.NOT_ENOUGH_REPLICAS, "a transaction ended meanwhile; send it again"
    if code is ErrorCode.NONE:
        return
    raise RefusedUnseen(code, why)


def _is_spent(permit: Permit, partition: Partition, header: BatchHeader) -> bool:
    """Tell whether a permit was for a partition, or for a transaction, that is no more."""
    if permit.partition is not partition or permit.leader_epoch != partition.role.leader_epoch:
        return True
    count = permit.marker_count
    return count is not None and count != partition.marker_count(header.producer_id)


def _producer(header: BatchHeader) -> ProducerIdentity:
    return ProducerIdentity(header.producer_id, header.producer_epoch)


def _is_open(partition: Partition, header: BatchHeader) -> bool:
    return partition.has_open_transaction(header.producer_id, header.producer_epoch)


def _merged(permits: list[Permits]) -> Permits:
    return {key: permit for some in permits for key, permit in some.items()}
