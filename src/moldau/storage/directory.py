"""One entry of `log.dirs`: a folder of partition folders that lives and fails on its own.

It is locked while a broker uses it, says in `meta.properties` whose it is, and keeps four
checkpoints beside the logs: recovery points, log starts, high watermarks, and where compaction has
got to. Checkpoints are written from another thread; a recovery point that was lowered must not be
overwritten by an older and higher one, hence the lock and the count.

Compaction never gets beyond the recovery point (`compaction.choice`): so whoever cuts a log below
what was compacted lowers that point first, and with it where compaction begins again.

Folders: `<topic>-<partition>` is a log; `...-delete` is on its way out and removed; `...-stray` and
`...-future` are left alone, and so is the metadata log, which belongs to another floor.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Generator, Mapping
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
    read_clean_mark,
    read_meta_properties,
    read_offsets,
    read_open_mark,
    read_topic_id,
    remove_clean_mark,
    write_clean_mark,
    write_meta_properties,
    write_offsets,
    write_open_mark,
)
from moldau.storage.cuts import CutFile, expired_cuts
from moldau.storage.disk_errors import disk_errors, is_full
from moldau.storage.epochs import LeaderEpochs
from moldau.storage.log import Log
from moldau.storage.producers import ProducerStates
from moldau.storage.recovery import Report, open_log
from moldau.storage.resources import Resources, ScheduledDelete
from moldau.storage.segment import Segment
from moldau.storage.topic_config import LONG_MAX, LogConfig

logger = logging.getLogger(__name__)

LOCK = ".lock"
METADATA_TOPIC = "__cluster_metadata"
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
ROOM_PROBE = ".moldau_room"
ROOM_PROBE_BYTES = 1024 * 1024
"""So much must find room before appends are taken again: less would be used up in no time."""
LOGS_PER_STEP = 1_000
"""Logs whose offsets are noted between two pauses: half a millisecond."""

FOLDER_NAME_MAX = 255
"""What file systems allow; the topic's part of a longer name is cut."""

_PARTITION_FOLDER = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")
_SET_ASIDE = re.compile(r".+\.[0-9a-f]{32}-(delete|stray|future)")


def partition_of(name: str) -> PartitionKey | None:
    """Read which partition a folder holds; None if it is no partition's."""
    match = _PARTITION_FOLDER.fullmatch(name)
    if match is None or _SET_ASIDE.fullmatch(name) or match[1] == METADATA_TOPIC:
        return None
    return PartitionKey(match[1], int(match[2]))


def set_aside_name(key: PartitionKey, unique: bytes, suffix: str) -> str:
    """Name the folder of a partition that is deleted or stray, as Kafka does."""
    tail = f"-{key.partition}.{unique.hex()}{suffix}"
    return key.topic[: FOLDER_NAME_MAX - len(tail)] + tail


class _Checkpoints(NamedTuple):
    """What the checkpoints of a directory say when it is loaded."""

    recovery_points: Mapping[PartitionKey, int]
    log_starts: Mapping[PartitionKey, int]
    cleaner_offsets: Mapping[PartitionKey, int]
    compacted_otherwise: int
    """Up to where logs without a cleaner offset may have holes; anywhere, if nobody can tell."""


