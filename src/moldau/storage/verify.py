"""The offline check of a partition's folder, for operators and at the end of tests.

It reads everything and writes nothing. No findings mean:

- every `.log` consists of whole batches with right checksums and readable records; offsets ascend
  without gaps (a compacted log may have gaps), and segments do not overlap;
- leader epochs never decrease, and match `leader-epoch-checkpoint`;
- every index entry points to its batch, and entries ascend; each entry of the time index has the
  largest timestamp so far;
- every entry of a `.txnindex` ends at a control batch of its segment;
- producer snapshots, the epoch checkpoint and the topic id are readable.

Indexes and snapshots may be missing: they can be rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from moldau.base.errors import CorruptRecords, StorageError
from moldau.base.files import Files, read_whole
from moldau.base.ids import Offset
from moldau.records.batch import BatchHeader
from moldau.storage.checkpoints import read_topic_id
from moldau.storage.epochs import LEADER_EPOCHS, LeaderEpochs, load_epochs
from moldau.storage.indexes import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, decode_aborted
from moldau.storage.inspection import (
    InspectedBatch,
    inspect_batches,
    inspect_records,
    offset_entries,
    time_entries,
)
from moldau.storage.producer_snapshot import SNAPSHOT_SUFFIX, parse_snapshot


class Finding(NamedTuple):
    """One problem and its place."""

    path: str
    position: int | None
    """The byte position in the file, if there is one."""
    message: str

    def __str__(self) -> str:
        where = "" if self.position is None else f" at position {self.position}"
        return f"{self.path}{where}: {self.message}"


class _CheckedBatch(NamedTuple):
    """The fields of a batch that the checks of other files need."""

    position: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    control: bool


def verify_partition(files: Files, folder: str, *, compacted: bool = False) -> list[Finding]:
    """Check one partition's folder; an empty list means no problem."""
    return list(_Check(files, folder, compacted=compacted).findings())


