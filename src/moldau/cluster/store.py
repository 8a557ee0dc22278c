"""The metadata store port: where changes become durable and everybody learns of them in order.

Two of the port's three parts are here (ADR 0012); `controller_requests` is the third.

* `ClusterMetadata` is what every broker follows: an image and ordered changes. It cannot write.
* `ControllerElection` and `Controllership` are what the active controller may do: claim, commit
  under the epoch of its claim, and hear that it is over.

It speaks domain changes, not nodes or records, so that one broker's journal, a ZooKeeper ensemble
and a Raft quorum can all stand behind it. What they promise alike, and the contract test checks:

* Listeners hear every change once, in order, after it is durable, on the event loop. The image
  they are given is the one right after the changes they are given, and is already `image`. All
  brokers hear the same changes in the same order; some hear them later than others.
* At most one controllership can commit at any moment: the newest. Each has a larger epoch than
  those before it, in this life of the cluster and in all earlier ones.
* A claim is granted after this broker's image has all that earlier controllers committed.
* `commit` is all or nothing. When it returns, the changes are durable and in this broker's image.
* A commit under a controllership that is over raises `ControllerFenced` and writes nothing, also
  if its holder has not heard yet that it is over.
* A commit names the version its decision was based on. If that is no longer the newest, nothing
  happens and `VersionConflict` is raised: decide again on the image, which is newer by then.
* After a failed write the store is `StoreFailed` until it is opened anew: whether that write will
  be found on the disk is unknown, so nothing may be decided on top of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from moldau.base.errors import MoldauError
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage

Listener = Callable[[Sequence[Change], MetadataImage], None]


class VersionConflict(MoldauError):  # noqa: N818 - it names the event
    """Somebody else's change came first; nothing was written."""

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
    """A commit was not made: a write failed, now or earlier, and its outcome may be unknown."""


class ClusterMetadata(Protocol):
    """The cluster's metadata as every broker follows it.

    It must not know who the controller is or how changes are decided.
    """

    @property
    def image(self) -> MetadataImage:
        """The newest durable state known here."""
        ...

    async def start(self, log_directories: Sequence[str] | None = None) -> None:
        """Open the store and read its state; ConfigError if it belongs to somebody else.

        `log_directories` are the broker's that can be used, where not all of them can.
        """
        ...

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell this listener of every change from now on; call the result to stop."""
        ...

    async def close(self) -> None:
        """Let commits under way finish and give everything back; closing twice is harmless.

        A controllership that this broker holds ends with it, so that another can be granted.
        """
        ...


class Controllership(Protocol):
    """The right to commit, granted to one broker until it is lost."""

    @property
    def epoch(self) -> int:
        """Larger than that of every controllership granted before."""
        ...

    async def commit(self, expected_version: int, changes: Sequence[Change]) -> int:
        """Make these changes the next ones; return the version they lead to."""
        ...

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call this once, on the event loop, when it is lost; at once if it already is.

        Losing is what happens to the holder: another took over, or its session ended. A holder
        that closes its own store is not called.
        """
        ...


class ControllerElection(Protocol):
    """Where a broker becomes the active controller."""

    async def claim(self) -> Controllership | None:
        """Try to become the active controller; None while another broker is.

        A broker that claims again while it holds a controllership gets that same one.
        """
        ...


class MetadataStore(ClusterMetadata, ControllerElection, Protocol):
    """Both parts, as one store implements them for one broker."""
