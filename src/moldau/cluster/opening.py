"""Where every store begins: reading the newest snapshot of a metadata folder, and what may fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from moldau.base.errors import CorruptRecords, InvariantViolated, StorageError
from moldau.base.files import Files
from moldau.cluster.changes import Change
from moldau.cluster.formatting import FIRST_FEATURES
from moldau.cluster.image import MetadataImage
from moldau.cluster.quorum import Quorum
from moldau.cluster.replay import Replay
from moldau.cluster.snapshots import BOOTSTRAP, SnapshotId, read_snapshot, snapshot_ids

NO_SNAPSHOT = SnapshotId(0, 0)


class OpenedSnapshot(NamedTuple):
    """What the newest snapshot says; nothing but the cluster's id where there is none."""

    id: SnapshotId
    replay: Replay


def open_newest_snapshot(
    files: Files, folder: str, cluster_id: str, quorum: Quorum
) -> OpenedSnapshot:
    """Read the newest snapshot of a folder; what it says of the quorum goes there."""
    replay = Replay(MetadataImage(cluster_id=cluster_id))
    snapshots = snapshot_ids(files, folder)
    if not snapshots:
        return OpenedSnapshot(NO_SNAPSHOT, replay)
    content = read_snapshot(files, f"{folder}/{snapshots[-1].name}")
    for kind, value in content.control:
        quorum.learn_value(kind, value)
    replay.take(content.values)
    return OpenedSnapshot(snapshots[-1], replay)


def formatted_changes(files: Files, directory: str) -> list[Change]:
    """Return the first changes of a new cluster, as its metadata directory was formatted."""
    replay = Replay(MetadataImage())
    path = f"{directory}/{BOOTSTRAP}"
    if files.exists(path):
        replay.take(read_snapshot(files, path).values)
    return list(replay.image(0).as_changes()) or list(FIRST_FEATURES)


@contextmanager
def opening_errors(folder: str) -> Iterator[None]:
    """Convert what may go wrong while a metadata folder is opened to StorageError."""
    try:
        yield
    except OSError as error:
        raise StorageError(folder, f"cannot be opened: {error}") from error
    except (CorruptRecords, InvariantViolated) as error:
        raise StorageError(folder, f"does not add up: {error}") from error
