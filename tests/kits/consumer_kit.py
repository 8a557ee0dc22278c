"""What tests of the consumer's parts share: batches, and what a fetch answer brings of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from moldau.client.consuming.decoding import DecodingRules, Fetched
from moldau.client.consuming.positions import PartitionState
from moldau.client.records import Record, TopicPartition
from moldau.engine.fetched_batches import split
from moldau.protocol.messages.data import AbortedTransaction
from moldau.records.builder import BatchBuilder
from moldau.records.control import EndTransactionMarker, end_transaction_batch

PARTITION = TopicPartition("t", 0)
PLAIN = DecodingRules()


def batch(base_offset: int, values: Sequence[bytes | None], **builder: Any) -> bytes:
    """Return a batch of records that differ in their values."""
    made = BatchBuilder(base_offset=base_offset, leader_epoch=builder.pop("epoch", 5), **builder)
    for index, value in enumerate(values):
        made.append(1000 + index, b"k%d" % index, value)
    return made.build()


def marker(offset: int, producer_id: int, *, aborted: bool) -> bytes:
    """Return the batch that ends a transaction."""
    return end_transaction_batch(
        EndTransactionMarker(aborted, 0), producer_id, 0, 1000, base_offset=offset, leader_epoch=5
    )


def ready(offset: int = 0) -> PartitionState:
    """Return a partition that is consumed at an offset."""
    state = PartitionState(PARTITION)
    state.seek(offset)
    return state


def fetched(
    content: bytes,
    offset: int = 0,
    *,
    aborted: Iterable[tuple[int, int]] = (),
    rules: DecodingRules = PLAIN,
    state: PartitionState | None = None,
) -> Fetched:
    """Return what a fetch at an offset brought."""
    view = memoryview(content)
    told = [AbortedTransaction(*one) for one in aborted]
    return Fetched(state or ready(offset), view, split(view, offset), told, rules)


def take_all(answer: Fetched, count: int = 500) -> list[Record[Any, Any]]:
    """Take everything, this many records at a time."""
    records: list[Record[Any, Any]] = []
    while (taken := answer.take(count)) is not None:
        assert len(taken.records) <= count
        records += taken.records
    return records
