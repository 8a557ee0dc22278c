"""Whether a producer may write to a partition in its transaction, asked before it does (KIP-890).

A transactional batch is appended only if the coordinator of its transaction knows the partition:
otherwise nobody would ever write the marker that ends it there. Clients of transaction version 2
rely on the broker for more than that, and let it add the partition by the way. They may come with
their next transaction while the last one's markers are still being written, so for them it is
tried again for a moment: that is cheaper than to have the batch sent once more.

The coordinator may be on another broker than the partition (`remote_verification`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.base.clock import Clock
from moldau.base.ids import BrokerId, PartitionKey
from moldau.coordination.answers import Answer, combined
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.shard import TransactionShard
from moldau.coordination.transactions.transaction import EPOCH_PER_TRANSACTION
from moldau.protocol.errors import ErrorCode
from moldau.server.transactions.partitions import Verdicts, add_partitions, verify_partitions
from moldau.server.transactions.remote_verification import RemoteCoordinators


class RetrySettings(NamedTuple):
    """How long a partition is tried to be added while the last transaction is being ended."""

    backoff_ms: int
    max_ms: int


class TransactionVerifier:
    """Asks the coordinator of a transaction on behalf of those who write."""

    def __init__(
        self,
        runtime: Runtime[TransactionShard],
        clock: Clock,
        retries: RetrySettings,
        remote: RemoteCoordinators,
        other_coordinator: Callable[[str], BrokerId | None],
    ) -> None:
        """`other_coordinator` names the broker that has an id; None for this one, or nobody."""
        self._runtime = runtime
        self._clock = clock
        self._retries = retries
        self._remote = remote
        self._other_coordinator = other_coordinator

    def verify(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[PartitionKey],
        *,
        add: bool,
    ) -> Answer[Verdicts]:
        """Say of each partition whether the producer has it in its transaction; add it if asked."""
        answer = self._ask(transactional_id, producer, partitions, add=add)
        if not add or not (isinstance(answer, asyncio.Future) or _must_wait(answer)):
            return answer
        deadline_s = self._clock.monotonic() + self._retries.max_ms / 1000
        return asyncio.get_running_loop().create_task(
            self._add_patiently(transactional_id, producer, partitions, answer, deadline_s),
            name="add partitions to a transaction",
        )

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

    def _ask(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[PartitionKey],
        *,
        add: bool,
    ) -> Answer[Verdicts]:
        """Ask the coordinator once, wherever it is now."""
        other = self._other_coordinator(transactional_id)
        if other is not None:
            return self._remote.ask(other, transactional_id, producer, partitions, add=add)
        if not add:
            return verify_partitions(self._runtime, transactional_id, producer, partitions)
        added = add_partitions(
            self._runtime, transactional_id, producer, partitions, EPOCH_PER_TRANSACTION
        )
        return combined([added], lambda codes: dict.fromkeys(partitions, codes[0]))

    async def _add_patiently(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[PartitionKey],
        answer: Answer[Verdicts],
        deadline_s: float,
    ) -> Verdicts:
        while True:
            verdicts = await answer if isinstance(answer, asyncio.Future) else answer
            if not _must_wait(verdicts) or self._clock.monotonic() >= deadline_s:
                return verdicts
            await asyncio.sleep(self._retries.backoff_ms / 1000)
            answer = self._ask(transactional_id, producer, partitions, add=True)


def _must_wait(verdicts: Verdicts) -> bool:
    """Tell whether the last transaction of the id is still being ended."""
    return ErrorCode.CONCURRENT_TRANSACTIONS in verdicts.values()


async def _verdict(answer: asyncio.Future[Verdicts], partition: PartitionKey) -> ErrorCode:
    return (await answer)[partition]