class _Check:
    """One check of a folder."""

    def __init__(self, files: Files, folder: str, *, compacted: bool) -> None:
        self._files = files
        self._folder = folder
        self._compacted = compacted
        self._epochs: LeaderEpochs | None = None
        self._epoch = -1
        self._next_offset: int | None = None
        """The offset of the next batch; None before the first one."""

    def findings(self) -> Iterator[Finding]:
        names = self._files.names(self._folder)
        yield from self._small_files()
        for name in names:
            if name.endswith(".log"):
                yield from self._segment(name.removesuffix(".log"), set(names))
        for name in names:
            if name.endswith(SNAPSHOT_SUFFIX):
                yield from self._snapshot(name)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _small_files(self) -> Iterator[Finding]:
        try:
            self._epochs = load_epochs(self._files, self._folder)
            read_topic_id(self._files, self._folder)
        except StorageError as error:
            path, _, message = str(error).partition(": ")
            yield Finding(path, None, message)

    def _segment(self, stem: str, names: set[str]) -> Iterator[Finding]:
        if not stem.isdecimal():
            yield Finding(self._path(f"{stem}.log"), None, "the name is no offset")
            return
        base_offset = int(stem)
        batches: list[_CheckedBatch] = []
        yield from self._log(stem, base_offset, batches)
        checks = {
            ".index": self._offset_index,
            ".timeindex": self._time_index,
            ".txnindex": self._transaction_index,
        }
        for suffix, check in checks.items():
            if stem + suffix in names:
                yield from check(self._path(stem + suffix), base_offset, batches)

    def _log(self, stem: str, base_offset: int, batches: list[_CheckedBatch]) -> Iterator[Finding]:
        path = self._path(f"{stem}.log")
        if self._next_offset is not None and base_offset < self._next_offset:
            yield Finding(path, None, f"begins below offset {self._next_offset} of the one before")
        file, position = self._files.open(path), 0
        try:
            for batch in inspect_batches(file):
                yield from self._batch(path, batch, base_offset)
                position = batch.position + batch.size
                control = isinstance(batch.header, BatchHeader) and batch.header.control
                batches.append(
                    _CheckedBatch(
                        batch.position,
                        batch.base_offset,
                        batch.last_offset,
                        batch.max_timestamp,
                        control,
                    )
                )
            if position != file.size():
                yield Finding(path, position, f"{file.size() - position} bytes are no whole batch")
        except CorruptRecords as error:
            yield Finding(path, position, str(error))
        finally:
            file.close()

    def _batch(self, path: str, batch: InspectedBatch, base_offset: int) -> Iterator[Finding]:
        position = batch.position
        if not batch.valid:
            yield Finding(path, position, "the CRC does not match")
        if isinstance(batch.header, BatchHeader):
            yield from self._offsets(path, batch, base_offset)
            yield from self._leader_epoch(path, position, batch.header)
        self._next_offset = batch.last_offset + 1
        try:
            last = max((record.offset for record in inspect_records(batch)), default=-1)
        except CorruptRecords as error:
            yield Finding(path, position, str(error))
            return
        if last > batch.last_offset:
            yield Finding(path, position, f"offset {last} in a batch up to {batch.last_offset}")

    def _offsets(self, path: str, batch: InspectedBatch, base_offset: int) -> Iterator[Finding]:
        expected = base_offset if self._next_offset is None else self._next_offset
        found = batch.base_offset
        if found < max(expected, base_offset) or (found > expected and not self._compacted):
            yield Finding(path, batch.position, f"offset {found} where {expected} is next")

    def _leader_epoch(self, path: str, position: int, header: BatchHeader) -> Iterator[Finding]:
        epoch = header.leader_epoch
        if epoch < self._epoch:
            yield Finding(path, position, f"leader epoch {epoch} after {self._epoch}")
        self._epoch = max(epoch, self._epoch)
        if self._epochs is None or epoch < 0:
            return
        kept = self._epochs.epoch_for(Offset(header.base_offset))
        # Epochs start at the log start; a segment may start below it (DeleteRecords).
        deleted = kept < 0 and len(self._epochs.entries) > 0
        if kept != epoch and not deleted:
            message = f"leader epoch {epoch} where {LEADER_EPOCHS} has {kept}"
            yield Finding(path, position, message)

    def _offset_index(
        self, path: str, base_offset: int, batches: list[_CheckedBatch]
    ) -> Iterator[Finding]:
        content = read_whole(self._files, path)
        if len(content) % OFFSET_ENTRY_SIZE:
            yield Finding(path, None, f"{len(content)} bytes end in half an entry")
        by_position = {batch.position: batch for batch in batches}
        previous = -1
        for number, entry in enumerate(offset_entries(base_offset, content)):
            at = number * OFFSET_ENTRY_SIZE
            batch = by_position.get(entry.position)
            if batch is None:
                yield Finding(path, at, f"no batch begins at {entry.position}")
            elif batch.last_offset != entry.offset:
                message = f"offset {entry.offset} for a batch up to {batch.last_offset}"
                yield Finding(path, at, message)
            if entry.offset <= previous:
                yield Finding(path, at, f"offset {entry.offset} after {previous}")
            previous = entry.offset

    def _time_index(
        self, path: str, base_offset: int, batches: list[_CheckedBatch]
    ) -> Iterator[Finding]:
        content = read_whole(self._files, path)
        if len(content) % TIME_ENTRY_SIZE:
            yield Finding(path, None, f"{len(content)} bytes end in half an entry")
        newest = _newest_so_far(batches)
        previous = -1
        for number, entry in enumerate(time_entries(base_offset, content)):
            at = number * TIME_ENTRY_SIZE
            if newest.get(entry.offset) != entry.timestamp:
                message = f"timestamp {entry.timestamp} is not the newest up to {entry.offset}"
                yield Finding(path, at, message)
            if entry.timestamp <= previous:
                yield Finding(path, at, f"timestamp {entry.timestamp} after {previous}")
            previous = entry.timestamp

    def _transaction_index(
        self, path: str, base_offset: int, batches: list[_CheckedBatch]
    ) -> Iterator[Finding]:
        del base_offset
        try:
            entries = decode_aborted(read_whole(self._files, path))
        except CorruptRecords as error:
            yield Finding(path, None, str(error))
            return
        markers = {batch.base_offset for batch in batches if batch.control}
        previous = -1
        for entry in entries:
            if entry.last_offset not in markers:
                yield Finding(path, None, f"no marker at offset {entry.last_offset}")
            if not (entry.first_offset < entry.last_offset and previous < entry.last_offset):
                yield Finding(path, None, f"entries do not ascend at offset {entry.last_offset}")
            previous = entry.last_offset

    def _snapshot(self, name: str) -> Iterator[Finding]:
        path, number = self._path(name), name.removesuffix(SNAPSHOT_SUFFIX)
        if not number.isdecimal():
            yield Finding(path, None, "the name is no offset")
            return
        try:
            producers = parse_snapshot(read_whole(self._files, path))
        except CorruptRecords as error:
            yield Finding(path, None, str(error))
            return
        for producer in producers:
            if producer.batches and producer.batches[-1].last_offset >= int(number):
                message = f"producer {producer.producer_id} is ahead of the snapshot"
                yield Finding(path, None, message)


def _newest_so_far(batches: list[_CheckedBatch]) -> dict[int, int]:
    """Map the last offset to the timestamp, for batches at least as new as all before them."""
    newest, found = -1, {}
    for batch in batches:
        if batch.max_timestamp >= newest:
            newest = batch.max_timestamp
            found[batch.last_offset] = newest
    return found
