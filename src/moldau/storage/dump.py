"""Printing the files of a log directory as text.

The lines for standard output are Kafka's (`dump_lines`). Problems are collected for standard error,
with file and position: batches with a wrong checksum or unreadable records, bytes that are no
batch, wrong index entries. Gaps between offsets are listed too, but are no corruption: compaction
leaves them.

Nothing is written. Checkpoints, which Kafka's tool does not support, have a format of our own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from moldau.base.errors import CorruptRecords, StorageError, UserError
from moldau.base.files import File, Files, read_whole
from moldau.base.ids import uuid_text
from moldau.storage.checkpoints import PARTITION_METADATA, read_offsets, read_topic_id
from moldau.storage.dump_decoders import Decoder, plain_text
from moldau.storage.dump_lines import CurrentForm, LineFormat
from moldau.storage.epochs import LEADER_EPOCHS, load_epochs
from moldau.storage.indexes import OffsetEntry, OffsetIndex, TimeEntry, TimeIndex, decode_aborted
from moldau.storage.inspection import (
    InspectedBatch,
    inspect_batches,
    inspect_records,
    offset_entries,
    time_entries,
)
from moldau.storage.producer_snapshot import parse_entries
from moldau.storage.scan import StoredBatch, walk

ALL_BYTES = 2**31 - 1
"""No `.log` is larger, so this means no limit."""

MAX_MESSAGE_SIZE = 5 * 1024 * 1024
"""The default limit for a batch at an index entry, as in Kafka."""

BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """What to print and what to check, with the names of Kafka's options."""

    print_data_log: bool = False
    deep_iteration: bool = False
    skip_record_metadata: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE
    max_bytes: int = ALL_BYTES
    decoder: Decoder | None = None
    """Converts keys and values to text; without one they are printed as UTF-8."""
    form: LineFormat = field(default_factory=CurrentForm)

    @property
    def contents(self) -> bool:
        """Whether to print keys and values."""
        return self.print_data_log or self.decoder is not None

    @property
    def deep(self) -> bool:
        """Whether to print records."""
        return self.deep_iteration or self.contents


