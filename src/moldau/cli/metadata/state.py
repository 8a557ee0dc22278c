"""What the files of a metadata folder add up to: the image at the end of the log, and the quorum.

Reads the newest snapshot, then the log from there. All changes go into one draft of the image: to
make an image now and then would copy the dict of topics each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from moldau.base.errors import StorageError
from moldau.base.files import Files
from moldau.cli.metadata.batches import (
    DamagedMetadata,
    LogWalk,
    PlacedBatch,
    naming,
    snapshot_batches,
)
from moldau.cli.metadata.quorum_view import QuorumView
from moldau.cli.metadata.source import (
    MetadataFiles,
    OpenSegment,
    metadata_files,
    while_files_change,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.opening import opening_errors
from moldau.cluster.replay import CountedChanges
from moldau.records.control import control_type

UNCOMMITTED = "files do not tell how far the log is committed: its last records may not be"


@dataclass(slots=True)
class MetadataState:
    """All that the files say."""

    image: MetadataImage
    quorum: QuorumView
    start_offset: int
    """Where the log begins."""
    end_offset: int
    epoch: int
    """The leader epoch of the newest batch."""
    snapshot: str | None
    """The name of the snapshot that was read."""
    notes: list[str] = field(default_factory=list)
    """What the user should know."""


def read_state(files: Files, named: str) -> MetadataState:
    """Read everything; StorageError names the file that is damaged, and where."""
    with opening_errors(named):
        return while_files_change(partial(_read, files, named))


def _read(files: Files, named: str) -> MetadataState:
    found = metadata_files(files, named)
    segments = found.open_segments(files)
    reader = _StateReader(found)
    if found.snapshot is not None:
        reader.read_snapshot(files, found.snapshot)
    log = LogWalk(_needed(segments, found), found.snapshot_id.end_offset, found.synced)
    reader.read_log(log)
    end_offset = max(log.next_offset, found.snapshot_id.end_offset)
    notes = reader.conclude(files, end_offset) + log.notes
    return MetadataState(
        reader.image,
        reader.quorum,
        segments[0].base if segments else end_offset,
        end_offset,
        reader.epoch,
        found.snapshot and found.snapshot.rpartition("/")[2],
        notes,
    )


def _needed(segments: list[OpenSegment], found: MetadataFiles) -> list[OpenSegment]:
    """Leave out the segments that the snapshot covers."""
    end = found.snapshot_id.end_offset
    first = max((one.base for one in segments if one.base <= end), default=None)
    if segments and first is None:
        raise DamagedMetadata(
            segments[0].file.path,
            f"begins at offset {segments[0].base}, and there is no snapshot of what came before it",
        )
    return [one for one in segments if first is not None and one.base >= first]


class _StateReader:
    def __init__(self, found: MetadataFiles) -> None:
        self.image = MetadataImage()
        self.quorum = QuorumView()
        self.epoch = found.snapshot_id.epoch
        self._found = found
        self._changes = CountedChanges()
        self._draft = self.image.draft()

    def read_snapshot(self, files: Files, path: str) -> None:
        for placed in snapshot_batches(files, path):
            self._take(placed, 0)

    def read_log(self, log: LogWalk) -> None:
        snapshot_end = self._found.snapshot_id.end_offset
        for placed in log.batches():
            if placed.batch.header.next_offset > snapshot_end:
                self.epoch = placed.batch.header.leader_epoch
                self._take(placed, snapshot_end)

    def conclude(self, files: Files, end_offset: int) -> list[str]:
        """Finish the image, read what lies beside the log, and return what there is to note."""
        notes = []
        if self._changes.open_transaction:
            notes.append(
                f"left out the records from offset {self._changes.version(end_offset)} on: they"
                " belong to a transaction that has not ended"
            )
        try:
            self.image = self._draft.finish(self._changes.version(end_offset))
        except LookupError as error:
            raise StorageError(self._name, "has a partition without replicas") from error
        if self._found.folder is not None:
            try:
                self.quorum.learn_file(files, self._found.folder)
            except StorageError as damage:
                notes.append(f"{damage}; left out")
        if self._found.segments:
            notes.append(UNCOMMITTED)
        return notes

    @property
    def _name(self) -> str:
        return self._found.folder or self._found.snapshot or self._found.segments[0]

    def _take(self, placed: PlacedBatch, start_offset: int) -> None:
        header = placed.batch.header
        with naming(placed):
            for record in placed.records():
                if header.control:
                    kind = control_type(record.key)
                    if kind is not None:
                        self.quorum.learn(kind, record.value or b"", header.leader_epoch)
                elif record.offset >= start_offset:
                    self._changes.take(record.value or b"", record.offset)
            for change in self._changes.drain():
                self._draft.take(change)
