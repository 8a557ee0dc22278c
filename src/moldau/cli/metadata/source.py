"""Which files a metadata log consists of, from the folder or file that the user names.

A log directory, its `__cluster_metadata-0`, one segment (`.log`) or one snapshot (`.checkpoint`).
A running node may remove old files between the moment they are listed and that they are opened.
Then they are listed again (`while_files_change`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from moldau.base.errors import UserError
from moldau.base.files import File, Files
from moldau.cluster.journal import METADATA_FOLDER, METADATA_TOPIC_ID
from moldau.cluster.opening import NO_SNAPSHOT
from moldau.cluster.snapshots import SnapshotId, snapshot_ids
from moldau.cluster.sync_mark import SyncMark
from moldau.storage.checkpoints import read_topic_id

T = TypeVar("T")

_SEGMENT_NAME = re.compile(r"\d{20}\.log")
_ATTEMPTS: Final = 5
"""A node removes old files once a minute: to find some gone twice is unlikely."""


class OpenSegment(NamedTuple):
    """A segment, and the offset at which it begins."""

    base: int
    file: File


@dataclass(frozen=True, slots=True)
class MetadataFiles:
    """The files to read."""

    folder: str | None = None
    """The metadata folder; None for a single file."""
    snapshot: str | None = None
    """The path of the newest snapshot."""
    snapshot_id: SnapshotId = NO_SNAPSHOT
    """Where it ends; unknown, and taken for nothing, of a file with another name."""
    segments: Sequence[str] = ()
    """The paths of all segments, oldest first."""
    synced: int | None = None
    """Up to here the log was synced, of a voter that has noted it."""

    def size(self, files: Files) -> int:
        """Return the bytes in all of them."""
        return sum(files.size(path) for path in (*self.segments, self.snapshot) if path)

    def open_segments(self, files: Files) -> list[OpenSegment]:
        """Open all of them: one that is open can be read to its end after it was removed."""
        return [_opened(files, path) for path in self.segments]


def while_files_change(read: Callable[[], T]) -> T:
    """Read again where a file is gone that was there just before."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return read()
        except FileNotFoundError:
            pass
    return read()


def metadata_files(files: Files, named: str) -> MetadataFiles:
    """Find the files in what the user has named; UserError if there are none."""
    if not files.exists(named):
        raise UserError(f"there is no file or folder {named}: name a log directory with --folder")
    if not files.is_folder(named):
        return _single(files, named)
    inner = f"{named.rstrip('/')}/{METADATA_FOLDER}"
    folder = inner if files.is_folder(inner) else named
    found = _listed(files, folder)
    if found.snapshot is None and not found.segments:
        raise UserError(
            f"{folder} has no metadata log: name the log directory with {METADATA_FOLDER}"
            " (metadata.log.dir, or the first of log.dirs)"
        )
    if read_topic_id(files, folder) not in (None, METADATA_TOPIC_ID):
        raise UserError(
            f"{folder} has the log of another topic: `moldau log dump {folder}` prints it"
        )
    return found


def _listed(files: Files, folder: str) -> MetadataFiles:
    snapshots = snapshot_ids(files, folder)
    return MetadataFiles(
        folder,
        f"{folder}/{snapshots[-1].name}" if snapshots else None,
        snapshots[-1] if snapshots else NO_SNAPSHOT,
        [f"{folder}/{name}" for name in files.names(folder) if _SEGMENT_NAME.fullmatch(name)],
        SyncMark(files, folder).offset,
    )


def _single(files: Files, path: str) -> MetadataFiles:
    if path.endswith(".log"):
        return MetadataFiles(segments=(path,))
    if not path.endswith(".checkpoint"):
        raise UserError(f"{path} is neither a segment (.log) nor a snapshot (.checkpoint)")
    parent, slash, name = path.rpartition("/")
    beside = snapshot_ids(files, parent or slash or ".")
    known = next((one for one in beside if one.name == name), NO_SNAPSHOT)
    return MetadataFiles(snapshot=path, snapshot_id=known)


def _opened(files: Files, path: str) -> OpenSegment:
    """Open a segment. One that was renamed tells its base offset in its first batch."""
    file = files.open(path)
    name = path.rpartition("/")[2]
    if _SEGMENT_NAME.fullmatch(name):
        return OpenSegment(int(name[:20]), file)
    return OpenSegment(int.from_bytes(file.read(0, 8), "big"), file)
