"""The controller's queue of decisions. Only the controller has one.

Between reading the image and committing nothing else gets in, so on a store with a single writer a
conflict never happens. Where somebody else may write too, the decision is taken again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from moldau.base.errors import StorageError
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.store import MetadataStore, StoreFailed, VersionConflict

Decide = Callable[[MetadataImage], Sequence[Change]]
"""A pure function: it may be called again, on a newer image, when a commit came too late."""


class Decisions:
    """The controller's queue: decisions are taken one after the other, each on the newest image."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._turn = asyncio.Lock()

    async def commit(self, decide: Decide) -> MetadataImage:
        """Decide on the newest image and commit; what `decide` raises changes nothing.

        StoreFailed if the store could not make it durable.

        Returns an image that has the changes in it. With nothing to change nothing is written.
        """
        async with self._turn:
            while True:
                image = self._store.image
                changes = decide(image)
                if not changes:
                    return image
                try:
                    await self._store.commit(image.version, changes)
                except VersionConflict:
                    continue
                except StorageError as error:
                    # Those who decide answer clients, and know of stores, not of disks.
                    raise StoreFailed(str(error)) from error
                return self._store.image
