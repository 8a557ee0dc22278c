"""The image of a node, as it follows the committed part of its log.

    committed     more of the log counts now
    adopt_once    take a commit of this node's own when it counts, with the image it was made with
    install       go on with a snapshot that was fetched in place of the log

It owns the image, its listeners, what is known of the quorum's form, and the task that moves them.
Every node goes by its own log, the leader too. Only the leader's image takes a fast path: it was
made when the changes were checked, so that they need not be read back from the log.

It must not know who leads, what was promised, or how others are reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from moldau.base.errors import CorruptRecords, InvariantViolated, MoldauError, StorageError
from moldau.base.ids import Offset
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.image_difference import difference_in_pieces
from moldau.cluster.in_turns import CHANGES_PER_TURN
from moldau.cluster.kraft.pending_commit import PendingCommit
from moldau.cluster.kraft.raft_log import RaftLog
from moldau.cluster.listeners import Listeners
from moldau.cluster.log_applier import LogApplier
from moldau.cluster.quorum import Quorum
from moldau.cluster.snapshots import SnapshotId
from moldau.cluster.snapshotting import SnapshotState
from moldau.cluster.store import Listener, StoreFailed

logger = logging.getLogger(__name__)


class ImageFollower:
    """The newest image of one node. Owned by the event loop's thread."""

    def __init__(
        self,
        log: RaftLog,
        applied: Callable[[Offset], None],
        failed: Callable[[MoldauError], None],
    ) -> None:
        """`applied` hears up to where the image goes; `failed` hears why it goes on no more."""
        self._log = log
        self._applied = applied
        self._failed = failed
        self._listeners = Listeners()
        self.quorum = Quorum()
        """What the log says of the quorum's form and voters."""
        self.image = MetadataImage()
        self.committed_offset = Offset(0)
        """Everything before it is committed, as far as this node has heard."""
        self._applier: LogApplier | None = None
        self._applying = asyncio.Lock()
        """Held by whoever moves the image."""
        self._has_more = asyncio.Event()
        self._pending: PendingCommit | None = None
        self._following: asyncio.Task[None] | None = None

    @property
    def applied_offset(self) -> int:
        """The image has everything before it; -1 until the log was opened."""
        return -1 if self._applier is None else self._applier.applied_offset

    @property
    def is_in_transaction(self) -> bool:
        """Whether the log has a commit that is half done."""
        return self._applier is not None and self._applier.is_in_transaction

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call this listener with every change from now on; call the result to stop."""
        return self._listeners.subscribe(listener)

    # From start to stop

    def open(self, image: MetadataImage, committed_offset: Offset) -> None:
        """Go on with the image of the newest snapshot."""
        self.image = image
        self.committed_offset = committed_offset
        self._applier = self._new_applier()

    def start(self) -> None:
        """Follow from now on."""
        self._following = asyncio.ensure_future(self._follow())

    async def close(self) -> None:
        """Follow no more."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    # From the log to the image

    def committed(self, offset: Offset) -> None:
        """Let the image follow."""
        self.committed_offset = offset
        self._has_more.set()

    def adopt_once(self, pending: PendingCommit) -> None:
        """Take over a commit of this node's as soon as it is committed, and tell who waits."""
        self._pending = pending

    def give_up_pending(self, error: StoreFailed) -> None:
        """Let whoever waits for a commit wait no more: it is read from the log, if it is there."""
        pending, self._pending = self._pending, None
        self._has_more.set()
        if pending is not None and not pending.done.done():
            # Also where it is committed but not applied: then the log says so, to all alike.
            pending.done.set_exception(error)

    async def _follow(self) -> None:
        while True:
            await self._has_more.wait()
            self._has_more.clear()
            try:
                async with self._applying:
                    await self._apply()
            except (CorruptRecords, InvariantViolated) as error:
                self._failed(StorageError(self._log.folder, f"does not add up: {error}"))
                return
            except MoldauError as error:
                self._failed(error)
                return
            except OSError as error:
                self._failed(StorageError(self._log.folder, f"cannot be read: {error}"))
                return

    async def _apply(self) -> None:
        applier, end, pending = self._applier, self.committed_offset, self._pending
        assert applier is not None  # it was opened
        if pending is not None and pending.image is not None:
            if pending.version <= end:
                await applier.apply_up_to(pending.first_offset)
                applier.adopt(pending.changes, pending.image)
            else:
                # Its first batches are committed. It is adopted as a whole, so none is read back.
                end = min(end, Offset(pending.first_offset))
        await applier.apply_up_to(end)
        if pending is not None and pending.version <= end:
            self._pending = None
            pending.finish()
        self._applied(end)
        self._log.keep_snapshots(self._snapshot_state)

    def _new_applier(self) -> LogApplier:
        return LogApplier(self._log.journal, self.image, self.quorum, self._publish)

    def _publish(self, changes: Sequence[Change], image: MetadataImage) -> None:
        self.image = image
        if not changes:
            return
        try:
            self._listeners.tell(changes, image)
        except Exception as error:
            # All others have heard. Whoever has asked for the commit is told.
            if self._pending is not None and self._pending.image is image:
                self._pending.listener_error = error
            else:
                logger.exception("a listener of the metadata failed")

    def _snapshot_state(self) -> SnapshotState | None:
        journal = self._log.journal
        if self.image.version != journal.next_offset:
            return None
        return SnapshotState(self.image, journal.last_epoch, self.quorum.control)

    async def install(self, wanted: SnapshotId) -> None:
        """Put a snapshot in place of the log, and go on with its image.

        Listeners hear what it changes. Nobody reads the log meanwhile: it begins anew.
        """
        async with self._applying:
            snapshot = await self._log.install(wanted)
            changes: list[Change] = []
            for count, piece in enumerate(difference_in_pieces(self.image, snapshot.image), 1):
                changes += piece
                if not count % CHANGES_PER_TURN:
                    await asyncio.sleep(0)
            self.quorum = snapshot.quorum
            self._publish(changes, snapshot.image)
            self._applier = self._new_applier()
