"""The transactional ids of one partition: what the log says of each, and which are between steps.

State changes by `replay` alone, when a record is just written and when it is read back after a
restart. Between a step's record and its commit the id is busy: what is written may still be lost
with the leadership, and must not be built upon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from moldau.coordination.outcome import StateRecord
from moldau.coordination.transactions.records import (
    read_key,
    read_transaction,
    tombstone,
    transaction_record,
)
from moldau.coordination.transactions.transaction import Transaction


class _Proposal(NamedTuple):
    """A step that is written but not committed."""

    value: bytes | None
    transaction: Transaction | None
    """None where the id is forgotten."""


class Ledger:
    """Every id of one partition of the transaction log."""

    def __init__(self, transaction_version: Callable[[], int]) -> None:
        self._transaction_version = transaction_version
        self._transactions: dict[str, Transaction] = {}
        self._proposals: dict[str, _Proposal] = {}

    def __len__(self) -> int:
        return len(self._transactions)

    def __iter__(self) -> Iterator[Transaction]:
        """Go through every id, as its last record left it."""
        return iter(self._transactions.values())

    def __getitem__(self, transactional_id: str) -> Transaction:
        return self._transactions[transactional_id]

    def ids(self) -> tuple[str, ...]:
        """Return all ids there are now."""
        return tuple(self._transactions)

    def get(self, transactional_id: str) -> Transaction | None:
        """Look an id up."""
        return self._transactions.get(transactional_id)

    def is_proposed(self, transactional_id: str) -> bool:
        """Tell whether a step of this id is written and not settled."""
        return transactional_id in self._proposals

    def propose(self, step: Transaction) -> StateRecord:
        """Write a step down; its id is busy until it is settled."""
        record = transaction_record(step, self._transaction_version())
        self._proposals[step.transactional_id] = _Proposal(record.value, step)
        return record

    def propose_to_forget(self, transactional_id: str) -> StateRecord:
        """Write down that an id is not used any more."""
        self._proposals[transactional_id] = _Proposal(None, None)
        return tombstone(transactional_id)

    def settle(self, *transactional_ids: str) -> None:
        """Let steps be over: committed, or refused by the log."""
        for transactional_id in transactional_ids:
            del self._proposals[transactional_id]

    def replay(self, record: StateRecord) -> None:
        """Take a record into the state.

        A step just proposed is taken as it is: it says the same, and what the record has no room
        for besides.
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
        """Forget everything: somebody else has the log."""
        self._transactions.clear()
        self._proposals.clear()


def ids_of(transactions: Iterable[Transaction]) -> tuple[str, ...]:
    """Name transactions."""
    return tuple(transaction.transactional_id for transaction in transactions)
