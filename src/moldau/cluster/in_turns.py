"""Many changes, a few hundred of them in each turn of the event loop.

One request may create ten thousand partitions, a change each. Decisions make their changes as they
are taken, so that whoever takes them decides when others get their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage

CHANGES_PER_TURN: Final = 200
"""Changes that are made, written or applied in one turn of the loop: one or two milliseconds."""


async def collect_changes(changes: Iterable[Change]) -> list[Change]:
    """Take all changes of a decision."""
    taken = []
    for count, change in enumerate(changes, 1):
        taken.append(change)
        if not count % CHANGES_PER_TURN:
            await asyncio.sleep(0)
    return taken


async def preview(image: MetadataImage, changes: Iterable[Change]) -> MetadataImage:
    """Return an image as these changes would make it, at the same version."""
    draft = image.draft()
    for count, change in enumerate(changes, 1):
        draft.take(change)
        if not count % CHANGES_PER_TURN:
            await asyncio.sleep(0)
    return draft.finish(image.version)
