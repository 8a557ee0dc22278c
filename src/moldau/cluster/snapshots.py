"""Metadata snapshots: the whole state in one file, so that the journal before it can be removed.

`<end offset, 20 digits>-<leader epoch, 10 digits>.checkpoint` in the journal's folder has the state
after all records before the end offset (KIP-630): a header, the voters if the log names them
(KIP-853), the records, a footer. A file without a footer was cut off. While it is written, its name
ends in `.part`. It is synced before it gets its final name, so each file with a final name is
whole. `bootstrap.checkpoint`, which Kafka's format tool writes into the log directory, has the same
format.

Owns the format and names of the files; `record_codec` knows what the records mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from moldau.base.checks import crash_point
from moldau.base.errors import CorruptRecords, ProtocolError, StorageError
from moldau.base.files import File, Files
from moldau.cluster.batch_files import walk
from moldau.protocol.compiler import decode, encode
from moldau.protocol.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from moldau.records.batch import HEADER_SIZE
from moldau.records.builder import BatchBuilder, record_size_bound
from moldau.records.control import ControlType, control_batch, control_type
from moldau.records.record import read_records

BOOTSTRAP: Final = "bootstrap.checkpoint"

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
PART_SUFFIX: Final = ".part"
"""Of a snapshot that is not complete yet."""

_HEADER_BATCH_BYTES_MAX: Final = 512
"""The first batch of a snapshot has its header alone, some 90 bytes."""

CRASH_POINTS: Final = (
    "snapshot.write.before_sync",
    "snapshot.write.before_rename",
    "snapshot.write.before_folder_sync",
)


class SnapshotId(NamedTuple):
    """The name of a snapshot: its end offset, and the leader epoch of its last record."""

    end_offset: int
    epoch: int

    @property
    def name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


@dataclass(slots=True)
class SnapshotContent:
    """The content of a snapshot."""

    control: list[tuple[ControlType, bytes]] = field(default_factory=list)
    """KRaft version and voters, encoded."""
    values: list[bytes] = field(default_factory=list)


def snapshot_ids(files: Files, folder: str) -> list[SnapshotId]:
    """Return the complete snapshots in a folder, oldest first."""
    if not files.exists(folder):
        return []
    matches = map(_NAME.fullmatch, files.names(folder))
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in matches if match)


def read_snapshot(files: Files, path: str) -> SnapshotContent:
    """Read a whole snapshot; StorageError if it is damaged or cut off."""
    content = SnapshotContent()
    for kind, value in walk_snapshot(files, path):
        if kind is None:
            content.values.append(value)
        else:
            content.control.append((kind, value))
    return content


def walk_snapshot(files: Files, path: str) -> Iterator[tuple[ControlType | None, bytes]]:
    """Yield a snapshot's records: KRaft version and voters with their type, others with None.

    StorageError where it is damaged or cut off, which may be at the very end.
    """
    file = files.open(path)
    finished = False
    try:
        for batch in walk(file):
            for record in read_records(batch.data):
                if not batch.header.control:
                    yield None, record.value or b""
                    continue
                kind = control_type(record.key)
                finished = kind is ControlType.SNAPSHOT_FOOTER
                if kind in {ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS}:
                    yield kind, record.value or b""
    except CorruptRecords as error:
        raise StorageError(path, f"is damaged: {error}") from error
    finally:
        file.close()
    if not finished:
        raise StorageError(path, "is cut off: it has no footer")


def snapshot_timestamp(file: File) -> int:
    """Return the time of the last record in a snapshot, as its header says; 0 if damaged."""
    data = file.read(0, _HEADER_BATCH_BYTES_MAX)
    try:
        for record in read_records(data):
            header = decode(SnapshotHeaderRecord, 0, record.value or b"")
            return header.last_contained_log_timestamp
    except ProtocolError:
        pass
    return 0


class SnapshotWriter:
    """Writes one snapshot, piece by piece; `finish` gives it its name."""

    def __init__(self, files: Files, path: str, timestamp: int, last_log_timestamp: int) -> None:
        self._files = files
        self._path = path
        self._timestamp = timestamp
        self._epoch = _epoch_of(path)
        self._next_offset = 0
        files.remove(path + PART_SUFFIX)
        self._file: File = files.open(path + PART_SUFFIX, create=True)
        header = SnapshotHeaderRecord(last_contained_log_timestamp=last_log_timestamp)
        self._control(ControlType.SNAPSHOT_HEADER, encode(header, 0))

    def append(self, values: Iterable[bytes]) -> None:
        """Add records as one batch."""
        builder = BatchBuilder(base_offset=self._next_offset, leader_epoch=self._epoch)
        for value in values:
            builder.append(self._timestamp, None, value)
        if builder.count:
            self._file.append([builder.build()])
            self._next_offset += builder.count

    def append_control(self, control: Iterable[tuple[ControlType, bytes]]) -> None:
        """Add control records, each in a batch of its own."""
        for kind, value in control:
            self._control(kind, value)

    def finish(self) -> None:
        """Make it durable, then rename it to its final name; may block."""
        self._control(ControlType.SNAPSHOT_FOOTER, encode(SnapshotFooterRecord(), 0))
        put_in_place(self._files, self._file, self._path)

    def abandon(self) -> None:
        """Remove the unfinished file."""
        self._file.close()
        self._files.remove(self._path + PART_SUFFIX)

    def _control(self, kind: ControlType, value: bytes) -> None:
        batch = control_batch(
            kind,
            value,
            self._timestamp,
            base_offset=self._next_offset,
            leader_epoch=self._epoch,
        )
        self._file.append([batch])
        self._next_offset += 1


def put_in_place(files: Files, part: File, path: str) -> None:
    """Make a snapshot that is complete durable under its own name; may block."""
    crash_point("snapshot.write.before_sync")
    part.sync()
    part.close()
    crash_point("snapshot.write.before_rename")
    files.rename(path + PART_SUFFIX, path)
    crash_point("snapshot.write.before_folder_sync")
    files.sync_folder(path.rpartition("/")[0])


def remove_unfinished_snapshots(files: Files, folder: str) -> None:
    """Remove what an earlier process was writing or fetching when it ended."""
    for name in files.names(folder):
        if name.endswith(PART_SUFFIX) and _NAME.fullmatch(name.removesuffix(PART_SUFFIX)):
            files.remove(f"{folder}/{name}")


def batched(values: Iterable[bytes], size_max: int) -> Iterator[list[bytes]]:
    """Group records into batches of at most this size; a larger record gets its own batch."""
    batch: list[bytes] = []
    size = HEADER_SIZE
    for value in values:
        added = record_size_bound(None, value)
        if batch and size + added > size_max:
            yield batch
            batch, size = [], HEADER_SIZE
        batch.append(value)
        size += added
    if batch:
        yield batch


def _epoch_of(path: str) -> int:
    match = _NAME.fullmatch(path.rpartition("/")[2])
    return int(match[2]) if match else 0
