"""The log of one partition: a list of segments. Appends go to the last one, reads to any.

    log_start_offset    the first offset that readers get, at most log_end_offset
    recovery_point      everything below is durable, at most log_end_offset
    log_end_offset      the offset of the next record

All methods run on the event loop. An append checks, writes and applies without a pause: a batch is
refused before anything changes, or written whole, or truncated away again. Syncs block, so
`prepare_flush` returns them as a `Flush` for another thread. `Resources` holds delayed work.

The leader assigns offsets: it rewrites the 16 bytes before a batch's checksum and appends the rest
unchanged. A follower appends the bytes that its leader wrote.

A crash of the process loses nothing that was appended. A power cut may lose batches at or above
the recovery point; `recovery` finds them. A flush writes the leader epoch checkpoint before the
recovery point moves, so recovery finds every epoch in the checkpoint or in the batches it reads.

Errors: ApiError for expected refusals (offset out of range, producer state, batch too large);
StorageError if the disk fails; DiskFull if it is full, with nothing changed; CorruptRecords if a
read meets damaged bytes. A log whose end cannot be trusted is `offline`. This module does not know
leadership, the in-sync replicas or the high watermark: `replication.partition` does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final

from moldau.base.checks import crash_point, invariant
from moldau.base.errors import DiskFull, FileTooLarge, InvariantViolated, StorageError
from moldau.base.files import Buffer
from moldau.base.ids import LeaderEpoch, Offset, TopicId
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import LENGTH_END, PREFIX_SIZE, BatchHeader, batch_prefix, seal
from moldau.records.control import end_transaction_marker
from moldau.storage.append_result import AppendResult
from moldau.storage.disk_errors import disk_errors, disk_failures, storage_error
from moldau.storage.durability import Durability, LowerOffsets
from moldau.storage.epochs import LEADER_EPOCHS, LeaderEpochs
from moldau.storage.flushing import Flush
from moldau.storage.index_files import make_empty
from moldau.storage.indexes import RELATIVE_OFFSET_MAX, AbortedTransaction
from moldau.storage.log_retention import delete_expired
from moldau.storage.log_truncation import BlockingSteps, Truncation, run_steps
from moldau.storage.prepared_end import PreparedEnd, end_after_cut, prepare_end
from moldau.storage.producer_history import store_snapshot
from moldau.storage.producers import Origin, ProducerStates
from moldau.storage.reader import ReadResult, aborted_in, read_segments
from moldau.storage.resources import Resources
from moldau.storage.scan import checked_headers
from moldau.storage.segment import HalfWritten, Segment
from moldau.storage.segments import Segments
from moldau.storage.tail import SMALL_BATCH_BYTES
from moldau.storage.time_search import Search, search, starts_until
from moldau.storage.topic_config import LONG_MAX, LogConfig

_NEW: Final = tuple.__new__
"""Makes a named tuple in half of the time that its own constructor takes."""


class Log:
    """The log of one partition on one disk."""

    __slots__ = (
        "_changed",
        "_durability",
        "_prepared",
        "_resources",
        "_segments",
        "active",
        "config",
        "epochs",
        "folder",
        "full",
        "is_truncating",
        "log_end_offset",
        "log_start_offset",
        "offline",
        "producers",
        "topic_id",
    )

    def __init__(
        self,
        resources: Resources,
        folder: str,
        config: LogConfig,
        segments: Sequence[Segment],
        epochs: LeaderEpochs,
        producers: ProducerStates,
        *,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        lower_offsets: LowerOffsets,
        durable: bool,
        unsynced_paths: Sequence[str] = (),
    ) -> None:
        """Build a log from loaded parts; `durable` says that its folder and files are synced."""
        invariant(segments, f"{folder}: a log has a segment")
        invariant(
            segments[0].base_offset <= log_start_offset <= log_end_offset
            and segments[-1].base_offset <= log_end_offset
            and recovery_point <= log_end_offset,
            f"{folder}: start {log_start_offset}, flushed {recovery_point}, end {log_end_offset}",
        )
        self._resources = resources
        self._segments = Segments(segments)
        self._durability = Durability(
            folder,
            recovery_point,
            resources.clock.wall_ms(),
            lower_offsets,
            names_durable=durable,
            unsynced_paths=unsynced_paths,
        )
        self._changed = not durable
        self._prepared: PreparedEnd | None = None
        self.folder = folder
        self.topic_id: TopicId | None = None
        self.config = config
        self.active = segments[-1]
        self.epochs = epochs
        self.producers = producers
        self.log_start_offset = Offset(log_start_offset)
        self.log_end_offset = Offset(log_end_offset)
        self.offline = False
        """True after its end or its directory failed: appends are refused for good."""
        self.full = False
        """True while the disk is full: appends are refused, reads and retention continue."""
        self.is_truncating = False
        """True while the files of a truncation are cut. Nobody may append, flush or delete then;
        whoever leads the partition or follows a leader asks first."""

    def __repr__(self) -> str:
        return f"<Log {self.folder} [{self.log_start_offset}, {self.log_end_offset})>"

    @property
    def segments(self) -> Sequence[Segment]:
        """Oldest first; the last is the active one, which takes the appends."""
        return self._segments.all

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self.segments)

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Where the first open or not yet replicated transaction begins; None without any."""
        return self.producers.first_unstable_offset

    def topic_id_written(self, topic_id: TopicId, path: str) -> None:
        """Set the topic id; the next flush syncs the file at this path, which holds it."""
        self.topic_id = topic_id
        self._durability.names_changed(path)
        self._changed = True

    def update_config(self, config: LogConfig) -> None:
        """Use new topic configs from the next append on."""
        self.config = config
        for segment in self.segments:
            segment.follow(config)

    # Appending

    def append(
        self,
        batch: Buffer,
        header: BatchHeader,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
    ) -> AppendResult:
        """Append one batch as the leader and assign the next offsets to it.

        `incoming` has validated the batch. The log keeps no reference to its bytes.
        """
        if header.producer_id >= 0:
            known = self.producers.check(header, origin)
            if known is not None:
                return AppendResult(known.first_offset, known.last_offset, known.timestamp, True)
        # Apply after the write: a refused write must leave the producer's sequence as it was.
        base_offset = self._append_batch(batch, header, leader_epoch)
        if header.producer_id >= 0:
            self.producers.apply(header, base_offset)
        last_offset = base_offset + header.last_offset_delta
        return _NEW(AppendResult, (base_offset, last_offset, header.max_timestamp, False))

    def append_marker(
        self, batch: Buffer, header: BatchHeader, leader_epoch: int, transaction_version: int = 2
    ) -> AppendResult:
        """Append the marker that ends a producer's transaction in this partition."""
        marker = end_transaction_marker(batch)
        if marker is None:
            raise InvariantViolated(f"{self.folder}: not a transaction marker")
        self.producers.check_marker(header, marker, transaction_version)
        offset = self._append_batch(batch, header, leader_epoch)
        completed = self.producers.apply_marker(header, marker, offset)
        if completed is not None and completed.aborted:
            try:
                with disk_errors(self.folder):
                    self._add_aborted(self.active, AbortedTransaction(*completed[:4]))
            except StorageError:
                # A marker without its `.txnindex` entry would show aborted records to consumers.
                self.truncate_to(offset)
                raise
        return AppendResult(offset, offset, header.max_timestamp, False)

    def append_checked(self, checked: bytes, timestamp: int, leader_epoch: int) -> None:
        """Append one small record without a producer; `checked` is what the checksum covers."""
        offset = self.log_end_offset
        batch = seal(offset, checked, leader_epoch)
        self._append_parts((batch,), len(batch), offset, timestamp, leader_epoch)

    def _append_batch(self, batch: Buffer, header: BatchHeader, leader_epoch: int) -> Offset:
        """Append a batch with the next offsets and this leader epoch; return its base offset."""
        base_offset, size = self.log_end_offset, LENGTH_END + header.length
        last_offset, timestamp = base_offset + header.last_offset_delta, header.max_timestamp
        prefix = batch_prefix(base_offset, size, leader_epoch)
        # A view: the body of a large batch goes from the request to the file without a copy. For a
        # small one a copy is cheaper than a write of two parts.
        body = memoryview(batch)[PREFIX_SIZE:]
        parts = (prefix + body,) if size <= SMALL_BATCH_BYTES else (prefix, body)
        self._append_parts(parts, size, last_offset, timestamp, leader_epoch)
        return base_offset

    def _append_parts(
        self,
        parts: Sequence[Buffer],
        size: int,
        last_offset: int,
        max_timestamp: int,
        leader_epoch: int,
    ) -> None:
        """Append a batch, given in parts; roll first if the active segment is full or too old."""
        if self.offline or self.full:
            raise self._refusal()
        # Not `invariant`, which would format its message for every batch.
        if leader_epoch < self.epochs.latest:
            raise InvariantViolated(f"{self}: epoch {leader_epoch} after {self.epochs.latest}")
        base_offset = self.log_end_offset
        if size > self.config.segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes are more than segment.bytes, {self.config.segment_bytes}",
            )
        segment = self.active
        if segment.should_roll(size, last_offset, max_timestamp):
            segment = self.roll(base_offset)
        segment = self._write(segment, parts)
        segment.account(size, base_offset, last_offset, max_timestamp)
        self._move_end(last_offset + 1, leader_epoch, base_offset)

    def _write(self, segment: Segment, parts: Sequence[Buffer]) -> Segment:
        """Write batches; roll if the file may not grow; return the segment that has them."""
        if not segment.size and self.epochs.latest < 0:
            with disk_errors(self.folder):
                make_empty(self._resources.files, [f"{self.folder}/{LEADER_EPOCHS}"])
        try:
            segment.write(parts)
        except HalfWritten:
            self.offline = True
            raise
        except FileTooLarge as error:
            if not segment.size:
                raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, str(error)) from error
            return self._write(self.roll(), parts)
        return segment

    def _move_end(self, end_offset: int, leader_epoch: int, base_offset: int) -> None:
        """Move the log end after a batch was written to the file in this leader epoch."""
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(LeaderEpoch(leader_epoch), Offset(base_offset))
        self.log_end_offset = Offset(end_offset)
        self._changed = True
        if self.config.flush_ms < LONG_MAX:
            self._resources.timed[self] = None

    def append_as_follower(self, batches: Buffer) -> int:
        """Append batches from a leader unchanged; return how many bytes were appended.

        An incomplete batch at the end is ignored. CorruptRecords, with nothing appended, if a
        checksum does not match, or if offsets or leader epochs go back.
        """
        view = memoryview(batches)
        # All headers before the first write: a bad batch must not leave half a response appended.
        headers = checked_headers(view, self.log_end_offset, self.epochs.latest)
        position = 0
        while headers:
            position = self._append_run(view, position, headers)
        return position

    def _append_run(self, view: memoryview, position: int, headers: list[BatchHeader]) -> int:
        """Write as many batches as fit into one segment, and remove them from the list."""
        if self.is_truncating:  # not `invariant`, as above
            raise InvariantViolated(f"{self}: an append during a truncation")
        if self.offline or self.full:
            raise self._refusal()
        first = headers[0]
        if self.active.should_roll(first.size, first.last_offset, first.max_timestamp):
            # The leader's log may have gaps from compaction. Start the new segment at our log end,
            # so that the gap is inside a segment: `recovery` takes one between two for a loss.
            end_offset = self.log_end_offset
            fits = first.last_offset - end_offset <= RELATIVE_OFFSET_MAX
            self.roll(end_offset if fits else first.base_offset)
        segment = self.active
        room = self.config.segment_bytes - segment.size - first.size
        run = 1
        while run < len(headers) and headers[run].size <= room:
            room -= headers[run].size
            run += 1
        end = position + sum(header.size for header in headers[:run])
        segment = self._write(segment, (view[position:end],))
        for header in headers[:run]:
            self._apply_replicated(segment, view[position : position + header.size], header)
            position += header.size
        del headers[:run]
        return end

    def _apply_replicated(self, segment: Segment, batch: memoryview, header: BatchHeader) -> None:
        """Apply a batch of the leader that is in our file now."""
        segment.account(header.size, header.base_offset, header.last_offset, header.max_timestamp)
        self._move_end(header.next_offset, header.leader_epoch, header.base_offset)
        completed = self.producers.replay(header, batch)
        if completed is not None and completed.aborted:
            with disk_failures(self.folder):
                self._add_aborted(segment, AbortedTransaction(*completed[:4]))

    def _add_aborted(self, segment: Segment, transaction: AbortedTransaction) -> None:
        segment.add_aborted(transaction)
        self._segments.note_aborted(segment)
        self._durability.names_changed()

    def _refusal(self) -> StorageError:
        if self.offline:
            return StorageError(self.folder, "the log is offline")
        return DiskFull(self.folder, "the disk is full")

    def set_full(self, full: bool) -> None:
        """Refuse appends while the disk is full, or take them again."""
        self.full = full

    def roll(self, base_offset: int | None = None) -> Segment:
        """Close the active segment and create the next; an empty active segment is replaced."""
        start = self.log_end_offset if base_offset is None else base_offset
        invariant(not self.is_truncating, f"{self}: a roll during a truncation")
        invariant(start >= self.log_end_offset, f"{self}: a roll at {start} is below the end")
        old = self.active
        if old.base_offset == start and not old.size:
            return old
        # The new `.log` comes last: if a step before it fails, as on a full disk, the old segment
        # stays the active one. The next flush syncs all files that are written here.
        with disk_errors(self.folder):
            crash_point("log.roll.before_store")
            old.store_indexes()
            self._durability.names_changed(*old.index_paths)
            self._sync_before_roll(start)
            crash_point("log.roll.before_snapshot")
            snapshot = store_snapshot(
                self._resources.files, self.folder, start, self.producers, complete=False
            )
            crash_point("log.roll.before_create")
            segment = Segment.create(self._resources, self.folder, start, self.config)
            crash_point("log.roll.after_create")
            old.stop_writing() if old.size else self._segments.take_newest().schedule_delete()
        self._segments.add(segment)
        self.active = segment
        self._durability.names_changed(snapshot)
        self._changed = True
        self._resources.rolled[self] = None
        return segment

    def _sync_before_roll(self, end_offset: int) -> None:
        """Sync the indexes of the active segment now if all of its batches are durable.

        Recovery skips a segment once the next one starts at the recovery point, so its indexes
        must be durable before. Only logs that flush every append get here; they wait anyway.
        """
        if self.recovery_point >= end_offset:
            flush = self._flush()
            flush.run()
            self.flushed(flush)

    # Reading

    def read(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool = True
    ) -> ReadResult:
        """Find the bytes from the batch with this offset up to the limits.

        The result ends before `end_offset`, a high watermark or last stable offset. With
        `at_least_one` the first batch is complete even if it exceeds `max_bytes`; the last batch
        may be incomplete. ApiError OFFSET_OUT_OF_RANGE if the offset is not in the log.
        """
        start, end = self.log_start_offset, self.log_end_offset
        if not start <= offset <= end:
            text = f"offset {offset} is not in [{start}, {end}]"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        try:
            return read_segments(
                self._segments, offset, max_bytes, end_offset, end, at_least_one=at_least_one
            )
        except OSError as error:
            raise storage_error(self.folder, error) from error

    def search(self, timestamp: int | None) -> Search:
        """Find the first record at or after a timestamp, or the newest for None, in steps."""
        with disk_errors(self.folder):
            return (yield from search(self, timestamp))

    def segment_starts(self, timestamp: int) -> list[int]:
        """List base offsets of segments up to a timestamp, all if negative, for ListOffsets 0."""
        with disk_errors(self.folder):
            return starts_until(self.segments, timestamp)

    def aborted_transactions(self, offset: int, read: ReadResult) -> tuple[AbortedTransaction, ...]:
        """List the aborted transactions with records in the result of a read from this offset."""
        with disk_errors(self.folder):
            return aborted_in(self._segments, offset, read, self.log_end_offset)

    # Deleting from the start

    def delete_records_before(self, offset: int) -> bool:
        """Move the log start up, at most to the high watermark; `retain` deletes the segments."""
        if offset <= self.log_start_offset:
            return False
        invariant(offset <= self.log_end_offset, f"{self}: a start at {offset} is above the end")
        self.log_start_offset = Offset(offset)
        self.epochs.truncate_from_start(Offset(offset))
        self.producers.log_start_moved(offset)
        self._changed = True
        return True

    def retain(self, now_ms: int, high_watermark: int) -> int:
        """Delete the segments that retention has expired; return how many."""
        if self.is_truncating:
            return 0
        with disk_errors(self.folder):
            return delete_expired(
                self, self._resources.files, self._segments, self._durability,
                now_ms, high_watermark,
            )  # fmt: skip

    # Truncating

    def prepare_truncation(self, offset: int) -> Generator[None, None, None]:
        """Do in steps what makes `truncate_to` long: load indexes, find the producers of then.

        The log does not change, and a preparation may be left half way. What it found is used if
        the log is cut there next and has not changed since.
        """
        with disk_errors(self.folder):
            self._prepared = yield from prepare_end(self._resources.files, self, offset)

    def lower_recovery_point(self, offset: int) -> Callable[[], None] | None:
        """Lower the recovery point for a truncation; return the call that writes it, if any.

        The call blocks, and raises DiskFull if there is no room. Run it first: up to here the
        truncation may still be left, and afterwards there is no way back.
        """
        invariant(offset >= 0, f"{self}: cannot be truncated to {offset}")
        with disk_errors(self.folder):
            return self._durability.cut_to(end_after_cut(self.segments, offset))

    def begin_truncation(self, offset: int) -> BlockingSteps | None:
        """Remove everything at or above an offset; None if there is nothing.

        A batch that contains the offset is removed whole, so the log may end below the offset. An
        offset below the log start lowers the start. In memory that is done at once, and replays
        producer state unless `prepare_truncation` has done that. The log `is_truncating` until the
        returned steps have run.
        """
        if offset >= self.log_end_offset:
            return None
        with disk_failures(self.folder):
            return self._truncation().truncate_to(offset)

    def begin_restart(self, offset: int) -> BlockingSteps:
        """Delete all segments and continue with an empty log at an offset, in the same way.

        For a follower whose leader's log starts above our end, or ends below our start.
        """
        with disk_failures(self.folder):
            return self._truncation().restart_at(offset)

    def truncate_to(self, offset: int) -> bool:
        """Do all of `begin_truncation` here and now; return whether there was anything.

        This blocks: it syncs and cuts files.
        """
        if offset >= self.log_end_offset:
            return False
        self._write_lowered(offset)
        run_steps(self.begin_truncation(offset) or ())
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Do all of `begin_restart` here and now."""
        self._write_lowered(offset)
        run_steps(self.begin_restart(offset))

    def _write_lowered(self, offset: int) -> None:
        write = self.lower_recovery_point(offset)
        if write is not None:
            write()

    @property
    def truncation_count(self) -> int:
        """How often the log was truncated since it was opened."""
        return self._durability.truncation_count

    def _truncation(self) -> Truncation:
        invariant(not self.is_truncating, f"{self}: is being truncated already")
        folder = self._resources.files.open_folder(self.folder)
        self.is_truncating = self._changed = True
        prepared, self._prepared = self._prepared, None
        return Truncation(self, self._resources, self._segments, self._durability, folder, prepared)

    # Durability

    @property
    def recovery_point(self) -> int:
        """Everything below survives a power cut."""
        return self._durability.recovery_point

    @property
    def flushed_ms(self) -> int:
        """When the last flush ended; `flush.ms` limits its age."""
        return self._durability.flushed_ms

    @property
    def unflushed_count(self) -> int:
        """How many offsets a power cut may lose; `flush.messages` limits it."""
        return self.log_end_offset - self.recovery_point

    def prepare_flush(self) -> Flush | None:
        """Return the sync that makes the log durable up to its end; None if it already is.

        Run it on another thread, then call `flushed`. One at a time, and not during a truncation:
        `flushing.Flusher`.
        """
        invariant(not self.is_truncating, f"{self}: a flush during a truncation")
        return self._flush() if self.recovery_point < self.log_end_offset else None

    def _flush(self) -> Flush:
        first = self._segments.number_of(self.recovery_point)
        with disk_errors(self.folder):
            logs = tuple(segment.handle() for segment in self.segments[first:])
        return self._durability.flush(self._resources.files, logs, self.log_end_offset, self.epochs)

    def flushed(self, flush: Flush) -> None:
        """Move the recovery point after a flush has run."""
        self._durability.flushed(flush, self.epochs, self._resources.clock.wall_ms())
        invariant(self.recovery_point <= self.log_end_offset, f"{self}: flushed above the end")
        if self.recovery_point >= self.active.base_offset:
            self._resources.rolled.pop(self, None)

    def prepare_close(self) -> Flush | None:
        """Store indexes and producer state for a clean shutdown; None if nothing has changed.

        Run the returned flush and call `flushed` before the clean shutdown mark is written.
        """
        if not self._changed or self.offline or self.is_truncating:
            return None
        if not (self.log_end_offset or self.truncation_count):
            return None  # An empty log has nothing to lose, and there may be tens of thousands.
        active, end = self.active, self.log_end_offset
        with disk_errors(self.folder):
            crash_point("log.close.before_indexes")
            active.store_indexes()
            snapshot = store_snapshot(
                self._resources.files, self.folder, end, self.producers, complete=True
            )
        self._durability.names_changed(*active.index_paths, snapshot)
        crash_point("log.close.before_flush")
        return self._flush()

    def let_go(self) -> None:
        """Close files and drop scheduled work; the log is not used any more."""
        self.offline = True
        self._resources.rolled.pop(self, None)
        self._resources.timed.pop(self, None)
        for segment in self.segments:
            segment.let_go()

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace adjacent segments by the one that compaction made of them."""
        self._segments.replace(old, new)
        self._durability.names_changed()
        self._changed = True