class LogDump:
    """One run of the tool over any number of files."""

    def __init__(self, files: Files, options: DumpOptions) -> None:
        self._files = files
        self._options = options
        self._form = options.form
        self._gaps: dict[str, list[tuple[int, int]]] = {}
        self._notices: list[str] = []
        self._problems: list[str] = []

    @property
    def corrupt(self) -> bool:
        """Whether anything was wrong with any file dumped so far."""
        return bool(self._problems)

    def findings(self) -> Iterator[str]:
        """Yield notices, problems and gaps of the files so far, for standard error."""
        yield from self._notices
        yield from self._problems
        for path, pairs in self._gaps.items():
            yield from self._form.gaps(path, pairs)

    def lines(self, path: str) -> Iterator[str]:
        """Dump one file; UserError if it cannot be read."""
        yield f"Dumping {path}"
        dump = self._dumper(path)
        if dump is None:
            self._notices.append(f"Ignoring unknown file {path}")
            return
        try:
            yield from dump(path)
        except FileNotFoundError as error:
            raise UserError(f"{error.filename or path}: no such file") from error
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}") from error
        except CorruptRecords as error:
            self._problem(path, str(error))
        except StorageError as error:
            self._problems.append(str(error))

    def _dumper(self, path: str) -> Callable[[str], Iterator[str]] | None:
        name = path.rpartition("/")[2]
        suffix = name[name.rfind(".") :] if "." in name else ""
        if name == LEADER_EPOCHS:
            return self._epochs
        if name == PARTITION_METADATA:
            return self._partition_metadata
        if name.endswith("-offset-checkpoint"):
            return self._offsets
        return {
            ".log": self._log,
            ".checkpoint": self._log,
            ".index": self._offset_index,
            ".timeindex": self._time_index,
            ".txnindex": self._transaction_index,
            ".snapshot": self._snapshot,
        }.get(suffix)

    def _log(self, path: str) -> Iterator[str]:
        yield self._title(path)
        file = self._files.open(path)
        try:
            yield from self._batches(file, path)
        finally:
            file.close()

    def _title(self, path: str) -> str:
        name = path.rpartition("/")[2]
        if name.endswith(".log"):
            return self._form.start(_base_offset(path))
        if name == BOOTSTRAP_SNAPSHOT:
            return "KRaft bootstrap snapshot"
        end_offset, _, epoch = name.removesuffix(".checkpoint").partition("-")
        if not (end_offset.isdecimal() and epoch.isdecimal()):
            raise UserError(f"{path}: a snapshot is named <end offset>-<epoch>.checkpoint")
        return f"Snapshot end offset: {int(end_offset)}, epoch: {int(epoch)}"

    def _batches(self, file: File, path: str) -> Iterator[str]:
        options, position = self._options, 0
        size = min(file.size(), options.max_bytes)
        gaps = _GapFinder()
        try:
            for batch in inspect_batches(file, 0, size):
                position = batch.position + batch.size
                if not options.deep or self._form.shows_batches_of_records:
                    yield self._form.batch(batch)
                if not batch.valid:
                    self._bad_batch(path, batch, "the CRC does not match")
                if options.deep:
                    yield from self._records(path, batch, gaps)
        except CorruptRecords as error:
            self._problem(path, f"no batch at position {position}: {error}")
            return
        finally:
            if gaps.pairs:
                self._gaps[path] = gaps.pairs
        if size > position and options.max_bytes == ALL_BYTES:
            self._problem(path, f"no whole batch at position {position}, {size - position} bytes")
            name = path.rpartition("/")[2]
            yield f"Found {size - position} invalid bytes at the end of {name}"

    def _records(self, path: str, batch: InspectedBatch, gaps: _GapFinder) -> Iterator[str]:
        options, form = self._options, self._form
        decoder = options.decoder or plain_text
        try:
            for record in inspect_records(batch):
                gaps.pass_over(record.offset)
                line = "" if options.skip_record_metadata else form.record(batch, record)
                contents = ""
                if options.contents and record.control_type is None:
                    contents = form.contents(decoder(record))
                if contents and not line:
                    line = "|"
                yield line + contents
        except CorruptRecords as error:
            self._bad_batch(path, batch, str(error))

    def _bad_batch(self, path: str, batch: InspectedBatch, what: str) -> None:
        where = f"batch at position {batch.position}, offset {batch.base_offset}"
        self._problem(path, f"{where}: {what}")

    def _problem(self, path: str, what: str) -> None:
        self._problems.append(f"{path}: {what}")

    def _offset_index(self, path: str) -> Iterator[str]:
        content = read_whole(self._files, path)
        base_offset = _base_offset(path)
        file = self._files.open(_beside(path, ".log"))
        try:
            if not content:
                empty = self._form.empty_index(path)
                yield from [] if empty is None else [empty]
            elif self._options.index_sanity_check:
                OffsetIndex.decode(base_offset, content, file.size())
                yield f"{path} passed sanity check."
            else:
                for entry in offset_entries(base_offset, content):
                    self._check_offset_entry(path, file, entry)
                    if not self._options.verify_index_only:
                        yield f"offset: {entry.offset} position: {entry.position}"
        finally:
            file.close()

    def _check_offset_entry(self, path: str, file: File, entry: OffsetEntry) -> None:
        end = min(file.size(), entry.position + self._options.max_message_size)
        batch = _first(file, entry.position, end, lambda _: True)
        if batch is None:
            self._problem(path, f"offset {entry.offset}: no batch at position {entry.position}")
        elif batch.last_offset != entry.offset:
            self._problem(
                path,
                f"Index offset: {entry.offset}, log offset: {batch.last_offset}, "
                f"position: {entry.position}",
            )

    def _time_index(self, path: str) -> Iterator[str]:
        content = read_whole(self._files, path)
        base_offset = _base_offset(path)
        if self._options.index_sanity_check:
            TimeIndex.decode(base_offset, content)
            yield f"{path} passed sanity check."
            return
        offsets = list(offset_entries(base_offset, self._index_beside(path)))
        file = self._files.open(_beside(path, ".log"))
        try:
            previous = -1
            for entry in time_entries(base_offset, content):
                self._check_time_entry(path, file, offsets, entry, previous)
                previous = entry.timestamp
                if not self._options.verify_index_only:
                    yield f"timestamp: {entry.timestamp} offset: {entry.offset}"
        finally:
            file.close()

    def _index_beside(self, path: str) -> bytes:
        try:
            return read_whole(self._files, _beside(path, ".index"))
        except FileNotFoundError:
            return b""

    def _check_time_entry(
        self, path: str, file: File, offsets: list[OffsetEntry], entry: TimeEntry, previous: int
    ) -> None:
        floor = bisect_right(offsets, entry.offset, key=attrgetter("offset"))
        start = offsets[floor - 1].position if floor else 0
        batch = _first(file, start, file.size(), lambda b: b.last_offset >= entry.offset)
        found = -1 if batch is None else batch.last_offset
        if batch is None or found != entry.offset:
            self._problem(path, f"Indexed offset: {entry.offset}, found log offset: {found}")
            return
        if batch.max_timestamp != entry.timestamp:
            self._problem(
                path,
                f"Index timestamp: {entry.timestamp}, log timestamp: {batch.max_timestamp}",
            )
        if previous >= entry.timestamp:
            self._problem(
                path,
                f"Index timestamp: {entry.timestamp}, Previously indexed timestamp: {previous}",
            )

    def _transaction_index(self, path: str) -> Iterator[str]:
        for entry in decode_aborted(read_whole(self._files, path)):
            yield (
                f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
                f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
            )

    def _snapshot(self, path: str) -> Iterator[str]:
        for producer in parse_entries(read_whole(self._files, path)):
            yield self._form.producer(producer)

    def _epochs(self, path: str) -> Iterator[str]:
        for entry in load_epochs(self._files, path.rpartition("/")[0] or ".").entries:
            yield f"leaderEpoch: {entry.epoch} startOffset: {entry.start_offset}"

    def _partition_metadata(self, path: str) -> Iterator[str]:
        topic_id = read_topic_id(self._files, path.rpartition("/")[0] or ".")
        if topic_id is not None:
            yield f"topicId: {uuid_text(topic_id)}"

    def _offsets(self, path: str) -> Iterator[str]:
        for key, offset in read_offsets(self._files, path).items():
            yield f"topic: {key.topic} partition: {key.partition} offset: {offset}"


class _GapFinder:
    """Collects gaps between offsets, as (last before, first after)."""

    def __init__(self) -> None:
        self.pairs: list[tuple[int, int]] = []
        self._last: int | None = None

    def pass_over(self, offset: int) -> None:
        if self._last is not None and offset != self._last + 1:
            self.pairs.append((self._last, offset))
        self._last = offset


def _base_offset(path: str) -> int:
    stem = path.rpartition("/")[2].partition(".")[0]
    if not stem.isdecimal():
        raise UserError(f"{path}: the file's name does not begin with an offset")
    return int(stem)


def _beside(path: str, suffix: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.partition('.')[0]}{suffix}"


def _first(
    file: File, start: int, end: int, wanted: Callable[[StoredBatch], bool]
) -> StoredBatch | None:
    """Return the first wanted batch from a position on; None if there is none."""
    if start < 0:
        return None
    try:
        return next((batch for batch in walk(file, start, end) if wanted(batch)), None)
    except CorruptRecords:
        return None
