"""Admin calls for transactions: list, describe, abort hanging ones, fence producers (KIP-664).

A transaction hangs if a partition has it open but its coordinator does not know it. Consumers with
`read_committed` then stop there forever. To find one, ask the leaders for long open transactions,
and the coordinators whether they know them. To end one, write the missing marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from moldau.client.administration.face import Calls
from moldau.client.administration.partitions import PartitionCalls, ProducerDescription
from moldau.client.administration.topics import TopicCalls
from moldau.client.errors import (
    InvalidRequest,
    InvalidTransactionState,
    TransactionalIdNotFound,
    broker_error,
)
from moldau.client.records import TopicPartition
from moldau.engine.cluster import CoordinatorKind
from moldau.engine.partitions import Partition, as_partition, as_partitions, several
from moldau.engine.results import Results, Tally
from moldau.engine.retry import raise_for
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

BY_DURATION = 1
BY_PATTERN = 2
"""The versions of ListTransactions that can filter so (KIP-994, KIP-1152)."""

NEWEST_WITHOUT_TWO_PHASES = 5
"""Of InitProducerId: the sixth is for transactions that somebody else decides on (KIP-939)."""

LONGEST_TRANSACTION_MS = 15 * 60 * 1000
"""The broker's default for `transaction.max.timeout.ms`: nothing honest is open for longer."""

UNSETTLED = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""The states in which a coordinator still has markers to write."""


class TransactionListing(NamedTuple):
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The state of a transactional id."""

    transactional_id: str
    coordinator: int
    state: str
    """`Empty`, `Ongoing`, `PrepareCommit`, ..., as reported by the broker."""
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    """None if no transaction is open."""
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """An open transaction in a partition that no coordinator will end."""

    partition: TopicPartition
    transactional_id: str | None
    """None if no coordinator knows the producer."""
    producer: ProducerDescription


class FencedProducer(NamedTuple):
    """The producer id and epoch that took over a transactional id; older ones are fenced."""

    producer_id: int
    producer_epoch: int


