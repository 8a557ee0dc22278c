"""Processes many changes, a few hundred in each turn of the event loop.

One request may create ten thousand partitions, with a change for each. Decisions return iterators
that make their changes lazily, so the consumer of an iterator can pause between two changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage

CHANGES_PER_TURN: Final = 200
"""Changes that are made, encoded or applied in one turn of the loop: one or two milliseconds."""


async def collect_changes(changes: Iterable[Change]) -> list[Change]:
    """Return all changes of a decision, with pauses."""
    taken = []
    for count, change in enumerate(changes, 1):
        taken.append(change)
        if not count % CHANGES_PER_TURN:
            await asyncio.sleep(0)
    return taken


async def preview(image: MetadataImage, changes: Iterable[Change]) -> MetadataImage:
    """Return an image as these changes would make it, at the same version."""
    return await apply_in_turns(image, changes, image.version)


async def apply_in_turns(
    image: MetadataImage, changes: Iterable[Change], version: int
) -> MetadataImage:
    """Return the image after these changes."""
    draft = image.draft()
    for count, change in enumerate(changes, 1):
        draft.take(change)
        if not count % CHANGES_PER_TURN:
            await asyncio.sleep(0)
    for count, _ in enumerate(draft.settle_topics(), 1):
        if not count % CHANGES_PER_TURN:
            await asyncio.sleep(0)
    return draft.finish(version)
