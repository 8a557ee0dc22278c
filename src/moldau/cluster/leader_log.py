"""The metadata log of the node that leads, as other nodes read it.

Everything below the high watermark is durable here, and nothing above it is ever handed out. With
one voter that is the end of the last commit; in a quorum it is what a majority has.

Whether another node's log goes on, has to be cut or has to begin again is decided by
`raft.divergence`. Retention takes the head of the journal: the log start moves in the turn in which
that is decided, before the files go, and regions that were named before stay readable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from moldau.base.files import FileRegion, Files
from moldau.base.ids import LeaderEpoch
from moldau.cluster.journal import Journal
from moldau.cluster.kept_snapshots import KeptSnapshots
from moldau.cluster.snapshots import SnapshotId
from moldau.storage.epochs import LeaderEpochs


class LeaderLog:
    """What the leader serves of its log and its snapshots, in one leader epoch."""

    def __init__(
        self,
        files: Files,
        journal: Journal,
        snapshots: KeptSnapshots,
        cluster_id: str,
        leader_id: int,
        leader_epoch: int,
        high_watermark: int,
    ) -> None:
        self._files = files
        self._journal = journal
        self._snapshots = snapshots
        self._watchers: list[Callable[[], None]] = []
        self._opened: tuple[SnapshotId, FileRegion] | None = None
        """The snapshot that was asked for last. Every answer that waits for a slow peer holds its
        file open: with one file for all of them, no peer can use up the descriptors."""
        self.cluster_id = cluster_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.is_open = True

    @property
    def start_offset(self) -> int:
        """Where the log begins."""
        return self._journal.start_offset

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        """The snapshot to begin with; the empty one of a formatted folder is never served."""
        return self._snapshots.newest

    def commit(self, end_offset: int) -> None:
        """Raise the high watermark: everything before this offset is durable."""
        self.high_watermark = end_offset
        self._tell()

    def end(self) -> None:
        """Serve nothing more: the node stops or has lost its leadership."""
        if self.is_open:
            self.is_open = False
            self._opened = None
            self._tell()

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call this after every commit and at the end; call the result to stop."""
        self._watchers.append(watcher)
        return partial(self._watchers.remove, watcher)

    def _tell(self) -> None:
        for watcher in tuple(self._watchers):
            watcher()

    @property
    def epochs(self) -> LeaderEpochs:
        return self._journal.epochs

    @property
    def last_epoch(self) -> LeaderEpoch:
        return self._journal.last_epoch

    @property
    def end_offset(self) -> int:
        """Where the log ends for others."""
        return self.high_watermark

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        return self._snapshots.oldest

    def read(self, offset: int, max_bytes: int) -> FileRegion | None:
        """Name committed batches from this offset on; None while there are none.

        At least one batch, however large.
        """
        return self._journal.region(offset, self.high_watermark, max_bytes)

    def open_snapshot(self, snapshot: SnapshotId) -> FileRegion | None:
        """Return a snapshot as a whole; None if it is not there, or not any more."""
        if snapshot != self.newest_snapshot:
            return None
        if self._opened is None or self._opened[0] != snapshot:
            try:
                file = self._files.open(f"{self._journal.folder}/{snapshot.name}")
            except FileNotFoundError:
                return None
            self._opened = snapshot, FileRegion(file, 0, file.size())
        return self._opened[1]