class TransactionCalls(TopicCalls, PartitionCalls, Calls):
    """Admin calls for transactions."""

    # Looking

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        min_duration_ms: int | None = None,
        pattern: str | None = None,
        timeout_ms: float | None = None,
    ) -> list[TransactionListing]:
        """List transactional ids: `await admin.list_transactions(states=["Ongoing"])`.

        Asks every broker. `pattern` is a regular expression that matches whole ids.
        """
        request = ListTransactionsRequest(
            several(states, "states"),
            several(producer_ids, "producer_ids"),
            -1 if min_duration_ms is None else min_duration_ms,
            pattern,
        )
        least = BY_DURATION if min_duration_ms is not None else 0
        if pattern is not None:
            least = BY_PATTERN

        async def ask(broker_id: int) -> list[TransactionListing]:
            answer = await self._asking.ask(broker_id, request, least=least)
            raise_for(answer.error_code)
            if answer.unknown_state_filters:
                unknown = ", ".join(answer.unknown_state_filters)
                raise InvalidRequest(f"broker {broker_id} knows no transaction state {unknown}")
            return [
                TransactionListing(one.transactional_id, one.producer_id, one.transaction_state)
                for one in answer.transaction_states
            ]

        found = await self._asking.each_broker(ask, self._asking.deadline(timeout_ms))
        by_id = {one.transactional_id: one for listed in found.values() for one in listed}
        return [by_id[transactional_id] for transactional_id in sorted(by_id)]

    async def describe_transaction(
        self, transactional_id: str, *, timeout_ms: float | None = None
    ) -> TransactionDescription:
        """Describe a transactional id: `(await admin.describe_transaction("t")).state`."""
        results = await self.describe_transactions([transactional_id], timeout_ms=timeout_ms)
        return results[transactional_id]

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, TransactionDescription]:
        """Describe transactional ids: `(await admin.describe_transactions(ids)).ok`."""
        deadline = self._asking.deadline(timeout_ms)

        async def attempt(tally: Tally[str, TransactionDescription]) -> None:
            async def ask(coordinator: int, asked: list[str]) -> None:
                answer = await self._asking.ask(coordinator, DescribeTransactionsRequest(asked))
                for told in answer.transaction_states:
                    if told.error_code == ErrorCode.NONE:
                        tally.done(told.transactional_id, _described(told, coordinator))
                    elif told.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                        what = f"there is no transactional id {told.transactional_id!r}"
                        tally.refuse(told.transactional_id, TransactionalIdNotFound(what))
                    else:
                        tally.fail(told.transactional_id, broker_error(told.error_code))

            await self._asking.of_coordinators(tally, CoordinatorKind.TRANSACTION, ask, deadline)

        return await self._asking.settle(
            several(transactional_ids, "transactional_ids"), attempt, deadline
        )

    async def find_hanging_transactions(
        self,
        partitions: Iterable[Partition] | None = None,
        *,
        max_transaction_timeout_ms: int = LONGEST_TRANSACTION_MS,
        timeout_ms: float | None = None,
    ) -> list[HangingTransaction]:
        """Find transactions without a coordinator: `await admin.find_hanging_transactions()`.

        By default it checks all partitions. It skips producers that were active within the brokers'
        longest transaction timeout.
        """
        if partitions is None:
            listed = await self.list_topics(include_internal=True, timeout_ms=timeout_ms)
            partitions = [
                (topic.name, number)
                for topic in listed.values()
                for number in range(topic.partition_count)
            ]
        producers = await self.describe_producers(partitions, timeout_ms=timeout_ms)
        oldest_ms = self._asking.cluster.ports.clock.wall_ms() - max_transaction_timeout_ms
        suspects = [
            HangingTransaction(partition, None, producer)
            for partition, active in producers.or_raise().items()
            for producer in active
            if producer.transaction_start_offset is not None
            and (producer.last_timestamp_ms or 0) <= oldest_ms
        ]
        if not suspects:
            return []
        return await self._not_accounted_for(suspects, timeout_ms)

    async def _not_accounted_for(
        self, suspects: Sequence[HangingTransaction], timeout_ms: float | None
    ) -> list[HangingTransaction]:
        ids = {suspect.producer.producer_id for suspect in suspects}
        listed = await self.list_transactions(producer_ids=ids, timeout_ms=timeout_ms)
        names = {one.producer_id: one.transactional_id for one in listed}
        described = await self.describe_transactions(names.values(), timeout_ms=timeout_ms)
        for error in described.errors.values():
            if not isinstance(error, TransactionalIdNotFound):
                raise error
        hanging = []
        for suspect in suspects:
            name = names.get(suspect.producer.producer_id)
            known = described.ok.get(name) if name is not None else None
            if known is None or not _accounts_for(known, suspect):
                hanging.append(HangingTransaction(suspect.partition, name, suspect.producer))
        return hanging

    # Ending

    async def abort_transaction(
        self,
        partition: Partition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
        timeout_ms: float | None = None,
    ) -> None:
        """Abort a hanging transaction of a producer in one partition, without its coordinator.

        `await admin.abort_transaction(("t", 0), producer_id=4000, producer_epoch=3)`. Use it only
        for hanging transactions: it would abort one partition of an active one.
        """
        where = as_partition(partition)
        marker = WritableTxnMarker(
            producer_id,
            producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(where.topic, [where.partition])],
            coordinator_epoch=coordinator_epoch,
        )

        async def attempt(tally: Tally[TopicPartition, None]) -> None:
            async def ask(leader: int, asked: list[TopicPartition]) -> None:
                del asked
                answer = await self._asking.ask(leader, WriteTxnMarkersRequest([marker]))
                for written in answer.markers:
                    for topic in written.topics:
                        for told in topic.partitions:
                            done = TopicPartition(topic.name, told.partition_index)
                            if told.error_code == ErrorCode.NONE:
                                tally.done(done, None)
                            else:
                                tally.fail(done, broker_error(told.error_code))

            await self._asking.of_leaders(tally, ask)

        deadline = self._asking.deadline(timeout_ms)
        (await self._asking.settle([where], attempt, deadline))[where]

    async def abort_hanging_transaction(
        self,
        partition: Partition,
        start_offset: int,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Abort the hanging transaction that starts at an offset of a partition.

        `await admin.abort_hanging_transaction(("t", 0), 1234)`. Raises InvalidTransactionState if
        none starts there.
        """
        (where,) = as_partitions([partition])
        for producer in (await self.describe_producers([where], timeout_ms=timeout_ms))[where]:
            if producer.transaction_start_offset == start_offset:
                await self.abort_transaction(
                    where,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    coordinator_epoch=producer.coordinator_epoch or 0,
                    timeout_ms=timeout_ms,
                )
                return
        raise InvalidTransactionState(
            f"no open transaction begins at {where} offset {start_offset}"
        )

    # Fencing

    async def fence_producer(
        self, transactional_id: str, *, timeout_ms: float | None = None
    ) -> FencedProducer:
        """Fence the producers of a transactional id: `await admin.fence_producer("copier-1")`.

        Its open transaction is aborted.
        """
        results = await self.fence_producers([transactional_id], timeout_ms=timeout_ms)
        return results[transactional_id]

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, FencedProducer]:
        """Fence the producers of transactional ids: `await admin.fence_producers(ids)`."""
        deadline = self._asking.deadline(timeout_ms)

        async def fence(transactional_id: str) -> FencedProducer:
            async def attempt(coordinator: int) -> FencedProducer:
                request = InitProducerIdRequest(
                    transactional_id, self._asking.cluster.settings.request_timeout_ms
                )
                answer: InitProducerIdResponse = await self._asking.ask(
                    coordinator, request, most=NEWEST_WITHOUT_TWO_PHASES
                )
                raise_for(answer.error_code)
                return FencedProducer(answer.producer_id, answer.producer_epoch)

            return await self._asking.at_coordinator(
                CoordinatorKind.TRANSACTION, transactional_id, attempt, deadline
            )

        return await self._asking.each(several(transactional_ids, "transactional_ids"), fence)


def _described(told: DescribedTransaction, coordinator: int) -> TransactionDescription:
    return TransactionDescription(
        told.transactional_id,
        coordinator,
        told.transaction_state,
        told.producer_id,
        told.producer_epoch,
        told.transaction_timeout_ms,
        told.transaction_start_time_ms if told.transaction_start_time_ms >= 0 else None,
        frozenset(
            TopicPartition(topic.topic, partition)
            for topic in told.topics
            for partition in topic.partitions
        ),
    )


def _accounts_for(known: TransactionDescription, suspect: HangingTransaction) -> bool:
    """Tell whether a coordinator will end by itself what a partition holds open."""
    return (
        known.state in UNSETTLED
        and known.producer_id == suspect.producer.producer_id
        and known.producer_epoch >= suspect.producer.producer_epoch
        and suspect.partition in known.partitions
    )
