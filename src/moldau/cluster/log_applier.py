"""From the committed part of a journal to images, while others follow them.

Batches are read back from the journal, some kilobytes a turn of the event loop, so that what was
fetched a moment ago and what a start finds on the disk go the same way. Each turn publishes one
image. Commits are never split: what belongs to a metadata transaction is published with its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from moldau.base.checks import invariant
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.in_turns import CHANGES_PER_TURN, apply_in_turns
from moldau.cluster.journal import Journal
from moldau.cluster.quorum import Quorum
from moldau.cluster.replay import CountedChanges
from moldau.records.batch import iter_batches, parse_header
from moldau.records.record import read_records

_SLICE_BYTES: Final = 16 << 10
"""Read in one turn of the loop: some two hundred records; a larger batch takes several turns."""

Publish = Callable[[Sequence[Change], MetadataImage], None]
"""Makes an image the newest one. It may be newer by version alone: then there are no changes."""


class LogApplier:
    """An image that follows a journal."""

    def __init__(
        self, journal: Journal, image: MetadataImage, quorum: Quorum, publish: Publish
    ) -> None:
        self._journal = journal
        self._image = image
        self._quorum = quorum
        self._publish = publish
        self._changes = CountedChanges()
        self._first_offset = image.version
        self.applied_offset = image.version
        """Every record before this one was read; those of an open transaction wait."""

    @property
    def is_in_transaction(self) -> bool:
        """Whether a metadata transaction has begun and not ended."""
        return self._changes.open_transaction

    def adopt(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Go on behind a commit whose image is known: it need not be read back."""
        invariant(not self.is_in_transaction, "a commit within another one's transaction")
        self._image, self.applied_offset = image, image.version
        self._publish(changes, image)

    async def apply_up_to(self, offset: int) -> None:
        """Read all records before this offset; CorruptRecords if one makes no sense."""
        while self.applied_offset < offset:
            region = self._journal.region(self.applied_offset, offset, _SLICE_BYTES)
            if region is None:
                invariant(
                    condition=False, message=f"the journal lacks offset {self.applied_offset}"
                )
                return
            await self._read(region.file.read(region.position, region.size))
            await self._publish_counted()
            await asyncio.sleep(0)

    async def _read(self, data: bytes) -> None:
        read = 0
        for span in iter_batches(data):
            header = parse_header(data, span.position)
            for record in read_records(data, span.position):
                if header.control:
                    self._quorum.learn(record)
                elif record.offset >= self._first_offset:
                    self._changes.take(record.value or b"", record.offset)
                read += 1
                if not read % CHANGES_PER_TURN:
                    await asyncio.sleep(0)
            self.applied_offset = header.next_offset

    async def _publish_counted(self) -> None:
        version = self._changes.version(self.applied_offset)
        changes = self._changes.drain()
        if version > self._image.version:
            self._image = await apply_in_turns(self._image, changes, version)
            self._publish(changes, self._image)
