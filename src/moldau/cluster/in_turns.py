"""Processes many changes, a few hundred in each turn of the event loop.

One request may create ten thousand partitions, a change each. Decisions make their changes as they
are taken, so that whoever takes them decides when others get their turn. A decision that looks at
many partitions and changes few of them says None now and then (`steps`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Generator, Iterable, Sequence
from typing import Final, TypeVar

from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.steps import Step

T = TypeVar("T")

CHANGES_PER_TURN: Final = 200
"""Changes that are made, encoded or applied in one turn of the loop: one or two milliseconds."""

PASSED_PER_TURN: Final = 1000
"""Elements that are only passed or noted: about a millisecond."""


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


async def in_turns(steps: Generator[None, None, T]) -> T:
    """Run work whose steps fill a turn each; return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result
        await asyncio.sleep(0)


async def paused(elements: Iterable[T]) -> AsyncIterator[T]:
    """Walk over many elements with little to do for each; others have their turn in between."""
    for count, element in enumerate(elements, 1):
        yield element
        if not count % PASSED_PER_TURN:
            await asyncio.sleep(0)


async def sorted_in_turns(texts: Sequence[str]) -> list[str]:
    """Sort texts; there may be a hundred thousand of them."""
    if len(texts) <= PASSED_PER_TURN:
        return sorted(texts)
    pieces = []
    for first in range(0, len(texts), PASSED_PER_TURN):
        pieces.append(sorted(texts[first : first + PASSED_PER_TURN]))
        await asyncio.sleep(0)
    return [text async for text in paused(heapq.merge(*pieces))]
