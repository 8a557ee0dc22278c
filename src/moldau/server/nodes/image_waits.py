"""Waiting until this node's image of the metadata shows something.

The controller answers when a change is durable there. This node learns of it a moment later, and
a caller that acts on the change waits for that. The wait is limited: a node that has lost the
controller may never see the change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.store import ClusterMetadata
from moldau.protocol.errors import ApiError, ErrorCode

PATIENCE_S: Final = 30.0

Shows = Callable[[MetadataImage], bool]


class ImageWaits:
    """Those who wait for the image to show something."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata
        self._waiting: dict[asyncio.Future[None], Shows] = {}
        metadata.subscribe(self._changed)

    def image(self) -> MetadataImage:
        """Return the newest image."""
        return self._metadata.image

    async def until(self, shows: Shows, patience_s: float = PATIENCE_S) -> MetadataImage:
        """Return the first image that shows it; ApiError, a time-out, if none does in time."""
        while not shows(self._metadata.image):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[future] = shows
            try:
                async with asyncio.timeout(patience_s):
                    await future
            except TimeoutError as error:
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT) from error
            finally:
                self._waiting.pop(future, None)
        return self._metadata.image

    def _changed(self, changes: Sequence[Change], image: MetadataImage) -> None:
        del changes
        for future, shows in self._waiting.items():
            if not future.done() and shows(image):
                future.set_result(None)
