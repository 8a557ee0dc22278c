"""One log directory: an entry of `log.dirs` with a folder per partition, which fails on its own.

A broker locks it. `meta.properties` names its owner. Four checkpoints have an offset per partition:
recovery points, log starts, high watermarks, and how far compaction has cleaned. Another thread
writes them (`offset_checkpoints`). A truncation lowers the recovery point of its log, or its start.
A copy of the offsets of all logs that was begun before is dropped then (`_outdated_count`).

Compaction never cleans above the recovery point (`compaction.choice`). So a truncation into the
cleaned part lowers the recovery point, and `lower_offsets` lowers the cleaner offset too.

Folders: `<topic>-<partition>` is a log; `...-delete` is removed; `...-stray`, `...-future` and the
metadata log, which belongs to another floor, are ignored.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from moldau.base.checks import crash_point
from moldau.base.errors import (
    CorruptRecords,
    DiskFull,
    InvariantViolated,
    StorageError,
    UserError,
)
from moldau.base.files import Lock
from moldau.base.ids import PartitionKey, TopicId
from moldau.storage.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    CleanMark,
    DamagedFile,
    MetaProperties,
    format_topic_id,
    read_meta_properties,
    read_offsets,
    read_topic_id,
    remove_clean_mark,
    write_clean_mark,
    write_meta_properties,
)
from moldau.storage.cuts import CutFile, expired_cuts
from moldau.storage.disk_errors import disk_errors
from moldau.storage.epochs import LeaderEpochs
from moldau.storage.folder_names import (
    STRAY_SUFFIX,
    is_being_deleted,
    partition_of,
    set_aside_name,
)
from moldau.storage.last_use import LastUse
from moldau.storage.log import Log
from moldau.storage.offset_checkpoints import OffsetCheckpoints
from moldau.storage.producers import ProducerStates
from moldau.storage.recovery import Report, open_log
from moldau.storage.resources import Resources, ScheduledDelete
from moldau.storage.room_probe import ROOM_PROBE, probe_room
from moldau.storage.segment import Segment
from moldau.storage.topic_config import LONG_MAX, LogConfig

logger = logging.getLogger(__name__)

LOCK = ".lock"
LOGS_PER_STEP = 1_000
"""Logs whose offsets are copied between two pauses: half a millisecond."""


class _Checkpoints(NamedTuple):
    """The checkpoints of a directory at load time."""

    recovery_points: Mapping[PartitionKey, int]
    log_starts: Mapping[PartitionKey, int]
    cleaner_offsets: Mapping[PartitionKey, int]
    compacted_otherwise: int
    """Where logs without a cleaner offset may have gaps: nowhere, or everywhere if unknown."""


class LogDirectory:
    """One folder of logs; changed only on the event loop, except where a method says so."""

    __slots__ = (
        "_checkpointed",
        "_checkpoints",
        "_lock",
        "_outdated_count",
        "_resources",
        "cleaner_offsets",
        "cuts",
        "failure",
        "full",
        "high_watermarks",
        "identity",
        "last_use",
        "logs",
        "offline",
        "path",
        "unreadable",
    )

    def __init__(self, resources: Resources, path: str) -> None:
        self._resources = resources
        self._checkpoints = OffsetCheckpoints(resources.files, path)
        self._outdated_count = 0
        """Raised to void the copies of all offsets that are being made."""
        self._checkpointed: set[PartitionKey] = set()
        """Partitions that a checkpoint may contain, deleted ones included."""
        self._lock: Lock | None = None
        self.path = path
        self.offline = True
        self.failure: StorageError | None = None
        """Why the directory went offline after it was online."""
        self.full = False
        """Whether the disk is full: reads work, appends are refused."""
        self.last_use = LastUse(resources.files, path)
        self.identity = MetaProperties()
        self.high_watermarks: dict[PartitionKey, int] = {}
        """As of the last checkpoint."""
        self.cleaner_offsets: dict[PartitionKey, int] = {}
        """Compaction has cleaned the logs below these offsets."""
        self.logs: dict[PartitionKey, Log] = {}
        self.unreadable: dict[PartitionKey, str] = {}
        """Partitions that could not be opened, because of damage or a full disk, and why.

        Their folders stay as they are; the next start recovers them again."""
        self.cuts: dict[PartitionKey, tuple[CutFile, ...]] = {}
        """The `.cut` files of the few logs that have any."""

    # Opening

    def lock(self) -> None:
        """Lock the directory; UserError if another broker has it."""
        with disk_errors(self.path):
            self._make_folder()
            try:
                self._lock = self._resources.files.lock(f"{self.path}/{LOCK}")
            except BlockingIOError as error:
                raise UserError(f"{self.path} is in use by another broker") from error

    def check_identity(self) -> None:
        """Check that `meta.properties` is readable; StorageError if not."""
        with disk_errors(self.path):
            read_meta_properties(self._resources.files, self.path)

    def open(self, cluster_id: str, node_id: int, boot_id: str, incarnation_id: bytes) -> None:
        """Lock the directory if needed and check its owner; UserError if it is another node."""
        if self._lock is None:
            self.lock()
        files = self._resources.files
        with disk_errors(self.path):
            self.identity = self._identify(cluster_id, node_id)
            self.last_use.read(boot_id, incarnation_id)
            files.remove(f"{self.path}/{ROOM_PROBE}")
        try:
            self.last_use.write()
        except DiskFull:
            self.set_full(True)
        self.offline = False

    def prepare_open_mark(self, broker_epoch: int) -> Callable[[], None]:
        """Note that the broker has registered; the returned call writes it, on any thread."""
        self.last_use.note(broker_epoch)
        return self.last_use.write

    def _make_folder(self) -> None:
        """Create a missing folder and sync its parent: no later sync would make it durable."""
        files = self._resources.files
        if not files.exists(self.path):
            files.make_folder(self.path)
            parent = self.path.rpartition("/")[0]
            files.sync_folder(parent or ("/" if self.path.startswith("/") else "."))

    def _identify(self, cluster_id: str, node_id: int) -> MetaProperties:
        files = self._resources.files
        found = read_meta_properties(files, self.path)
        if found is None:
            directory_id = self._resources.random.randbytes(16)
            found = MetaProperties(1, cluster_id, node_id, directory_id)
            write_meta_properties(files, self.path, found)
        if found.node_id not in {None, node_id}:
            raise UserError(f"{self.path} belongs to node {found.node_id}, this is node {node_id}")
        if found.cluster_id not in {None, cluster_id}:
            raise UserError(
                f"{self.path} belongs to cluster {found.cluster_id}, this is {cluster_id}"
            )
        return found

    def load(self, config_of: Callable[[str], LogConfig]) -> dict[PartitionKey, Report]:
        """Open every log; return the reports of the recovered ones.

        A damaged checkpoint is ignored. A log that cannot be opened becomes `unreadable`. A
        failing disk raises StorageError; on a full disk all logs refuse appends.
        """
        files = self._resources.files
        reports = {}
        with disk_errors(self.path):
            checkpoints = self._read_checkpoints()
            for name in files.names(self.path):
                self._resume_delete(name)
                key = partition_of(name)
                if key is None or not files.is_folder(f"{self.path}/{name}"):
                    continue
                try:
                    report = self._load_log(key, config_of(key.topic), checkpoints)
                except (DamagedFile, CorruptRecords, InvariantViolated, DiskFull) as error:
                    logger.error("%s cannot be opened and stays offline: %s", key, error)  # noqa: TRY400
                    self.unreadable[key] = str(error)
                    self.full = self.full or isinstance(error, DiskFull)
                    continue
                self.full = self.full or report.lacked_room
                for line in report.warnings:
                    logger.warning("%s: %s", key, line)
                if report.recovered_segments:
                    reports[key] = report
                # Drop an offset above the log end: the log may grow past it with dirty records.
                cleaned = checkpoints.cleaner_offsets.get(key, LONG_MAX)
                if cleaned <= self.logs[key].log_end_offset:
                    self.cleaner_offsets[key] = cleaned
            self._note_offsets()
            # Loading appends nothing: after a crash up to here, the logs are still clean.
            crash_point("manager.open.before_clean_mark_removal")
            remove_clean_mark(files, self.path)
            crash_point("manager.open.after_clean_mark_removal")
        if self.full:
            self._warn_of_no_room()
            for log in self.logs.values():
                log.set_full(True)
        return reports

    def _warn_of_no_room(self) -> None:
        logger.warning(
            "log directory %s is full, writes are refused until there is room", self.path
        )

    def _read_checkpoints(self) -> _Checkpoints:
        """Read the checkpoints; a damaged file counts as empty."""
        recovery_points = self._read_offsets(RECOVERY_POINTS, "every log is checked in full")
        log_starts = self._read_offsets(
            LOG_STARTS, "logs start with their first segment: deleted records may be back"
        )
        watermarks = self._read_offsets(HIGH_WATERMARKS, "high watermarks are found out again")
        cleaner_offsets = self._read_offsets(CLEANER_OFFSETS, "logs are compacted from their start")
        self.high_watermarks = watermarks or {}
        found = _Checkpoints(
            recovery_points or {},
            log_starts or {},
            cleaner_offsets or {},
            LONG_MAX if cleaner_offsets is None else 0,
        )
        self._checkpointed = {
            *found.recovery_points, *found.log_starts, *self.high_watermarks, *found.cleaner_offsets
        }  # fmt: skip
        return found

    def _read_offsets(self, name: str, otherwise: str) -> dict[PartitionKey, int] | None:
        try:
            return read_offsets(self._resources.files, f"{self.path}/{name}")
        except DamagedFile as error:
            logger.warning("%s; %s", error, otherwise)
            return None

    def _resume_delete(self, name: str) -> None:
        if is_being_deleted(name):
            self._resources.scheduled_deletes.append(
                ScheduledDelete(0, f"{self.path}/{name}", is_folder=True)
            )

    def _load_log(self, key: PartitionKey, config: LogConfig, checkpoints: _Checkpoints) -> Report:
        folder = f"{self.path}/{key}"
        log, report = open_log(
            self._resources,
            folder,
            config,
            clean=self.last_use.clean,
            log_start_offset=checkpoints.log_starts.get(key, 0),
            recovery_point=checkpoints.recovery_points.get(key, 0),
            compacted_below=checkpoints.cleaner_offsets.get(key, checkpoints.compacted_otherwise),
            lower_offsets=self.lower_offsets,
        )
        try:
            log.topic_id = read_topic_id(self._resources.files, folder)
        except DamagedFile as error:
            # `open_or_create` writes the id again from the cluster's metadata. After a power cut,
            # a damaged file in a log that was never flushed is expected: no warning.
            if not self.last_use.power_lost or log.recovery_point:
                logger.warning("%s; the cluster's metadata says whose it is", error)
        self.logs[key] = log
        if report.cuts:
            self.cuts[key] = report.cuts
        return report

    def create(self, key: PartitionKey, topic_id: TopicId, config: LogConfig) -> Log:
        """Create an empty log; its first flush makes its folder and files durable."""
        folder = f"{self.path}/{key}"
        with disk_errors(self.path):
            if key in self._checkpointed:
                self._remove_from_checkpoints(key)
            self._set_aside_old_folder(key, folder)
            crash_point("manager.create.before_folder")
            try:
                return self._create(key, folder, topic_id, config)
            except (OSError, StorageError):
                # The next start would load an incomplete folder as a log.
                with contextlib.suppress(OSError):
                    self._resources.files.remove_folder(folder)
                raise

    def _set_aside_old_folder(self, key: PartitionKey, folder: str) -> None:
        """Set aside an old folder of this name, whose rename failed when it was deleted."""
        resources = self._resources
        if resources.files.exists(folder):
            aside = set_aside_name(key, resources.random.randbytes(16), STRAY_SUFFIX)
            resources.files.rename(folder, f"{self.path}/{aside}")

    def _create(self, key: PartitionKey, folder: str, topic_id: TopicId, config: LogConfig) -> Log:
        self._resources.files.make_folder(folder)
        segment = Segment.create(self._resources, folder, 0, config)
        log = Log(
            self._resources,
            folder,
            config,
            [segment],
            LeaderEpochs(),
            ProducerStates(),
            log_start_offset=0,
            log_end_offset=0,
            recovery_point=0,
            lower_offsets=self.lower_offsets,
            durable=False,
        )
        crash_point("manager.create.before_topic_id")
        self.keep_topic_id(log, topic_id)
        crash_point("manager.create.after_topic_id")
        self.logs[key] = log
        return log

    def keep_topic_id(self, log: Log, topic_id: TopicId) -> None:
        """Write the topic id of a log without a sync; the next flush syncs it.

        A sync per partition would make the creation of a large topic take seconds.
        """
        path = f"{log.folder}/{PARTITION_METADATA}"
        with disk_errors(self.path):
            file = self._resources.files.open(path, create=True)
            try:
                file.truncate(0)
                file.append([format_topic_id(topic_id)])
            finally:
                file.close()
        log.topic_id_written(topic_id, path)

    def keeps_promises(self, key: PartitionKey) -> bool:
        """Return whether a log is as it was closed: no power cut, or it has been flushed."""
        return not self.last_use.power_lost or self.logs[key].recovery_point > 0

    def forget_log(self, key: PartitionKey) -> int:
        """Drop a log before its folder is renamed; return how long its files must stay."""
        log = self.logs.pop(key, None)
        for known in (self.high_watermarks, self.cleaner_offsets, self.unreadable, self.cuts):
            known.pop(key, None)
        if log is None:
            return 0
        log.let_go()
        return log.config.file_delete_delay_ms

    # Failing and closing

    def set_full(self, full: bool) -> bool:
        """Refuse appends while the disk is full, or accept them; return whether that changed."""
        if full == self.full:
            return False
        self.full = full
        for log in self.logs.values():
            log.set_full(full)
        return True

    def has_room(self) -> bool:
        """Test with a write whether there is room; may block, and may run on any thread.

        It also writes the open mark, if there was no room for it.
        """
        files = self._resources.files
        try:
            if not probe_room(files, self.path):
                return False
            self.last_use.write()
        except (OSError, StorageError):
            return False
        return True

    def fail(self, error: StorageError) -> None:
        """Take the directory and its logs offline: their files cannot be trusted any more."""
        self.offline = True
        self.failure = error
        for log in self.logs.values():
            log.let_go()

    def prepare_cut_removals(self, now_ms: int) -> Iterator[Callable[[], None]]:
        """Yield a call for each expired `.cut` file; it removes that one, on any thread."""
        for key, cuts in tuple(self.cuts.items()):
            log = self.logs.get(key)
            expired = () if log is None else expired_cuts(cuts, log.config, now_ms)
            kept = () if log is None else tuple(cut for cut in cuts if cut not in expired)
            if kept:
                self.cuts[key] = kept
            else:
                del self.cuts[key]
            for cut in expired:
                yield partial(self._remove_file, cut.path)

    def _remove_file(self, path: str) -> None:
        with disk_errors(path):
            self._resources.files.remove(path)

    def finish(self, broker_epoch: int) -> None:
        """Write the clean shutdown mark, after all logs are flushed and checkpointed."""
        with disk_errors(self.path):
            crash_point("manager.close.before_clean_mark")
            write_clean_mark(self._resources.files, self.path, CleanMark(broker_epoch))
            crash_point("manager.close.after_clean_mark")

    def release(self) -> None:
        """Unlock the directory."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Checkpoints

    def lower_offsets(
        self, folder: str, *, recovery_point: int | None = None, log_start: int | None = None
    ) -> Callable[[], None]:
        """Lower the offsets of one log in the checkpoints; the returned call writes them.

        A truncation must not go on before it has run. It blocks; it may run on any thread.
        """
        self._outdated_count += 1
        key = partition_of(folder.rpartition("/")[2])
        if key is None:
            raise InvariantViolated(f"{folder}: the folder of no partition")
        checkpoints, names = self._checkpoints, []
        if recovery_point is not None:
            if self.cleaner_offsets.get(key, 0) > recovery_point:
                self.cleaner_offsets[key] = recovery_point
                checkpoints.note(CLEANER_OFFSETS, dict(self.cleaner_offsets))
                names.append(CLEANER_OFFSETS)
            checkpoints.lower(RECOVERY_POINTS, key, recovery_point)
            names.append(RECOVERY_POINTS)
        if log_start is not None:
            checkpoints.lower(LOG_STARTS, key, log_start)
            names.append(LOG_STARTS)
        return partial(checkpoints.write, *names)

    def _remove_from_checkpoints(self, key: PartitionKey) -> None:
        """Remove a deleted log from all checkpoints before its name is used again.

        With the old log start the new log would lose its first records, and with the old recovery
        point recovery would trust damaged batches.
        """
        self._outdated_count += 1
        self.high_watermarks.pop(key, None)
        self.cleaner_offsets.pop(key, None)
        self._note_offsets()
        known = {one: at for one, at in self.high_watermarks.items() if one in self.logs}
        self._checkpoints.note(HIGH_WATERMARKS, known)
        self._checkpoints.note(CLEANER_OFFSETS, dict(self.cleaner_offsets))
        self._checkpoints.write(RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS)
        self._checkpointed = set(self.logs)

    def prepare_checkpoints(
        self, high_watermarks: Mapping[PartitionKey, int]
    ) -> Callable[[], None]:
        """Copy the offsets and return the call that writes them, on any thread."""
        noting = self.prepare_checkpoints_in_steps(high_watermarks.get)
        try:
            while True:
                next(noting)
        except StopIteration as end:
            write: Callable[[], None] = end.value
            return write

    def prepare_checkpoints_in_steps(
        self, high_watermark_of: Callable[[PartitionKey], int | None]
    ) -> Generator[None, None, Callable[[], None]]:
        """Do the same with a pause after every `LOGS_PER_STEP` logs: there may be ten thousand.

        A log may be deleted and created again during a pause. It is in `_checkpointed` then, so
        `create` calls `_remove_from_checkpoints`, which voids this copy.
        """
        outdated_count = self._outdated_count
        recovery_points: dict[PartitionKey, int] = {}
        log_starts: dict[PartitionKey, int] = {}
        watermarks: dict[PartitionKey, int] = {}
        for count, (key, log) in enumerate(tuple(self.logs.items()), 1):
            if not count % LOGS_PER_STEP:
                yield
            if self.logs.get(key) is not log:
                continue
            self._checkpointed.add(key)
            recovery_points[key] = log.recovery_point
            start = self._log_start(key, log)
            if start is not None:
                log_starts[key] = start
            watermark = high_watermark_of(key)
            if watermark is not None:
                watermarks[key] = watermark
        self.high_watermarks = {key: at for key, at in watermarks.items() if key in self.logs}
        if outdated_count == self._outdated_count:
            self._checkpoints.note(RECOVERY_POINTS, recovery_points)
            self._checkpoints.note(LOG_STARTS, log_starts)
            self._checkpoints.note(HIGH_WATERMARKS, watermarks)

        def write() -> None:
            crash_point("manager.checkpoint.before_recovery_points")
            self._checkpoints.write(RECOVERY_POINTS)
            crash_point("manager.checkpoint.before_log_starts")
            self._checkpoints.write(LOG_STARTS)
            crash_point("manager.checkpoint.before_high_watermarks")
            self._checkpoints.write(HIGH_WATERMARKS)
            crash_point("manager.checkpoint.after_high_watermarks")

        return write

    def prepare_cleaner_checkpoint(self, key: PartitionKey, offset: int) -> Callable[[], None]:
        """Record how far a log was compacted; the returned call writes it, on any thread."""
        self.cleaner_offsets[key] = offset
        self._checkpointed.add(key)
        self._checkpoints.note(CLEANER_OFFSETS, dict(self.cleaner_offsets))

        def write() -> None:
            crash_point("compaction.checkpoint.before_write")
            self._checkpoints.write(CLEANER_OFFSETS)
            crash_point("compaction.checkpoint.after_write")

        return write

    def _note_offsets(self) -> None:
        """Note the offsets of all logs at once."""
        starts = ((key, self._log_start(key, log)) for key, log in self.logs.items())
        known = {key: start for key, start in starts if start is not None}
        self._checkpoints.note(
            RECOVERY_POINTS, {key: log.recovery_point for key, log in self.logs.items()}
        )
        self._checkpoints.note(LOG_STARTS, known)
        self._checkpointed.update(self.logs)

    def _log_start(self, key: PartitionKey, log: Log) -> int | None:
        """Return a log start that differs from the base offset of the first segment, else None.

        A truncation that is under way has not cut its files yet. With the lowered start on disk,
        a crash would bring deleted records back. It writes the start itself when it ends.
        """
        if log.is_truncating:
            return self._checkpoints.noted(LOG_STARTS).get(key)
        start = log.log_start_offset
        return start if start > log.segments[0].base_offset else None
