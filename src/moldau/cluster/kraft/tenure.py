"""One node's time as the active controller: the right to commit in one epoch of the quorum."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from moldau.cluster.changes import Change
from moldau.cluster.store import ControllerFenced

Commit = Callable[["Tenure", int, Sequence[Change]], Awaitable[int]]


class Tenure:
    """A `Controllership` of the node that leads the quorum."""

    def __init__(self, epoch: int, commit: Commit) -> None:
        self._epoch = epoch
        self._commit = commit
        self._callbacks: list[Callable[[], None]] = []
        self.is_over = False

    @property
    def epoch(self) -> int:
        """The leader epoch of the quorum."""
        return self._epoch

    async def commit(self, expected_version: int, changes: Sequence[Change]) -> int:
        """Commit these changes after this version; return the new version."""
        return await self._commit(self, expected_version, changes)

    def check(self) -> None:
        """Raise ControllerFenced once it is over."""
        if self.is_over:
            raise ControllerFenced(self._epoch)

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` once this is lost; at once if it already is."""
        if self.is_over:
            callback()
        else:
            self._callbacks.append(callback)

    def give_back(self) -> None:
        """End it by the holder's own will: nobody is told."""
        self.is_over = True

    def end(self) -> None:
        """Take note that another one may lead; ending it twice is harmless."""
        if not self.is_over:
            self.is_over = True
            for callback in self._callbacks:
                callback()
