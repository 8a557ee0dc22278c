"""The controller's queue of decisions: one controllership, one queue.

Between reading the image and committing nothing else gets in, so on a store with a single writer a
conflict never happens. Where somebody else may write too, the decision is taken again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from moldau.base.checks import invariant
from moldau.base.errors import StorageError
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.in_turns import collect_changes
from moldau.cluster.store import ClusterMetadata, Controllership, StoreFailed, VersionConflict

Decide = Callable[[MetadataImage], Iterable[Change]]
"""A pure function: it may be called again, on a newer image, when a commit came too late."""


class Decisions:
    """The controller's queue: decisions are taken one after the other, each on the newest image."""

    def __init__(self, metadata: ClusterMetadata, controllership: Controllership) -> None:
        self._metadata = metadata
        self._controllership = controllership
        self._turn = asyncio.Lock()

    async def commit(self, decide: Decide) -> MetadataImage:
        """Decide on the newest image and commit; what `decide` raises changes nothing.

        StoreFailed if the store could not make it durable, ControllerFenced if the controllership
        is over.

        Returns an image that has the changes in it. With nothing to change nothing is written.
        """
        async with self._turn:
            while True:
                image = self._metadata.image
                changes = await collect_changes(decide(image))
                if not changes:
                    return image
                try:
                    version = await self._controllership.commit(image.version, changes)
                except VersionConflict as conflict:
                    # Otherwise the same decision would be taken again and again.
                    invariant(
                        self._metadata.image.version >= conflict.actual,
                        "a store that refuses an old version still shows it",
                    )
                    continue
                except StorageError as error:
                    # Those who decide answer clients, and know of stores, not of disks.
                    raise StoreFailed(str(error)) from error
                invariant(
                    self._metadata.image.version >= version, "the image lacks what was committed"
                )
                return self._metadata.image
