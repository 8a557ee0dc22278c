"""The two questions about the partitions of a transaction, put to the coordinator that has its id.

Clients ask by AddPartitionsToTxn, and whoever writes in a transaction asks on their behalf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from moldau.base.ids import PartitionKey
from moldau.coordination.answers import Answer
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.shard import TransactionShard
from moldau.protocol.errors import ErrorCode

Verdicts: TypeAlias = Mapping[PartitionKey, ErrorCode]
"""NONE, or why a partition may not be written to, in the words of the coordinator."""


def add_partitions(
    runtime: Runtime[TransactionShard],
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Sequence[PartitionKey],
    client_version: int,
) -> Answer[ErrorCode]:
    """Take partitions into the producer's transaction, all of them or none."""
    return runtime.call(
        transactional_id,
        lambda shard, ticket, now: shard.add_partitions(
            transactional_id, producer, partitions, client_version, ticket, now
        ),
        lambda code: code,
    )


def verify_partitions(
    runtime: Runtime[TransactionShard],
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Sequence[PartitionKey],
) -> Answer[Verdicts]:
    """Say of each partition whether the producer has it in its transaction."""
    return runtime.call(
        transactional_id,
        lambda shard, ticket, _: shard.verify_partitions(
            transactional_id, producer, partitions, ticket
        ),
        lambda code: dict.fromkeys(partitions, code),
    )
