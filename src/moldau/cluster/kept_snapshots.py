"""Which snapshots and which part of the metadata log are kept, by Kafka's rule of retention.

    log    |--------|--------|--------|-->        the newest snapshot always stays
    snapshots       a        b        c           a goes, and the log before b, once all of it
                                                  together is too large or `a` is too old

A node that has fallen behind reads on from where it was, as long as that part of the log is here.
Without it, the node has to fetch the newest snapshot as a whole.

Owns the list of the snapshots in a folder. When one is written is the business of `snapshotting`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from moldau.base.files import Files
from moldau.cluster.journal import Journal
from moldau.cluster.snapshots import SnapshotId, snapshot_ids, snapshot_timestamp

RETENTION_BYTES: Final = 100 << 20
"""Kafka's default of `metadata.max.retention.bytes`."""

RETENTION_MS: Final = 7 * 24 * 3_600_000
"""Kafka's default of `metadata.max.retention.ms`."""


class MetadataRetention(NamedTuple):
    """How much is kept of the log and its snapshots; a negative limit is none."""

    max_bytes: int = RETENTION_BYTES
    max_ms: int = RETENTION_MS

    def is_exceeded(self, size: int, age_ms: int) -> bool:
        """Tell whether this many bytes are too many, or the oldest of them too old."""
        return 0 <= self.max_bytes < size or 0 <= self.max_ms < age_ms


class _KeptSnapshot(NamedTuple):
    id: SnapshotId
    size: int
    timestamp_ms: int
    """Of its last record."""


class KeptSnapshots:
    """The complete snapshots of one metadata folder, oldest first."""

    def __init__(self, files: Files, folder: str, retention: MetadataRetention) -> None:
        self._files = files
        self._folder = folder
        self._retention = retention
        self._kept: list[_KeptSnapshot] = []

    def load(self, log_start: int) -> None:
        """Find the snapshots on the disk; remove those that end before the log begins."""
        for snapshot in snapshot_ids(self._files, self._folder):
            if snapshot.end_offset < log_start:
                self._files.remove(self._path(snapshot))
            else:
                self.add(snapshot)

    def add(self, snapshot: SnapshotId) -> None:
        """Keep a snapshot that is on the disk and newer than all others."""
        file = self._files.open(self._path(snapshot))
        self._kept.append(_KeptSnapshot(snapshot, file.size(), snapshot_timestamp(file)))
        file.close()

    def restart_with(self, snapshot: SnapshotId) -> Callable[[], None]:
        """Keep this snapshot alone; return the removal of the others, which may block."""
        gone = [kept.id for kept in self._kept]
        self._kept = []
        self.add(snapshot)
        return partial(self._remove, gone)

    @property
    def newest(self) -> SnapshotId | None:
        """The newest snapshot; None if it is the empty one of a formatted folder."""
        return self._kept[-1].id if self._kept and self._kept[-1].id.end_offset else None

    @property
    def oldest(self) -> SnapshotId | None:
        """The oldest snapshot; once anything was removed, the log begins where it ends."""
        return self._kept[0].id if self._kept else None

    @property
    def has_older(self) -> bool:
        """Whether there is anything that may have to go."""
        return len(self._kept) > 1

    def expire(self, journal: Journal, now_ms: int) -> Callable[[], None] | None:
        """Begin the log later if retention demands it; return the removal, which may block."""
        snapshots: list[SnapshotId] = []
        segments: list[int] = []
        size = sum(kept.size for kept in self._kept)
        while self.has_older:
            oldest = self._kept[0]
            age_ms = now_ms - oldest.timestamp_ms
            if not self._retention.is_exceeded(journal.size + size, age_ms):
                break
            del self._kept[0]
            size -= oldest.size
            snapshots.append(oldest.id)
            segments += journal.drop_before(self._kept[0].id.end_offset)
        if not snapshots:
            return None
        return partial(self._remove_all, journal, segments, snapshots)

    def _remove_all(
        self, journal: Journal, segments: list[int], snapshots: list[SnapshotId]
    ) -> None:
        # A snapshot that is left behind by a crash goes at the next start (`load`).
        journal.remove(segments)
        self._remove(snapshots)

    def _remove(self, snapshots: list[SnapshotId]) -> None:
        for snapshot in snapshots:
            self._files.remove(self._path(snapshot))
        self._files.sync_folder(self._folder)

    def _path(self, snapshot: SnapshotId) -> str:
        return f"{self._folder}/{snapshot.name}"