class LogDirectory:
    """One folder of logs."""

    __slots__ = (
        "_checkpoint_lock",
        "_checkpointed",
        "_lock",
        "_outdated_count",
        "_resources",
        "_unwritten_boot_id",
        "_written",
        "clean",
        "cleaner_offsets",
        "cuts",
        "failure",
        "full",
        "high_watermarks",
        "identity",
        "logs",
        "offline",
        "path",
        "power_lost",
        "unreadable",
    )

    def __init__(self, resources: Resources, path: str) -> None:
        self._resources = resources
        self._checkpoint_lock = threading.Lock()
        self._outdated_count = 0
        """How often checkpoints under way were made to be dropped."""
        self._checkpointed: set[PartitionKey] = set()
        """Logs of which a checkpoint may speak, those deleted meanwhile included."""
        self._written: dict[str, Mapping[PartitionKey, int]] = {}
        """What each checkpoint says since it was last written by this object."""
        self._lock: Lock | None = None
        self._unwritten_boot_id: str | None = None
        """What the open mark is to say once there is room for it."""
        self.path = path
        self.offline = True
        self.failure: StorageError | None = None
        """Why the folder is offline, once it was online."""
        self.full = False
        """Whether there is no room: what is there is read, and nothing is appended."""
        self.clean = False
        """Whether the last stop was an orderly one."""
        self.power_lost = False
        """Whether the machine may have lost what was not synced: an unclean stop, another boot."""
        self.identity = MetaProperties()
        self.high_watermarks: dict[PartitionKey, int] = {}
        """As they were at the last checkpoint."""
        self.cleaner_offsets: dict[PartitionKey, int] = {}
        """Below these, logs have been compacted."""
        self.logs: dict[PartitionKey, Log] = {}
        self.unreadable: dict[PartitionKey, str] = {}
        """Partitions whose folder makes no sense, or whose recovery found no room, and why.

        The folder stays as it is; the next start recovers it again."""
        self.cuts: dict[PartitionKey, tuple[CutFile, ...]] = {}
        """The `.cut` files of the few logs that have some."""

    # Opening

    def lock(self) -> None:
        """Keep every other broker out of the folder; UserError if one is in it."""
        with disk_errors(self.path):
            self._make_folder()
            try:
                self._lock = self._resources.files.lock(f"{self.path}/{LOCK}")
            except BlockingIOError as error:
                raise UserError(f"{self.path} is in use by another broker") from error

    def check_identity(self) -> None:
        """Read whose the folder is; StorageError if that cannot be."""
        with disk_errors(self.path):
            read_meta_properties(self._resources.files, self.path)

    def open(self, cluster_id: str, node_id: int, boot_id: str) -> None:
        """See whose the folder is, locked if it was not; UserError if it is somebody else's."""
        if self._lock is None:
            self.lock()
        files = self._resources.files
        with disk_errors(self.path):
            self.identity = self._identify(cluster_id, node_id)
            self.clean = read_clean_mark(files, self.path) is not None
            self.power_lost = not self.clean and read_open_mark(files, self.path) != boot_id
            files.remove(f"{self.path}/{ROOM_PROBE}")
            try:
                write_open_mark(files, self.path, boot_id)
            except OSError as error:
                # An older mark, or none, makes the next start take more care than it must.
                if not is_full(error):
                    raise
                self.full, self._unwritten_boot_id = True, boot_id
        self.offline = False

    def _make_folder(self) -> None:
        """Make the folder if it is missing, and its name durable: all that follows relies on it."""
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
        """Open every log; return what those needed that had to be recovered.

        A small file that makes no sense costs what only it could tell; a log that cannot be put
        together, also for want of room, costs its partition. The disk itself must work:
        StorageError otherwise. On a full one the logs are read from and not appended to.
        """
        files = self._resources.files
        reports = {}
        with disk_errors(self.path):
            checkpoints = self._read_checkpoints()
            for name in files.names(self.path):
                self._resume_removal(name)
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
                # A log that lost its end may grow again to where it was compacted up to.
                cleaned = checkpoints.cleaner_offsets.get(key, LONG_MAX)
                if cleaned <= self.logs[key].log_end_offset:
                    self.cleaner_offsets[key] = cleaned
            crash_point("manager.open.before_clean_mark_removal")
            remove_clean_mark(files, self.path)
            crash_point("manager.open.after_clean_mark_removal")
        if self.full:
            logger.warning(
                "log directory %s is full, writes are refused until there is room", self.path
            )
            for log in self.logs.values():
                log.set_full(True)
        return reports

    def _read_checkpoints(self) -> _Checkpoints:
        """Read what the last run left; one file that is damaged is as good as none."""
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

    def _resume_removal(self, name: str) -> None:
        match = _SET_ASIDE.fullmatch(name)
        if match is not None and match[1] == DELETE_SUFFIX[1:]:
            self._resources.scheduled_deletes.append(
                ScheduledDelete(0, f"{self.path}/{name}", is_folder=True)
            )

    def _load_log(self, key: PartitionKey, config: LogConfig, checkpoints: _Checkpoints) -> Report:
        folder = f"{self.path}/{key}"
        log, report = open_log(
            self._resources,
            folder,
            config,
            clean=self.clean,
            log_start_offset=checkpoints.log_starts.get(key, 0),
            recovery_point=checkpoints.recovery_points.get(key, 0),
            compacted_below=checkpoints.cleaner_offsets.get(key, checkpoints.compacted_otherwise),
            recovery_point_lowered=self.recovery_point_lowered,
        )
        try:
            log.topic_id = read_topic_id(self._resources.files, folder)
        except DamagedFile as error:
            # The cluster's metadata knows the id and gives it again. A power cut may have torn a
            # file that was never synced: that is no news.
            if not self.power_lost or log.recovery_point:
                logger.warning("%s; the cluster's metadata says whose it is", error)
        self.logs[key] = log
        if report.cuts:
            self.cuts[key] = report.cuts
        return report

    def create(self, key: PartitionKey, topic_id: TopicId, config: LogConfig) -> Log:
        """Make an empty log; nothing waits for the disk until its first flush."""
        folder = f"{self.path}/{key}"
        with disk_errors(self.path):
            if key in self._checkpointed:
                self._forget(key)
            self._clear_name(key, folder)
            crash_point("manager.create.before_folder")
            try:
                return self._create(key, folder, topic_id, config)
            except (OSError, StorageError):
                # What is half made would be loaded as a log after a restart.
                with contextlib.suppress(OSError):
                    self._resources.files.remove_folder(folder)
                raise

    def _clear_name(self, key: PartitionKey, folder: str) -> None:
        """Set a folder aside that is in the way: the disk refused to rename it at its deletion."""
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
            recovery_point_lowered=self.recovery_point_lowered,
            durable=False,
        )
        crash_point("manager.create.before_topic_id")
        self.keep_topic_id(log, topic_id)
        crash_point("manager.create.after_topic_id")
        self.logs[key] = log
        return log

    def keep_topic_id(self, log: Log, topic_id: TopicId) -> None:
        """Write the topic's id beside a log that has none, without waiting for the disk.

        Waiting would make a topic of many partitions take seconds.
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
        """Tell whether a log may hold what was promised: no power cut, or it was flushed before."""
        return not self.power_lost or self.logs[key].recovery_point > 0

    def forget_log(self, key: PartitionKey) -> int:
        """Take a log out of use that is about to be renamed; return how long its files stay."""
        log = self.logs.pop(key, None)
        for known in (self.high_watermarks, self.cleaner_offsets, self.unreadable, self.cuts):
            known.pop(key, None)
        if log is None:
            return 0
        log.let_go()
        return log.config.file_delete_delay_ms

    # Failing and closing

    def set_full(self, full: bool) -> bool:
        """Refuse appends for want of room, or take them again; tell whether that is news."""
        if full == self.full:
            return False
        self.full = full
        for log in self.logs.values():
            log.set_full(full)
        return True

    def has_room(self) -> bool:
        """Try whether something can be written again; may block, and may run on any thread.

        A quota, and the blocks kept for root, do not show in the free space: so it is written. Then
        there is room for the open mark too, if the start found none.
        """
        files, path = self._resources.files, f"{self.path}/{ROOM_PROBE}"
        try:
            if 0 <= files.space(self.path)[1] < ROOM_PROBE_BYTES:
                return False
            try:
                file = files.open(path, create=True)
                try:
                    file.append([bytes(ROOM_PROBE_BYTES)])
                finally:
                    file.close()
            finally:
                files.remove(path)
            if self._unwritten_boot_id is not None:
                write_open_mark(files, self.path, self._unwritten_boot_id)
                self._unwritten_boot_id = None
        except OSError:
            return False
        return True

    def fail(self, error: StorageError) -> None:
        """Take the folder and its logs out of use: what it holds cannot be trusted any more."""
        self.offline = True
        self.failure = error
        for log in self.logs.values():
            log.let_go()

    def remove_expired_cuts(self, now_ms: int) -> None:
        """Remove the `.cut` files that are too old or too many."""
        for key, cuts in tuple(self.cuts.items()):
            log = self.logs.get(key)
            if log is None:
                del self.cuts[key]
                continue
            expired = expired_cuts(cuts, log.config, now_ms)
            with disk_errors(log.folder):
                for cut in expired:
                    self._resources.files.remove(cut.path)
            self.cuts[key] = tuple(cut for cut in cuts if cut not in expired)
            if not self.cuts[key]:
                del self.cuts[key]

    def finish(self, broker_epoch: int) -> None:
        """Leave the mark of an orderly stop; the logs are closed and checkpointed."""
        with disk_errors(self.path):
            crash_point("manager.close.before_clean_mark")
            write_clean_mark(self._resources.files, self.path, CleanMark(broker_epoch))
            crash_point("manager.close.after_clean_mark")

    def release(self) -> None:
        """Let another process use the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Checkpoints

    def recovery_point_lowered(self) -> None:
        """Write the recovery points now: a log is about to lose what was durable."""
        with disk_errors(self.path), self._checkpoint_lock:
            self._outdated_count += 1
            lowered = {
                key: self.logs[key].recovery_point
                for key, offset in self.cleaner_offsets.items()
                if key in self.logs and self.logs[key].recovery_point < offset
            }
            if lowered:
                self.cleaner_offsets |= lowered
                self._write(CLEANER_OFFSETS, dict(self.cleaner_offsets))
            self._write(RECOVERY_POINTS, self._recovery_points())

    def _forget(self, key: PartitionKey) -> None:
        """Let no checkpoint speak of a deleted log any more, before its name is used again.

        What it says would be taken for the new log's: its beginning would be cut off, and what a
        power cut has torn would be trusted unread.
        """
        with self._checkpoint_lock:
            self._outdated_count += 1
            self._write(RECOVERY_POINTS, self._recovery_points())
            self._write(LOG_STARTS, self._log_starts())
            self.high_watermarks.pop(key, None)
            known = {one: at for one, at in self.high_watermarks.items() if one in self.logs}
            self._write(HIGH_WATERMARKS, known)
            self.cleaner_offsets.pop(key, None)
            self._write(CLEANER_OFFSETS, dict(self.cleaner_offsets))
            self._checkpointed = set(self.logs)

    def prepare_checkpoints(
        self, high_watermarks: Mapping[PartitionKey, int]
    ) -> Callable[[], None]:
        """Note what to write now and return the call that writes it, on any thread."""
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
        """Do the same, and pause after some logs: there may be ten thousand.

        A log that is deleted meanwhile, and made again under its name, is known to have been noted:
        then `_forget` keeps what was noted of the old one from being written.
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
            if log.log_start_offset > log.segments[0].base_offset:
                log_starts[key] = log.log_start_offset
            watermark = high_watermark_of(key)
            if watermark is not None:
                watermarks[key] = watermark
        self.high_watermarks = {key: at for key, at in watermarks.items() if key in self.logs}

        def write() -> None:
            with disk_errors(self.path), self._checkpoint_lock:
                if outdated_count != self._outdated_count:
                    return
                crash_point("manager.checkpoint.before_recovery_points")
                self._write(RECOVERY_POINTS, recovery_points)
                crash_point("manager.checkpoint.before_log_starts")
                self._write(LOG_STARTS, log_starts)
                crash_point("manager.checkpoint.before_high_watermarks")
                self._write(HIGH_WATERMARKS, watermarks)
                crash_point("manager.checkpoint.after_high_watermarks")

        return write

    def prepare_cleaner_checkpoint(self, key: PartitionKey, offset: int) -> Callable[[], None]:
        """Note how far a log was compacted; the call returned writes it, on any thread."""
        self.cleaner_offsets[key] = offset
        self._checkpointed.add(key)
        offsets, outdated_count = dict(self.cleaner_offsets), self._outdated_count

        def write() -> None:
            with disk_errors(self.path), self._checkpoint_lock:
                if outdated_count == self._outdated_count:
                    crash_point("compaction.checkpoint.before_write")
                    self._write(CLEANER_OFFSETS, offsets)
                    crash_point("compaction.checkpoint.after_write")

        return write

    def _recovery_points(self) -> dict[PartitionKey, int]:
        return {key: log.recovery_point for key, log in self.logs.items()}

    def _log_starts(self) -> dict[PartitionKey, int]:
        """Where logs start that do not start with their first segment."""
        return {
            key: log.log_start_offset
            for key, log in self.logs.items()
            if log.log_start_offset > log.segments[0].base_offset
        }

    def _write(self, name: str, offsets: Mapping[PartitionKey, int]) -> None:
        """Replace a checkpoint, unless it says the same already: idle logs must cost no sync."""
        if self._written.get(name) == offsets:
            return
        # What a write that fails leaves behind is not known.
        self._written.pop(name, None)
        write_offsets(self._resources.files, f"{self.path}/{name}", offsets)
        self._written[name] = dict(offsets)
