"""Fetching a snapshot from the leader, piece by piece, into the node's own folder (KIP-630).

It is written beside its place as `.part`, read once as a whole, which tells whether it arrived
intact, and then put in place. Nothing of it counts before that.
"""

from __future__ import annotations

import asyncio
from functools import partial

from moldau.base.errors import CorruptRecords, InvariantViolated, MoldauError, StorageError
from moldau.base.files import Buffer, Files
from moldau.cluster.blocking import Blocking
from moldau.cluster.image import MetadataImage
from moldau.cluster.in_turns import CHANGES_PER_TURN, apply_in_turns
from moldau.cluster.quorum import Quorum
from moldau.cluster.replay import CountedChanges
from moldau.cluster.snapshots import PART_SUFFIX, SnapshotId, put_in_place, walk_snapshot


class SnapshotSpoiled(MoldauError):  # noqa: N818 - it names the state
    """What has arrived is not the snapshot; it may be fetched again."""


class SnapshotDownload:
    """One snapshot on its way here."""

    def __init__(self, files: Files, folder: str, snapshot: SnapshotId, blocking: Blocking) -> None:
        self._files = files
        self._path = f"{folder}/{snapshot.name}"
        self._snapshot = snapshot
        self._blocking = blocking
        files.remove(self._path + PART_SUFFIX)
        self._file = files.open(self._path + PART_SUFFIX, create=True)

    def add(self, data: Buffer) -> None:
        """Keep the next piece."""
        self._file.append([data])

    async def make_durable(self) -> None:
        """Sync what was fetched, before anybody relies on it."""
        await self._blocking(self._file.sync)

    async def read(self, cluster_id: str) -> tuple[MetadataImage, Quorum]:
        """Return what the snapshot says; SnapshotSpoiled if it did not arrive intact."""
        changes, quorum, read = CountedChanges(), Quorum(), 0
        try:
            for kind, value in walk_snapshot(self._files, self._path + PART_SUFFIX):
                if kind is None:
                    changes.take(value)
                else:
                    quorum.learn_value(kind, value)
                read += 1
                if not read % CHANGES_PER_TURN:
                    await asyncio.sleep(0)
            empty = MetadataImage(cluster_id=cluster_id)
            image = await apply_in_turns(empty, changes.drain(), self._snapshot.end_offset)
        except (StorageError, CorruptRecords, InvariantViolated) as error:
            raise SnapshotSpoiled(f"snapshot {self._snapshot.name}: {error}") from error
        return image, quorum

    async def put_in_place(self) -> None:
        """Make it the folder's newest snapshot, durably."""
        await self._blocking(partial(put_in_place, self._files, self._file, self._path))

    def abandon(self) -> None:
        """Leave nothing behind that is not in place."""
        self._file.close()
        self._files.remove(self._path + PART_SUFFIX)
