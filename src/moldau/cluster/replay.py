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


class Replay:
    """Builds an image from records."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._ready: list[Change] = []
        self._transaction: list[Change] | None = None

    @property
    def open_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._transaction is not None

    def take(self, values: Iterable[bytes]) -> None:
        """Read the records of one batch."""
        for value in values:
            change = decode_record(value)
            if change is None:
                continue
            if isinstance(change, TransactionMark):
                self._mark(change)
            elif self._transaction is None:
                self._ready.append(change)
            else:
                self._transaction.append(change)
        if len(self._ready) >= _CHANGES_AT_ONCE:
            self.image(self._image.version)

    def image(self, version: int) -> MetadataImage:
        """Return the image of all changes that count so far."""
        self._image = self._image.apply(self._ready, version)
        self._ready = []
        return self._image

    def _mark(self, mark: TransactionMark) -> None:
        begins = mark is TransactionMark.BEGIN
        if begins is self.open_transaction:
            raise CorruptRecords(
                "a metadata transaction begins within another"
                if begins
                else "a metadata transaction ends that has not begun"
            )
        if mark is TransactionMark.END:
            self._ready += self._transaction or ()
        self._transaction = [] if begins else None
