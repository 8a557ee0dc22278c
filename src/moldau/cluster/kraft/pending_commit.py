"""A commit of the active controller, between its append and its majority."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage


@dataclass(slots=True)
class PendingCommit:
    """A commit that waits for a majority."""

    first_offset: int
    version: int
    changes: Sequence[Change]
    image: MetadataImage | None
    """The image after it; None if it has to be read back from the log."""
    done: asyncio.Future[None]
    listener_error: Exception | None = None
    """What a listener raised when it heard of it."""

    def finish(self) -> None:
        """Tell who waits that it is committed, and in the image."""
        if self.done.done():
            return
        if self.listener_error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(self.listener_error)
