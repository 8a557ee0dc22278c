"""A transactional producer: writes to several partitions and keeps an offset, all or nothing.

A transaction is a row of steps. A step that is not answered is taken again over the next
connection, under the same sequence numbers, as clients do; or the producer gives up and starts
anew, which shuts its former self out. The former self is not always dead: it comes back once, and
whatever it still tries must be refused.

Three generations of clients (KIP-98, KIP-447, KIP-890) differ in what they announce beforehand and
in whose epoch rises when.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, NamedTuple

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import PartitionProduceData, ProduceRequest, TopicProduceData
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
from moldau.sim.history import Violation
from moldau.sim.transaction_history import Transaction, TransactionResult
from moldau.sim.workload.client import RETRY_S, Link
from moldau.sim.workload.coordinated import Coordinated, CoordinatorKind
from moldau.sim.workload.targets import Targets

BATCHES_MAX = 4
RECORDS_MAX = 3
OFFSET_PARTITION = 0

RETRIED = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS})
SHUT_OUT = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""What a producer is told whose transaction was ended over its head."""


class Versions(NamedTuple):
    """Of the requests that a client of one age sends."""

    init: int
    add: int
    """Of AddPartitionsToTxn and AddOffsetsToTxn; 0 where the broker adds by itself."""
    produce: int
    offsets: int
    end: int


class Age(Enum):
    """How old a client is."""

    FIRST = Versions(init=1, add=1, produce=7, offsets=2, end=1)
    VERIFIED = Versions(init=4, add=3, produce=11, offsets=4, end=4)
    EPOCH_PER_TRANSACTION = Versions(init=5, add=0, produce=12, offsets=5, end=5)


class TransactorPlan(NamedTuple):
    """What kind of producer it is."""

    age: Age
    timeout_ms: int
    pause_s: float
    abandons: bool
    """When the run is to end it is gone, whatever it has open."""


class Producer(NamedTuple):
    """Who may write under the transactional id."""

    producer_id: int
    epoch: int


class Former(NamedTuple):
    """A process that does not know that another has taken its place."""

    producer: Producer
    number: int
    """Of its last transaction."""


Step = Callable[[Link], Coroutine[Any, Any, int]]
"""Asks for something; returns the error code."""


