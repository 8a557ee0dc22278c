"""Telling everybody who follows the metadata: shared by all implementations of the store port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.store import Listener


class Listeners:
    """Those who have subscribed, in the order in which they did."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell this listener from now on; call the result to stop."""
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    def tell(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Tell everybody, also those behind one that fails; raises the first error."""
        failure: Exception | None = None
        for listener in tuple(self._listeners):
            try:
                listener(changes, image)
            except Exception as error:  # noqa: BLE001 - raised again once all have heard
                failure = failure or error
        if failure is not None:
            raise failure
