"""Whether a producer may write to a partition in its transaction, asked before it does (KIP-890).

A transactional batch is appended only if the coordinator of its transaction knows the partition:
otherwise nobody would ever write the marker that ends it there. Clients of transaction version 2
rely on the broker for more than that, and let it add the partition by the way. They may come with
their next transaction while the last one's markers are still being written, so for them it is
tried again for a moment: that is cheaper than to have the batch sent once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from moldau.base.clock import Clock
from moldau.base.ids import PartitionKey
from moldau.coordination.answers import Answer
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.shard import TransactionShard
from moldau.coordination.transactions.transaction import EPOCH_PER_TRANSACTION
from moldau.protocol.errors import ErrorCode
from moldau.server.transactions.partitions import Verdicts, add_partitions, verify_partitions


class RetrySettings(NamedTuple):
    """How long a partition is tried to be added while the last transaction is being ended."""

    backoff_ms: int
    max_ms: int


class TransactionVerifier:
    """Asks the coordinator of a transaction on behalf of those who write."""

    def __init__(
        self, runtime: Runtime[TransactionShard], clock: Clock, retries: RetrySettings
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._retries = retries

    def verify(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[PartitionKey],
        *,
        add: bool,
    ) -> Answer[Verdicts]:
        """Say of each partition whether the producer has it in its transaction; add it if asked."""
        if not add:
            return verify_partitions(self._runtime, transactional_id, producer, partitions)
        answer = self._add(transactional_id, producer, partitions)
        if isinstance(answer, asyncio.Future) or answer is ErrorCode.CONCURRENT_TRANSACTIONS:
            deadline_s = self._clock.monotonic() + self._retries.max_ms / 1000
            return asyncio.get_running_loop().create_task(
                self._add_patiently(transactional_id, producer, partitions, answer, deadline_s),
                name="add partitions to a transaction",
            )
        return dict.fromkeys(partitions, answer)

    def verify_one(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partition: PartitionKey,
        *,
        add: bool,
    ) -> Answer[ErrorCode]:
        """Say the same of a single partition."""
        answer = self.verify(transactional_id, producer, (partition,), add=add)
        if not isinstance(answer, asyncio.Future):
            return answer[partition]
        return asyncio.get_running_loop().create_task(_verdict(answer, partition))

    def _add(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[PartitionKey],
    ) -> Answer[ErrorCode]:
        return add_partitions(
            self._runtime, transactional_id, producer, partitions, EPOCH_PER_TRANSACTION
        )

    async def _add_patiently(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[PartitionKey],
        answer: Answer[ErrorCode],
        deadline_s: float,
    ) -> Verdicts:
        while True:
            code = await answer if isinstance(answer, asyncio.Future) else answer
            late = self._clock.monotonic() >= deadline_s
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS or late:
                return dict.fromkeys(partitions, code)
            await asyncio.sleep(self._retries.backoff_ms / 1000)
            answer = self._add(transactional_id, producer, partitions)


async def _verdict(answer: asyncio.Future[Verdicts], partition: PartitionKey) -> ErrorCode:
    return (await answer)[partition]
