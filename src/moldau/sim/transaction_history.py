"""What transactional producers wrote and decided, and what readers saw of it (P3, P4, P5, P6).

A value names its transaction. What was not asked to be committed may never be seen by a reader of
committed records; what was, is seen as a whole or not at all; what was acknowledged must be there
in the end, once and in order. The offset that a transaction commits for its producer's group is the
number of the transaction, so that both halves of it, records and offset, can be held against each
other.

One client uses a transactional id at a time, and what it learns when it begins anew settles what
it had left open: by then nothing of the old can happen any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from moldau.sim.history import Violation

NO_OFFSET = -1


class TransactionResult(Enum):
    """How far a transaction is, as its client knows."""

    OPEN = auto()
    ASKED = auto()
    """Its commit was sent: it may have happened."""
    COMMITTED = auto()
    ABORTED = auto()
    """It can not be committed any more."""


@dataclass
class Transaction:
    """One transaction of one transactional id."""

    owner: str
    number: int
    result: TransactionResult = TransactionResult.OPEN
    values: dict[str, list[bytes]] = field(default_factory=dict)
    """By name of a partition, in the order sent."""
    offset: int = NO_OFFSET
    """What it commits for its group, if anything."""
    seen: bool = False
    """Somebody has read of it as committed."""

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.owner} ({self.result.name})"

    def write(self, partition: str) -> bytes:
        """Make the next value for a partition."""
        written = self.values.setdefault(partition, [])
        value = f"{self.owner}/{self.number}/{partition}/{len(written)}".encode()
        written.append(value)
        return value

    def settle(self, *, committed: bool) -> None:
        """Learn what became of it."""
        if self.seen and not committed:
            raise Violation(f"P5: {self} was read as committed and is not")
        if self.result is TransactionResult.COMMITTED and not committed:
            raise Violation(f"P5: {self} was acknowledged and is gone")
        self.result = TransactionResult.COMMITTED if committed else TransactionResult.ABORTED


class TransactionHistory:
    """All transactions of one run."""

    def __init__(self) -> None:
        self._transactions: dict[str, list[Transaction]] = {}

    def begin(self, owner: str) -> Transaction:
        """Begin the next transaction of an id."""
        numbers = self._transactions.setdefault(owner, [])
        transaction = Transaction(owner, len(numbers))
        numbers.append(transaction)
        return transaction

    @property
    def owners(self) -> list[str]:
        """The ids that began a transaction."""
        return list(self._transactions)

    # Readers

    def seen(self, partition: str, value: bytes) -> None:
        """Take a value that a reader of committed records was served."""
        owner, number, place, _ = value.decode().split("/")
        transaction = self._transactions[owner][int(number)]
        if place != partition:
            raise Violation(f"P2: {partition} holds {value!r}, not its own")
        if transaction.result in (TransactionResult.OPEN, TransactionResult.ABORTED):
            raise Violation(f"P3: {partition} served {value!r} of {transaction}")
        transaction.seen = True

    def left_out(self, partition: str, value: bytes) -> None:
        """Take a value that a reader of committed records was told to pass over."""
        owner, number, _, _ = value.decode().split("/")
        transaction = self._transactions[owner][int(number)]
        if transaction.result is TransactionResult.COMMITTED or transaction.seen:
            raise Violation(f"P5: {partition} calls {value!r} aborted, of {transaction}")

    def offset_read(self, owner: str, offset: int) -> None:
        """Take a group's offset that was read while transactions may be open."""
        if offset == NO_OFFSET:
            return
        transaction = self._transactions[owner][offset]
        if transaction.result in (TransactionResult.OPEN, TransactionResult.ABORTED):
            raise Violation(f"P5: the offset of {transaction} was served")
        transaction.seen = True

    def settled(self, owner: str, offset: int) -> None:
        """Take a group's offset when every transaction of the id before is over for sure."""
        for transaction in reversed(self._transactions.get(owner, [])):
            if transaction.result is TransactionResult.OPEN:
                transaction.settle(committed=False)
            if transaction.offset == NO_OFFSET or transaction.result is TransactionResult.ABORTED:
                continue
            here = transaction.offset == offset
            if transaction.result is TransactionResult.ASKED:
                transaction.settle(committed=here)
            elif not here:
                raise Violation(f"P6: {owner} is at {offset}, behind {transaction}")
            if here:
                return
        if offset != NO_OFFSET:
            raise Violation(f"P5: {owner} is at {offset}, which no transaction committed")

    # The end

    def final(self, contents: Mapping[str, list[bytes]]) -> None:
        """Compare with all that a reader of committed records gets, by partition."""
        found = {value for values in contents.values() for value in values}
        expected: dict[str, list[bytes]] = {partition: [] for partition in contents}
        for transaction in itertools.chain.from_iterable(self._transactions.values()):
            own = [value for values in transaction.values.values() for value in values]
            if transaction.result is TransactionResult.ASKED:
                transaction.settle(committed=not found.isdisjoint(own))
            if transaction.result is TransactionResult.COMMITTED:
                for partition, values in transaction.values.items():
                    expected[partition] += values
        for partition, values in contents.items():
            lost = sorted(set(expected[partition]).difference(values))
            if lost:
                raise Violation(f"P5: {partition} lacks {lost[:3]}, which was committed")
            if len(values) != len(expected[partition]):
                raise Violation(f"P4: {partition} has something twice")
            check_order(partition, values)


def check_order(partition: str, values: list[bytes]) -> None:
    """P4: what one producer wrote to a partition stands in the order in which it was sent."""
    last: dict[str, tuple[int, int]] = {}
    for value in values:
        owner, number, _, count = value.decode().split("/")
        place = int(number), int(count)
        if place <= last.get(owner, (-1, -1)):
            raise Violation(f"P4: {partition} has {value!r} behind {last[owner]}")
        last[owner] = place