class Transactor(Coordinated):
    """One transactional id, and the process that has it."""

    give_up_chance = 0.4
    """How often a lost connection ends the process."""

    def __init__(self, targets: Targets, name: str, plan: TransactorPlan) -> None:
        super().__init__(targets, name)
        self._plan = plan
        self._versions = plan.age.value
        self._group = group_of(name)
        self._producer: Producer | None = None
        self._former: Former | None = None
        self._transaction: Transaction | None = None
        self._begun_s = 0.0
        self._steps: deque[Step] = deque()
        self._sequences: dict[int, int] = {}

    @property
    def finished(self) -> bool:
        if not self.targets.stopped:
            return False
        return self._plan.abandons or (self._producer is not None and not self._steps)

    async def work(self, link: Link) -> None:
        await self.find(link, CoordinatorKind.TRANSACTION, self.name)
        await self.find(link, CoordinatorKind.GROUP, self._group)
        while not self.finished:
            if self._producer is None:
                await self._begin(link)
            elif self._steps:
                await self._take(link, self._steps[0])
            else:
                await asyncio.sleep(self.chance.expovariate(1 / self._plan.pause_s))
                if not self.targets.stopped:
                    self._plan_transaction()

    def connection_lost(self) -> None:
        super().connection_lost()
        if self.chance.random() < self.give_up_chance:
            self._give_up()

    def _give_up(self) -> None:
        """Be another process from now on; the one before may still be about."""
        if self._producer is not None and self._transaction is not None:
            self._former = Former(self._producer, self._transaction.number)
        self._producer = None
        self._steps.clear()
        self._sequences.clear()

    # Beginning

    async def _begin(self, link: Link) -> None:
        """Take the id, and learn what became of what was left open."""
        request = InitProducerIdRequest(self.name, self._plan.timeout_ms)
        answer = await link.call(request, self._versions.init)
        if answer.error_code:
            await self._wait("a producer id", answer.error_code)
            return
        found = await self.read_offsets(link, self._group, stable=True)
        while found is None:
            await asyncio.sleep(RETRY_S)
            found = await self.read_offsets(link, self._group, stable=True)
        self.targets.transactions.settled(self.name, found[OFFSET_PARTITION])
        self._producer = Producer(answer.producer_id, answer.producer_epoch)
        self._transaction = None
        if self._former is not None:
            former, self._former = self._former, None
            await self._haunt(link, former)

    async def _haunt(self, link: Link, former: Former) -> None:
        """Go on as the process that was shut out: nothing of it may be taken (P5)."""
        transaction = self.targets.transactions.begin(self.name)
        transaction.result = TransactionResult.ABORTED
        index = self.chance.randrange(self.targets.kept.partition_count)
        value = transaction.write(self._place(index))
        attempts: dict[str, Step] = {
            "a batch": lambda link: self._produce(link, former.producer, index, [value], 0),
            "an offset": lambda link: self._offset(link, former.producer, former.number),
            "an end": lambda link: self._end_of_former(link, former.producer),
        }
        for what, attempt in attempts.items():
            error = ErrorCode.of(await attempt(link))
            if error is ErrorCode.NONE:
                raise Violation(f"P5: {self.name}: {what} of {former} was taken, it is shut out")
            self.targets.seen["producer fenced"] += error in SHUT_OUT

    # A transaction

    def _plan_transaction(self) -> None:
        transaction = self.targets.transactions.begin(self.name)
        self._transaction = transaction
        self._begun_s = self.targets.world.loop.time()
        count = self.targets.kept.partition_count
        indexes = [self.chance.randrange(count) for _ in range(self.chance.randint(1, BATCHES_MAX))]
        if self._versions.add:
            self._steps.append(lambda link: self._add_partitions(link, sorted(set(indexes))))
        for index in indexes:
            self._steps.append(self._batch_step(transaction, index))
        if self.chance.random() < 0.75:
            transaction.offset = transaction.number
            if self._versions.add:
                self._steps.append(self._add_offsets)
            self._steps.append(lambda link: self._offset(link, self._who(), transaction.number))
        if self.chance.random() < 0.1:
            self._steps.append(self._stall)
        commit = self.chance.random() < 0.75
        if not commit:
            transaction.settle(committed=False)
        self._steps.append(lambda link: self._end(link, transaction, commit=commit))

    def _who(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _place(self, index: int) -> str:
        return f"{self.targets.kept.name}-{index}"

    async def _take(self, link: Link, step: Step) -> None:
        code = await step(link)
        error = ErrorCode.of(code)
        if error is ErrorCode.NONE:
            if self._steps and self._steps[0] is step:
                self._steps.popleft()
            if self.chance.random() < 0.02:
                self.targets.seen["producer replaced"] += 1
                self._give_up()
        elif error in SHUT_OUT:
            self._check_shut_out(error)
            self._give_up()
        else:
            await self._wait("a step", code)

    def _check_shut_out(self, error: ErrorCode) -> None:
        """A transaction is ended over its producer's head only when its time is over."""
        age_s = self.targets.world.loop.time() - self._begun_s
        if age_s * 1000 < self._plan.timeout_ms:
            raise Violation(
                f"P5: {self.name} was shut out of {self._transaction} after {age_s:.3f} s: "
                f"{error.name}"
            )
        self.targets.seen["transaction timed out"] += 1

    async def _wait(self, what: str, code: int) -> None:
        """Come again after an error that passes."""
        if ErrorCode.of(code) not in RETRIED:
            self.check_passes(what, code)
        await asyncio.sleep(RETRY_S)

    async def _stall(self, link: Link) -> int:
        """Do nothing for longer than a transaction may take."""
        del link
        await asyncio.sleep(self._plan.timeout_ms / 1000 * self.chance.uniform(0.8, 1.6))
        return ErrorCode.NONE

    # Steps

    async def _add_partitions(self, link: Link, indexes: list[int]) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._who().producer_id,
            v3_and_below_producer_epoch=self._who().epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(self.targets.kept.name, indexes)],
        )
        response = await link.call(request, self._versions.add)
        results = response.results_by_topic_v3_and_below[0].results_by_partition
        return next((one.partition_error_code for one in results if one.partition_error_code), 0)

    def _batch_step(self, transaction: Transaction, index: int) -> Step:
        values: list[bytes] = []
        count = self.chance.randint(1, RECORDS_MAX)

        async def step(link: Link) -> int:
            if not values:
                values.extend(transaction.write(self._place(index)) for _ in range(count))
            sequence = self._sequences.setdefault(index, 0)
            code = await self._produce(link, self._who(), index, values, sequence)
            if not code:
                self._sequences[index] = sequence + count
                self.targets.seen["written in a transaction"] += count
            return code

        return step

    async def _produce(
        self, link: Link, producer: Producer, index: int, values: list[bytes], sequence: int
    ) -> int:
        builder = BatchBuilder(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        for value in values:
            builder.append(self.targets.world.clock.wall_ms(), None, value)
        topic = self.targets.kept
        data = [PartitionProduceData(index, builder.build())]
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(topic.name, topic.id, data)],
        )
        response = await link.call(request, self._versions.produce)
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    async def _add_offsets(self, link: Link) -> int:
        request = AddOffsetsToTxnRequest(
            self.name, self._who().producer_id, self._who().epoch, self._group
        )
        code: int = (await link.call(request, self._versions.add)).error_code
        return code

    async def _offset(self, link: Link, producer: Producer, offset: int) -> int:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=OFFSET_PARTITION, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self._group,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(self.targets.kept.name, b"", [partition])],
        )
        response = await link.call(request, self._versions.offsets)
        code: int = response.topics[0].partitions[0].error_code
        return code

    async def _end(self, link: Link, transaction: Transaction, *, commit: bool) -> int:
        if commit:
            transaction.result = TransactionResult.ASKED
        request = EndTxnRequest(self.name, *self._who(), committed=commit)
        response = await link.call(request, self._versions.end)
        if response.error_code:
            return int(response.error_code)
        if commit:
            transaction.settle(committed=True)
        self.targets.seen["committed" if commit else "aborted"] += 1
        following = self._producer
        if response.producer_id >= 0:
            following = Producer(response.producer_id, response.producer_epoch)
        if following != self._producer:
            self._producer = following
            self._sequences.clear()
        return ErrorCode.NONE

    async def _end_of_former(self, link: Link, producer: Producer) -> int:
        request = EndTxnRequest(self.name, *producer, committed=True)
        code: int = (await link.call(request, self._versions.end)).error_code
        return code


def group_of(owner: str) -> str:
    """Name the group in which a transactional producer keeps its offset."""
    return f"offsets of {owner}"
