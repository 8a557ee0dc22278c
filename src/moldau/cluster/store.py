"""The metadata store port: where changes become durable and everybody learns of them in order.

It speaks domain changes, not nodes or records, so that one broker's journal, a ZooKeeper ensemble
and a Raft quorum can all stand behind it. What they promise alike, and the contract test checks:

* `commit` is all or nothing, and durable before it returns.
* A commit names the version its decision was based on. If that is no longer the newest, nothing
  happens and `VersionConflict` is raised: decide again on the new image.
* Listeners hear every change once, in order, after it is durable, on the event loop. The image
  they are given is the one right after the changes they are given, and is already `store.image`.
* After a failed write the store is `StoreFailed` until it is opened anew: whether that write will
  be found on the disk is unknown, so nothing may be decided on top of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from moldau.base.errors import MoldauError
from moldau.base.ids import BrokerId
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage

Listener = Callable[[Sequence[Change], MetadataImage], None]


class VersionConflict(MoldauError):  # noqa: N818 - it names the event
    """Somebody else's change came first; nothing was written."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"decided on version {expected}, but the newest is {actual}")
        self.expected = expected
        self.actual = actual


class StoreFailed(MoldauError):  # noqa: N818 - it names the state
    """A commit was not made: a write failed, now or earlier, and its outcome may be unknown."""


class MetadataStore(Protocol):
    """The cluster's metadata, durable and shared."""

    @property
    def image(self) -> MetadataImage:
        """The newest durable state known here."""
        ...

    async def start(self) -> None:
        """Open the store and read its state; ConfigError if it belongs to somebody else."""
        ...

    async def claim_controllership(self, broker_id: BrokerId) -> int | None:
        """Try to become the one that decides; return the controller epoch, None if another is."""
        ...

    async def commit(self, expected_version: int, changes: Sequence[Change]) -> int:
        """Make these changes the next ones; return the version they lead to."""
        ...

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell this listener of every change from now on; call the result to stop."""
        ...

    async def close(self) -> None:
        """Let commits under way finish and give everything back; closing twice is harmless."""
        ...
