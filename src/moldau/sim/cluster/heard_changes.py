"""Follows a metadata store as the parts of a broker do, and adds up what it hears.

I23 the changes that listeners hear lead from the image before to the image that they get, and
each is told once: of a snapshot only what it adds to what is there already
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.base.errors import InvariantViolated
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.store import ClusterMetadata
from moldau.sim.history import Violation


class HeardChanges:
    """One listener of one store."""

    def __init__(self, name: str, store: ClusterMetadata) -> None:
        self._name = name
        self.store = store
        self._image = store.image
        self._has_heard = False
        self._problem: str | None = None
        store.subscribe(self._hear)

    def check(self) -> None:
        """Raise Violation if what was heard does not add up; to be called after every turn."""
        if self._problem is not None:
            raise Violation(f"I23: {self._name} {self._problem}")
        if not self._has_heard:
            self._image = self.store.image  # what a start finds on the disk is told to nobody

    def _hear(self, changes: Sequence[Change], image: MetadataImage) -> None:
        # A listener that raises is only logged, so the next check says it.
        self._has_heard = True
        before, self._image = self._image, image
        problem = _problem(before, changes, image)
        if problem is not None and self._problem is None:
            self._problem = f"hears at {image.version}, after {before.version}: {problem}"


def _problem(before: MetadataImage, changes: Sequence[Change], image: MetadataImage) -> str | None:
    if image.version <= before.version:
        return "what it has heard already"
    try:
        added_up = before.apply(changes, image.version)
    except InvariantViolated as error:
        return str(error)
    return None if added_up == image else "changes that do not lead to the image"
