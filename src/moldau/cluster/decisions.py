"""The controller's queue of decisions, one for each controllership.

Decisions run one after the other, from reading the image to the commit. So with a single writer
there is never a version conflict. If another controller has written, the decision is made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from moldau.base.checks import invariant
from moldau.base.errors import StorageError
from moldau.cluster.image import MetadataImage
from moldau.cluster.in_turns import collect_changes
from moldau.cluster.steps import Step
from moldau.cluster.store import ClusterMetadata, Controllership, StoreFailed, VersionConflict

Decide = Callable[[MetadataImage], Iterable[Step]]
"""A pure function: it may be called again, on a newer image, when a commit came too late."""


class Decisions:
    """The controller's queue: decisions are made one after the other, each on the newest image."""

    def __init__(self, metadata: ClusterMetadata, controllership: Controllership) -> None:
        self._metadata = metadata
        self._controllership = controllership
        self._turn = asyncio.Lock()

    async def commit(self, decide: Decide) -> MetadataImage:
        """Decide on the newest image and commit; return an image with the changes.

        An exception of `decide` is passed on, with nothing changed. Without changes nothing is
        written. Raises StoreFailed if the changes could not be made durable, ControllerFenced if
        the controllership is over.
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
                    # Otherwise this loop would repeat the same decision for ever.
                    invariant(
                        self._metadata.image.version >= conflict.actual,
                        "a store that refuses an old version still shows it",
                    )
                    continue
                except StorageError as error:
                    # Callers know the errors of the store, not those of a disk.
                    raise StoreFailed(str(error)) from error
                invariant(
                    self._metadata.image.version >= version, "the image lacks what was committed"
                )
                return self._metadata.image
