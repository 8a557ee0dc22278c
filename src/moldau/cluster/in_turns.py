"""Processes many changes, a few hundred in each turn of the event loop.

One request may create ten thousand partitions, a change each. Decisions make their changes as they
are taken, so that whoever takes them decides when others get their turn. A decision that looks at
many partitions and changes few of them says None now and then (`steps`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.steps import Step

CHANGES_PER_TURN: Final = 200
"""Changes that are made, encoded or applied in one turn of the loop: one or two milliseconds."""


async def collect_changes(changes: Iterable[Step]) -> list[Change]:
    """Take all changes of a decision."""
    taken = []
    for count, change in enumerate(changes, 1):
        if change is not None:
            taken.append(change)
        if not count % CHANGES_PER_TURN:
            await asyncio.sleep(0)
    return taken


async def preview(image: MetadataImage, changes: Iterable[Step]) -> MetadataImage:
    """Return an image as these changes would make it, at the same version."""
    return await apply_in_turns(image, changes, image.version)


async def apply_in_turns(
    image: MetadataImage, changes: Iterable[Step], version: int
) -> MetadataImage:
    """Return the image after these changes."""
    draft = image.draft()
    for count, change in enumerate(changes, 1):
        if change is not None:
            draft.take(change)
        if not count % CHANGES_PER_TURN:
            await asyncio.sleep(0)
    for count, _ in enumerate(draft.settle_topics(), 1):
        if not count % CHANGES_PER_TURN:
            await asyncio.sleep(0)
    return draft.finish(version)
