"""All logs of a broker, over all of its log directories.

Each directory fails alone: a StorageError has a path, and `directory_failed` takes the directory of
that path offline with all its logs. A new log goes to the directory with the fewest logs.

Nothing here runs by itself. The broker calls `retain`, `prepare_removals`, `due_for_flush` and
`prepare_checkpoints` periodically, on the event loop. Whatever blocks is returned as a call for
another thread. An idle log has no timer, no open file and no index in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from moldau.base.checks import crash_point
from moldau.base.errors import DiskFull, StorageError, UserError
from moldau.base.files import Files
from moldau.base.ids import Offset, PartitionKey, TopicId, random_uuid
from moldau.storage.compaction.choice import Dirt, assess
from moldau.storage.compaction.swap import Cleaning, Limits
from moldau.storage.directory import LogDirectory
from moldau.storage.disk_errors import disk_errors
from moldau.storage.flushing import Flush, Flushable
from moldau.storage.folder_names import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    partition_of,
    set_aside_name,
)
from moldau.storage.log import Log
from moldau.storage.recovery import Report
from moldau.storage.resources import Resources, ScheduledDelete
from moldau.storage.topic_config import LogConfig

logger = logging.getLogger(__name__)

LogConfigOf = Callable[[str], LogConfig]
"""Returns the resolved configs of a topic by its name."""


class ClosingLog(NamedTuple):
    """A log that closes: run `flush.run` on any thread, then `log.flushed(flush)` on the loop."""

    log: Flushable
    flush: Flush


class LogManager:
    """All logs of one broker."""

    def __init__(self, resources: Resources, paths: Sequence[str]) -> None:
        self._resources = resources
        self.directories = [LogDirectory(resources, path) for path in paths]
        self._homes: dict[PartitionKey, LogDirectory] = {}
        self.cordoned: frozenset[str] = frozenset()
        """The paths of directories that get no new logs, unless there is no other."""

    # Opening and closing

    def lock(self) -> list[str]:
        """Lock every directory against other brokers; return the paths that are usable.

        Call this before anything is read or written: another broker may be using the files.
        """
        usable = []
        for directory in self.directories:
            try:
                directory.lock()
                directory.check_identity()
                usable.append(directory.path)
            except StorageError:
                continue  # `open` tries again and reports why the directory stays offline
            except UserError:
                self.release()
                raise
        return usable

    def open(self, cluster_id: str, node_id: int, boot_id: str) -> list[StorageError]:
        """Open every directory; return the errors of those that stay offline.

        UserError if a directory is in use or belongs to another node, or if none is usable.
        """
        errors = []
        incarnation_id = random_uuid(self._resources.random)
        for directory in self.directories:
            try:
                directory.open(cluster_id, node_id, boot_id, incarnation_id)
            except StorageError as error:
                errors.append(error)
            except UserError:
                self.release()
                raise
        if len(errors) == len(self.directories):
            raise UserError(
                f"no log directory can be used: {errors[0] if errors else 'none given'}"
            )
        return errors

    def load(self, config_of: LogConfigOf) -> dict[PartitionKey, Report]:
        """Open the logs of every directory; return the reports of the recovered ones.

        A directory that fails goes offline. Any thread may call this, before the logs are used.
        """
        reports: dict[PartitionKey, Report] = {}
        for directory in self.directories:
            reports |= self._load_directory(directory, config_of)
        return reports

    def _load_directory(
        self, directory: LogDirectory, config_of: LogConfigOf
    ) -> dict[PartitionKey, Report]:
        """Open the logs of one directory; if it fails it goes offline, and nothing is raised."""
        if directory.offline:
            return {}
        try:
            reports = directory.load(config_of)
        except StorageError as error:
            logger.error("log directory %s is offline: %s", directory.path, error)  # noqa: TRY400
            directory.fail(error)
            return {}
        for key in directory.logs:
            self._homes.setdefault(key, directory)
        return reports

    @property
    def last_broker_epoch(self) -> int:
        """The broker epoch of the last use of all directories; -1 if records may be lost.

        One that cannot be read, or has another epoch, may lack records, and the controller is told
        one epoch for all of them. Kafka's rule.
        """
        epochs = {directory.last_use.broker_epoch for directory in self.directories}
        return epochs.pop() if len(epochs) == 1 else -1

    def incarnation_id(self) -> bytes:
        """Return under which incarnation to register; a new one if a directory knows another."""
        known = {directory.last_use.incarnation_id for directory in self.directories}
        agreed = known.pop() if len(known) == 1 else b""
        return agreed or random_uuid(self._resources.random)

    def prepare_open_marks(self, broker_epoch: int) -> Iterator[Callable[[], None]]:
        """Yield a call for each directory; it writes the epoch of a new registration there."""
        for directory in tuple(self._online()):
            yield directory.prepare_open_mark(broker_epoch)

    def prepare_close(self) -> Iterator[ClosingLog]:
        """Start a clean shutdown, after the last append and flush: log by log.

        Run all but a few flushes before you ask for the next. Each holds two open files, and a
        broker may have more logs than the system allows it files. Then call `finish_close`.
        """
        for directory in tuple(self._online()):
            # There may be room again. If not, `_prepare_close` marks the directory as full.
            directory.set_full(False)
            try:
                for log in tuple(directory.logs.values()):
                    flush = _prepare_close(directory, log)
                    if flush is not None:
                        yield ClosingLog(log, flush)
            except StorageError as error:
                directory.fail(error)

    def finish_close(self, high_watermarks: Mapping[PartitionKey, int], broker_epoch: int) -> None:
        """Write the checkpoints, then the clean shutdown marks, and unlock the directories.

        The mark comes last: it promises that logs, indexes, snapshots and checkpoints are
        complete, and the next start then skips recovery.
        """
        crash_point("manager.close.before_checkpoints")
        for directory in self._online():
            try:
                directory.prepare_checkpoints(high_watermarks)()
                # A request may have appended after the last sync. Indexes, epochs and snapshot of
                # that log are then incomplete: no clean mark, so that the next start recovers it.
                unflushed = any(
                    log.unflushed_count or log.is_truncating for log in directory.logs.values()
                )
                # The same holds for a log that could not be recovered at the start.
                if not (directory.full or unflushed or directory.unreadable):
                    directory.finish(broker_epoch)
            except StorageError as error:
                directory.fail(error)
            for log in directory.logs.values():
                log.let_go()
        self.release()

    def close(self, high_watermarks: Mapping[PartitionKey, int], broker_epoch: int = -1) -> None:
        """Shut down cleanly, one log after the other, on the calling thread."""
        for log, flush in self.prepare_close():
            try:
                flush.run()
                log.flushed(flush)
                crash_point("log.close.after_flush")
            except StorageError as error:
                self.directory_failed(error)
        self.finish_close(high_watermarks, broker_epoch)

    def release(self) -> None:
        """Unlock every directory."""
        for directory in self.directories:
            directory.release()

    # Logs

    def __iter__(self) -> Iterator[tuple[PartitionKey, Log]]:
        for key, directory in self._homes.items():
            yield key, directory.logs[key]

    def __len__(self) -> int:
        return len(self._homes)

    def get(self, key: PartitionKey) -> Log | None:
        """Return the log of a partition, which may be offline; None if there is none."""
        directory = self._homes.get(key)
        return None if directory is None else directory.logs[key]

    @property
    def directory_ids(self) -> tuple[bytes, ...]:
        """The ids of the directories that are online."""
        ids = (directory.identity.directory_id for directory in self._online())
        return tuple(one for one in ids if one is not None)

    @property
    def failed_directory_ids(self) -> tuple[bytes, ...]:
        """The ids of the directories that are offline, as far as they are known."""
        ids = (one.identity.directory_id for one in self.directories if one.offline)
        return tuple(one for one in ids if one is not None)

    def ids_of(self, paths: Container[str]) -> tuple[bytes, ...]:
        """Return the ids of these directories, those that are online."""
        ids = (one.identity.directory_id for one in self._online() if one.path in paths)
        return tuple(one for one in ids if one is not None)

    @property
    def all_failed(self) -> bool:
        """Whether no directory is online."""
        return all(directory.offline for directory in self.directories)

    def directory_id(self, key: PartitionKey) -> bytes | None:
        """Return the id of the directory that holds a partition's log; None if there is no log."""
        directory = self._homes.get(key)
        return None if directory is None else directory.identity.directory_id

    def is_missing(self, key: PartitionKey) -> bool:
        """Return whether a partition certainly has no folder: no directory is offline."""
        return (
            key not in self._homes
            and not self.is_unreadable(key)
            and not any(directory.offline for directory in self.directories)
        )

    def is_unreadable(self, key: PartitionKey) -> bool:
        """Return whether a partition has a folder that could not be opened as a log."""
        return any(key in directory.unreadable for directory in self.directories)

    def checkpointed_end(self, key: PartitionKey) -> int:
        """Return the highest high watermark of a partition in any checkpoint; 0 if none."""
        return max(directory.high_watermarks.get(key, 0) for directory in self.directories)

    def open_or_create(
        self, key: PartitionKey, topic_id: TopicId, config: LogConfig, *, new: bool = False
    ) -> Log:
        """Return the log of a partition; create it if it does not exist.

        The log of an older topic with the same name is set aside. StorageError if the log may be
        in an offline directory: an empty second log would hide its records. A `new` partition
        cannot have one there. Also StorageError if its folder is unreadable (`is_unreadable`);
        the directory of such a folder stays online.
        """
        log = self._own_log(key, topic_id)
        if log is None:
            return self._create(key, topic_id, config, new=new)
        if log.topic_id is None:
            self._homes[key].keep_topic_id(log, topic_id)
        if log.config != config:
            log.update_config(config)
        return log

    def _own_log(self, key: PartitionKey, topic_id: TopicId) -> Log | None:
        """Find the log with this topic id among those with the partition's name; set others aside.

        A power cut can undo the deletion of an older topic, so there may be several, in several
        directories. A power cut can also take the topic id file. A log without an id counts as
        ours only if that cannot have happened, or if the log was flushed (`keeps_promises`).
        """
        homes = [directory for directory in self.directories if key in directory.logs]
        own = next((home for home in homes if home.logs[key].topic_id == topic_id), None)
        if own is None:
            unnamed = (home for home in homes if home.logs[key].topic_id is None)
            own = next((home for home in unnamed if home.keeps_promises(key)), None)
        for home in homes:
            if home is not own:
                logger.warning("%s of another topic of this name is set aside", home.logs[key])
                self._remove_from(home, key, STRAY_SUFFIX)
        if own is None:
            self._homes.pop(key, None)
            return None
        self._homes[key] = own
        return own.logs[key]

    def _create(self, key: PartitionKey, topic_id: TopicId, config: LogConfig, *, new: bool) -> Log:
        for directory in self.directories:
            if key in directory.unreadable:
                raise StorageError(f"{directory.path}/{key}", directory.unreadable[key])
        online = list(self._online())
        offline = [directory for directory in self.directories if directory.offline]
        if offline and not (new and online):
            raise StorageError(offline[0].path, f"{key} may be in this directory, which is offline")
        roomy = [directory for directory in online if not directory.full]
        if online and not roomy:
            raise DiskFull(online[0].path, f"no log directory has room for {key}")
        directory = min(roomy, key=lambda one: (one.path in self.cordoned, len(one.logs)))
        log = directory.create(key, topic_id, config)
        self._homes[key] = directory
        return log

    def high_watermark(self, key: PartitionKey, log: Log) -> Offset:
        """Return the high watermark of the last checkpoint, limited to the offsets of the log."""
        directory = self._homes[key]
        known = directory.high_watermarks.get(key, log.log_start_offset)
        return Offset(max(log.log_start_offset, min(known, log.log_end_offset)))

    # Compaction

    def dirt(self, key: PartitionKey, last_stable_offset: int) -> Dirt:
        """Return what compaction could clean in a log."""
        directory = self._homes[key]
        log, now_ms = directory.logs[key], self._resources.clock.wall_ms()
        with disk_errors(log.folder):
            return assess(log, directory.cleaner_offsets.get(key), last_stable_offset, now_ms)

    def prepare_cleaning(self, key: PartitionKey, dirt: Dirt, limits: Limits) -> Cleaning:
        """Plan a compaction; `Cleaning.plan` goes to a worker process."""
        return Cleaning(self._resources, self._homes[key].logs[key], dirt, limits)

    def cleaned(self, key: PartitionKey, end_offset: int) -> Callable[[], None]:
        """Record how far a log was compacted; the returned call writes it, on any thread."""
        return self._homes[key].prepare_cleaner_checkpoint(key, end_offset)

    # Deletion

    def delete(self, key: PartitionKey) -> None:
        """Remove a log at once; its files are deleted after `file.delete.delay.ms`."""
        self._remove(key, DELETE_SUFFIX)

    def set_aside(self, key: PartitionKey) -> None:
        """Remove a log that the cluster does not know; its files stay in a `-stray` folder."""
        self._remove(key, STRAY_SUFFIX)

    def _remove(self, key: PartitionKey, suffix: str) -> None:
        self._homes.pop(key, None)
        for directory in self.directories:
            if key in directory.logs or key in directory.unreadable:
                self._remove_from(directory, key, suffix)

    def _remove_from(self, directory: LogDirectory, key: PartitionKey, suffix: str) -> None:
        delay_ms = directory.forget_log(key)
        if directory.offline:
            return
        resources = self._resources
        aside = f"{directory.path}/{set_aside_name(key, resources.random.randbytes(16), suffix)}"
        with disk_errors(directory.path):
            crash_point("manager.delete.before_rename")
            resources.files.rename(f"{directory.path}/{key}", aside)
            crash_point("manager.delete.after_rename")
        if suffix == DELETE_SUFFIX:
            due_ms = resources.clock.wall_ms() + delay_ms
            resources.scheduled_deletes.append(ScheduledDelete(due_ms, aside, is_folder=True))

    # Failure

    def directory_failed(self, error: StorageError) -> LogDirectory | None:
        """Take the directory of a failed path offline and return it; None if nothing changed.

        A full directory stays online and refuses appends. An error in the folder of a deleted log
        is ignored: a sync or a read was still running there, and the disk is fine.
        """
        for directory in self.directories:
            if f"{error.path}/".startswith(f"{directory.path}/"):
                if _was_removed(directory, error.path):
                    return None
                if isinstance(error, DiskFull):
                    return directory if directory.set_full(True) else None
                if directory.offline:
                    return None
                directory.fail(error)
                return directory
        return None

    @property
    def full_directories(self) -> list[LogDirectory]:
        """The online directories that refuse appends because they are full."""
        return [directory for directory in self._online() if directory.full]

    @property
    def can_make_logs(self) -> bool:
        """Whether a directory is online and not full."""
        return any(not directory.full for directory in self._online())

    def _online(self) -> Iterator[LogDirectory]:
        return (directory for directory in self.directories if not directory.offline)

    # Periodic work

    def retain(self, now_ms: int, high_watermark_of: Callable[[PartitionKey], int]) -> int:
        """Delete the segments that retention has expired; return how many."""
        count = 0
        for directory in self._online():
            try:
                for key, log in directory.logs.items():
                    count += log.retain(now_ms, high_watermark_of(key))
            except StorageError as error:
                self.directory_failed(error)
        return count

    def prepare_cut_removals(self, now_ms: int) -> Iterator[Callable[[], None]]:
        """Yield a call for each expired `.cut` file; it removes that one, on any thread."""
        for directory in self._online():
            yield from directory.prepare_cut_removals(now_ms)

    def prepare_removals(self, now_ms: int) -> Iterator[Callable[[], None]]:
        """Yield a call for each file and folder that is due; it removes that one, on any thread.

        Not on the loop: the kernel may take tens of milliseconds to free a gigabyte. They are
        queued in the order of deletion. If topics have different delays, some wait longer than
        they must, which is harmless.
        """
        scheduled_deletes = self._resources.scheduled_deletes
        while scheduled_deletes and scheduled_deletes[0].due_ms <= now_ms:
            yield partial(_remove, self._resources.files, scheduled_deletes.popleft())

    def due_for_flush(self, now_ms: int) -> list[Flushable]:
        """Return the logs to sync now: a segment was closed, or `flush.ms` has passed.

        Pass each to the broker's one `Flusher`, so that a log never has two syncs at a time.
        """
        rolled, timed = self._resources.rolled, self._resources.timed
        late = [log for log in timed if now_ms - log.flushed_ms >= log.config.flush_ms]
        for log in late:
            del timed[log]
        due = dict[Flushable, None].fromkeys((*rolled, *late))
        rolled.clear()
        return [log for log in due if not log.offline]

    def prepare_checkpoints(
        self, high_watermarks: Mapping[PartitionKey, int]
    ) -> list[Callable[[], None]]:
        """Copy the offsets of every directory; the returned calls write them, on any thread."""
        return [directory.prepare_checkpoints(high_watermarks) for directory in self._online()]

    def prepare_checkpoints_in_steps(
        self, high_watermark_of: Callable[[PartitionKey], int | None]
    ) -> list[Generator[None, None, Callable[[], None]]]:
        """Do the same in steps, one generator per directory."""
        return [one.prepare_checkpoints_in_steps(high_watermark_of) for one in self._online()]


def _prepare_close(directory: LogDirectory, log: Log) -> Flush | None:
    """Prepare the close of a log; on a full disk sync at least its batches.

    The shutdown is not clean then, and recovery rebuilds what could not be written.
    """
    try:
        return log.prepare_close()
    except DiskFull:
        directory.set_full(True)
        return log.prepare_flush()


def _remove(files: Files, scheduled: ScheduledDelete) -> None:
    with disk_errors(scheduled.path):
        if scheduled.is_folder:
            files.remove_folder(scheduled.path)
        else:
            files.remove(scheduled.path)


def _was_removed(directory: LogDirectory, path: str) -> bool:
    """Return whether a path is in the folder of a log that was removed."""
    name = path.removeprefix(directory.path).lstrip("/").partition("/")[0]
    key = partition_of(name)
    return key is not None and key not in directory.logs
