"""The port of the metadata store: makes changes durable and tells all brokers about them in order.

Two of the port's three parts are here (ADR 0012); `controller_requests` is the third.

* `ClusterMetadata` is for every broker: an image and ordered changes. It cannot write.
* `ControllerElection` and `Controllership` are for the active controller: claim, commit in the
  epoch of the claim, and learn that the controllership is over.

The port uses changes, not nodes or records, so a journal of one broker, a ZooKeeper ensemble and a
Raft quorum can implement it. All of them promise the following, which the contract test checks:

* Listeners get every change once, in order, after it is durable, on the event loop. The image that
  they get is the one right after these changes, and `image` returns it already. All brokers get the
  same changes in the same order, at different times. The version of the image never decreases.
* At most one controllership can commit at any moment: the newest. Each has a larger epoch than all
  before it, also those before a restart of the cluster.
* A claim is granted after this broker's image has everything that earlier controllers committed.
  A controller that decided on an older image could undo their changes.
* `commit` is all or nothing. When it returns, the changes are durable and in this broker's image.
* A commit under a controllership that is over raises `ControllerFenced` and writes nothing, also
  if its holder does not know yet that it is over.
* A commit names the version that its decision was based on. If that is not the newest, nothing is
  written and `VersionConflict` is raised. The caller decides again, on the newer image.
* After a failed write the store is `StoreFailed` until it is opened again. Nobody knows whether
  that write is on the disk, so no decision may be based on either state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from moldau.base.errors import MoldauError
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage

Listener = Callable[[Sequence[Change], MetadataImage], None]


class VersionConflict(MoldauError):  # noqa: N818 - it names the event
    """Another change was committed first; nothing was written."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"decided on version {expected}, but the newest is {actual}")
        self.expected = expected
        self.actual = actual


class ControllerFenced(MoldauError):  # noqa: N818 - it names the event
    """The controllership that a commit was made under is over; nothing was written."""

    def __init__(self, epoch: int) -> None:
        super().__init__(f"the controllership of epoch {epoch} is over")
        self.epoch = epoch


class StoreFailed(MoldauError):  # noqa: N818 - it names the state
    """A commit failed: a write failed, now or earlier, and its outcome may be unknown."""


class OutcomeUnknown(StoreFailed):
    """A commit may have happened or not, and the controllership is over; the store is sound."""


class ClusterMetadata(Protocol):
    """The cluster's metadata, for every broker.

    It must not know who the controller is, or how changes are decided.
    """

    @property
    def image(self) -> MetadataImage:
        """The newest durable state that this broker knows."""
        ...

    async def start(self, log_directories: Sequence[str] | None = None) -> None:
        """Open the store and read its state; ConfigError if it belongs to another node or cluster.

        `log_directories` are the usable directories of the broker, if some have failed.
        """
        ...

    async def caught_up(self) -> None:
        """Return once the image has all that was committed before the start.

        Raises the reason if that will never be.
        """
        ...

    def on_failed(self, callback: Callable[[MoldauError], None]) -> None:
        """Call this if the store can follow no more, for a reason that will not pass."""
        ...

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call this listener with every change from now on; call the result to stop."""
        ...

    async def close(self) -> None:
        """Finish pending commits and release all resources; may be called twice.

        A controllership of this broker ends, so that another broker can get one.
        """
        ...


class Controllership(Protocol):
    """The right to commit, granted to one broker until it is lost."""

    @property
    def epoch(self) -> int:
        """Larger than the epoch of every controllership granted before."""
        ...

    async def commit(self, expected_version: int, changes: Sequence[Change]) -> int:
        """Commit these changes after this version; return the new version."""
        ...

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, on the event loop, when this is lost; at once if it already is.

        It is lost when another broker takes over or the session ends, not when its holder closes
        its own store.
        """
        ...


class ControllerElection(Protocol):
    """The election of the active controller."""

    async def claim(self) -> Controllership | None:
        """Try to become the active controller; None while another broker is.

        A broker that claims again while it holds a controllership gets that same one.
        """
        ...


class MetadataStore(ClusterMetadata, ControllerElection, Protocol):
    """Both parts, as one store implements them for one broker."""
