"""Makes an image from the records of a log or a snapshot.

Changes inside a metadata transaction (KIP-868) count once its end record is read, and never if it
was aborted. A transaction that is open at the end of the log was cut off by a crash. Then the store
must write an abort record before anything else (`open_transaction`), as Kafka's next controller
does: records after it would otherwise become part of the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.base.errors import CorruptRecords
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.record_codec import TransactionMark, decode_record

_CHANGES_AT_ONCE: Final = 10_000
"""Each apply copies the dict of topics. With this many changes at once the copy costs little."""


class CountedChanges:
    """The changes of a log that count, in order; those of an open transaction wait for its end."""

    def __init__(self) -> None:
        self._counted: list[Change] = []
        self._transaction: list[Change] | None = None
        self._begun_at = 0

    def __len__(self) -> int:
        return len(self._counted)

    @property
    def open_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._transaction is not None

    def take(self, value: bytes, offset: int = 0) -> None:
        """Read one record."""
        change = decode_record(value)
        if change is None:
            return
        if isinstance(change, TransactionMark):
            self._mark(change, offset)
        elif self._transaction is None:
            self._counted.append(change)
        else:
            self._transaction.append(change)

    def drain(self) -> list[Change]:
        """Return the changes that count and were not returned before."""
        counted, self._counted = self._counted, []
        return counted

    def version(self, next_offset: int) -> int:
        """Return the version of an image that has all counted changes of the log so far.

        `next_offset` is where the log goes on. An open transaction is in no image.
        """
        return self._begun_at if self.open_transaction else next_offset

    def _mark(self, mark: TransactionMark, offset: int) -> None:
        begins = mark is TransactionMark.BEGIN
        if begins is self.open_transaction:
            raise CorruptRecords(
                "a metadata transaction begins within another"
                if begins
                else "a metadata transaction ends that has not begun"
            )
        if mark is TransactionMark.END:
            self._counted += self._transaction or ()
        self._transaction = [] if begins else None
        self._begun_at = offset


class Replay:
    """An image that catches up with a log, before anybody follows it."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._changes = CountedChanges()

    @property
    def open_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._changes.open_transaction

    def take(self, values: Iterable[bytes]) -> None:
        """Read the records of one batch."""
        for value in values:
            self._changes.take(value)
        if len(self._changes) >= _CHANGES_AT_ONCE:
            self.image(self._image.version)

    def image(self, version: int) -> MetadataImage:
        """Return the image of everything that counts so far."""
        self._image = self._image.apply(self._changes.drain(), version)
        return self._image
