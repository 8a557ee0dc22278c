"""The history of the metadata as one broker knows it: the newest image, and who is told of it.

Controllers make the history one after the other. Its versions only grow: each controllership has a
range of its own, by its epoch (ADR 0016).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.listeners import Listeners

logger = logging.getLogger(__name__)

_STEPS_BITS: Final = 32


def first_version(controller_epoch: int) -> int:
    """Return the version of the image that a controller begins with."""
    return controller_epoch << _STEPS_BITS


def controller_epoch_of(version: int) -> int:
    """Return the epoch of the controller that made this version."""
    return version >> _STEPS_BITS


class History:
    """The newest image. Owned by the event loop's thread."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.listeners = Listeners()

    def advance(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Take one step: the image after these changes is the newest one."""
        self.image = image
        self.listeners.tell(changes, image)
