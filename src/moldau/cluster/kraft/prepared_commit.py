"""A commit of the active controller, ready to be appended: its batches, and the image after it.

Both are made before anything is written: changes that contradict the image are refused here, with
nothing appended. Offsets and epoch are put in when the batches are appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.cluster.changes import Change
from moldau.cluster.commit_batches import FIRST_CHANGES, BatchStamp, commit_batches
from moldau.cluster.image import ImageDraft, MetadataImage
from moldau.cluster.in_turns import CHANGES_PER_TURN
from moldau.cluster.kraft.raft_log import PreparedBatch
from moldau.cluster.record_codec import (
    TransactionMark,
    encode_change,
    encode_mark,
    metadata_level,
)


class PreparedCommit(NamedTuple):
    """All of one commit."""

    changes: Sequence[Change]
    batches: Sequence[PreparedBatch]
    image_at: Callable[[int], MetadataImage]
    """Makes the image after the commit, by its version."""

    @property
    def record_count(self) -> int:
        return sum(batch.record_count for batch in self.batches)

    @property
    def size(self) -> int:
        """In bytes of the log."""
        return sum(len(batch.data) for batch in self.batches)


async def prepare_commit(
    image: MetadataImage, changes: Sequence[Change], now_ms: int, *, is_aborting: bool = False
) -> PreparedCommit:
    """Encode changes and apply them to a draft; `is_aborting` first ends an open transaction."""
    # The first changes of a cluster say by which level they are written themselves.
    level = metadata_level(image if image.features else image.apply(changes, image.version))
    stamp = BatchStamp(0, now_ms, level)
    values: list[bytes] = []
    draft = image.draft()
    for count, change in enumerate(changes, 1):
        values.append(encode_change(change, level))
        draft.take(change)
        if not count % CHANGES_PER_TURN:
            await asyncio.sleep(0)
    await _settle(draft)
    name = None if image.features else FIRST_CHANGES
    # In a batch of its own: what follows may be a transaction itself.
    aborting = [encode_mark(TransactionMark.ABORT)] if is_aborting else []
    made = await commit_batches(aborting, 0, stamp)
    made += await commit_batches(values, len(aborting), stamp, name)
    batches: list[PreparedBatch] = []
    end = 0
    for batch in made:
        batches.append(PreparedBatch(bytearray(batch.data), batch.next_offset - end))
        end = batch.next_offset
    return PreparedCommit(changes, batches, draft.finish)


async def _settle(draft: ImageDraft) -> None:
    for count, _ in enumerate(draft.settle_topics(), 1):
        if not count % CHANGES_PER_TURN:
            await asyncio.sleep(0)
