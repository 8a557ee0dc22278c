"""The batches of one commit: one batch, or a metadata transaction of several (KIP-868)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from moldau.cluster.in_turns import CHANGES_PER_TURN
from moldau.cluster.record_codec import TRANSACTIONS_LEVEL, TransactionMark, encode_mark
from moldau.cluster.snapshots import batched
from moldau.records.builder import BatchBuilder

FIRST_CHANGES: Final = "Bootstrap records"
"""Kafka's name for the transaction with the first changes of a cluster."""

BATCH_BYTES_MAX: Final = 1 << 20
"""A larger commit becomes a metadata transaction of several batches; Kafka's own stop at 8 MiB."""


class JournalBatch(NamedTuple):
    """A batch ready to be written, and the offset behind it."""

    data: bytes
    next_offset: int


class BatchStamp(NamedTuple):
    """What all batches of a commit share. Kafka refuses a batch whose records differ in time."""

    leader_epoch: int
    now_ms: int
    level: int
    """Of `metadata.version`."""


async def commit_batches(
    values: Sequence[bytes], base_offset: int, stamp: BatchStamp, name: str | None = None
) -> list[JournalBatch]:
    """Write records as one batch; as a transaction if it has a name or grows too large."""
    groups: Iterable[Sequence[bytes]] = [values] if values else []
    large = sum(map(len, values)) > BATCH_BYTES_MAX
    if (large or name) and values and stamp.level >= TRANSACTIONS_LEVEL:
        begin, end = encode_mark(TransactionMark.BEGIN, name), encode_mark(TransactionMark.END)
        groups = batched([begin, *values, end], BATCH_BYTES_MAX)
    batches: list[JournalBatch] = []
    for group in groups:
        builder = BatchBuilder(base_offset=base_offset, leader_epoch=stamp.leader_epoch)
        for count, value in enumerate(group, 1):
            builder.append(stamp.now_ms, None, value)
            if not count % CHANGES_PER_TURN:
                await asyncio.sleep(0)
        base_offset += builder.count
        batches.append(JournalBatch(builder.build(), base_offset))
    return batches
