"""The listeners of a metadata store; shared by all implementations of the port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.store import Listener


class Listeners:
    """The listeners, in the order in which they subscribed."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call this listener from now on; call the result to stop."""
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    def tell(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Call every listener, also after one has raised; then raise the first error.

        A listener that misses changes would differ from the image for ever.
        """
        failure: Exception | None = None
        for listener in tuple(self._listeners):
            try:
                listener(changes, image)
            except Exception as error:  # noqa: BLE001 - raised again after all listeners
                failure = failure or error
        if failure is not None:
            raise failure
