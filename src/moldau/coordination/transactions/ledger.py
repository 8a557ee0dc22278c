"""The transactional ids of one partition: the last record of each, and the steps not committed yet.

State changes in `replay` only, for a record that was just appended and for one that a load reads.
`propose` makes the record of a step. From then until `settle` the id is busy, and no other step may
be proposed. A step that is not committed can be lost with the leadership. If a second step were
decided on it, its client could hear of an epoch or an end that no log has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from moldau.base.checks import invariant
from moldau.coordination.outcome import StateRecord
from moldau.coordination.transactions.records import (
    read_key,
    read_transaction,
    tombstone,
    transaction_record,
)
from moldau.coordination.transactions.transaction import EXPIRABLE, Transaction, check_step


class _Proposal(NamedTuple):
    """A step whose record is not committed yet."""

    value: bytes | None
    transaction: Transaction | None
    """None if the id is to be forgotten."""


class Ledger:
    """Every id of one partition of the transaction log."""

    def __init__(self, transaction_version: Callable[[], int]) -> None:
        self._transaction_version = transaction_version
        self._transactions: dict[str, Transaction] = {}
        self._proposals: dict[str, _Proposal] = {}

    def __len__(self) -> int:
        return len(self._transactions)

    def __iter__(self) -> Iterator[Transaction]:
        """Iterate over all ids, each in the state of its last record."""
        return iter(self._transactions.values())

    def __getitem__(self, transactional_id: str) -> Transaction:
        return self._transactions[transactional_id]

    def ids(self) -> tuple[str, ...]:
        """Return all ids of this moment."""
        return tuple(self._transactions)

    def get(self, transactional_id: str) -> Transaction | None:
        """Return the state of an id; None if the id is unknown."""
        return self._transactions.get(transactional_id)

    def is_proposed(self, transactional_id: str) -> bool:
        """Tell whether a step of this id is proposed and not settled."""
        return transactional_id in self._proposals

    def propose(self, step: Transaction) -> StateRecord:
        """Return the record of a step. The id is busy until `settle`."""
        transactional_id = step.transactional_id
        self._check_free(transactional_id)
        check_step(self._transactions.get(transactional_id), step)
        record = transaction_record(step, self._transaction_version())
        self._proposals[transactional_id] = _Proposal(record.value, step)
        return record

    def propose_to_forget(self, transactional_id: str) -> StateRecord:
        """Return the tombstone of an id that is not used any more. The id is busy until `settle`.

        Only for an id without an open transaction: with its record gone, nobody would end it.
        """
        self._check_free(transactional_id)
        invariant(
            self._transactions[transactional_id].state in EXPIRABLE,
            f"{transactional_id!r} is forgotten in the middle of a transaction",
        )
        self._proposals[transactional_id] = _Proposal(None, None)
        return tombstone(transactional_id)

    def _check_free(self, transactional_id: str) -> None:
        invariant(
            transactional_id not in self._proposals,
            f"{transactional_id!r} takes a step before the last one is committed",
        )

    def settle(self, *transactional_ids: str) -> None:
        """End the proposals of these ids: they are committed, or the log has refused them."""
        for transactional_id in transactional_ids:
            del self._proposals[transactional_id]

    def replay(self, record: StateRecord) -> None:
        """Take a record into the state.

        For a step that was just proposed, the state is the proposed object. It has the fields of
        the record, and `last_producer_epoch`, which the record cannot hold.
        """
        transactional_id = read_key(record.key)
        if record.value is None:
            self._transactions.pop(transactional_id, None)
            return
        proposed = self._proposals.get(transactional_id)
        if proposed is not None and proposed.transaction and proposed.value == record.value:
            self._transactions[transactional_id] = proposed.transaction
        else:
            self._transactions[transactional_id] = read_transaction(transactional_id, record.value)

    def clear(self) -> None:
        """Forget everything: this broker no longer leads the partition."""
        self._transactions.clear()
        self._proposals.clear()


def ids_of(transactions: Iterable[Transaction]) -> tuple[str, ...]:
    """Return the ids of transactions."""
    return tuple(transaction.transactional_id for transaction in transactions)
