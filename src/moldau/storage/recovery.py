"""Opening a partition folder: from files to a log that can be trusted.

After an orderly stop only the end of the last segment is read. Otherwise everything at or above
the recovery point is doubted: the segments from the one that holds it are read again, CRCs are
checked from the recovery point on, indexes, producer state and leader epochs are made anew, the
file is cut at the first batch that is wrong, and later segments go, as in Kafka. What is cut stays
in the folder as `.cut` (`cuts`), and the report says which offsets that costs.

Before that, what a compaction or a removal left half done is finished or undone (names, in order):
`.deleted` and `.cleaned` go; a `.swap` at or above the lowest `.cleaned` belongs to an unfinished
split and goes (KAFKA-6264); any other `.swap` is complete, so the segments it replaces go and it
takes its name; indexes without a log go.

One batch lost exactly at its border leaves no torn bytes, only a gap before the next segment. Such
a gap is a loss as well, and what follows it is cut: a replica must fetch it again, not serve a log
with a hole. Unless a cleaner may have made it. Ours never does, nor does a follower that takes over
what was cleaned elsewhere, but Kafka's does: so a gap is no loss in a log that is compacted, nor
below where it was compacted while that was its policy.

On a full disk recovery goes without what others can make again: snapshots, and the index files of
closed segments, which whoever reads them rebuilds. What nothing else could tell must find room, or
the log is not opened: DiskFull. That is what was aborted, and the copy of what is cut.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from moldau.base.checks import crash_point
from moldau.base.errors import CorruptRecords
from moldau.base.files import Files
from moldau.base.ids import LeaderEpoch, Offset
from moldau.storage.checkpoints import PARTITION_METADATA, DamagedFile
from moldau.storage.cuts import (
    CUT_SUFFIX,
    Cut,
    CutFile,
    cut_path,
    find_cuts,
    keep_tail,
    last_readable_offset,
)
from moldau.storage.disk_errors import disk_errors, is_full
from moldau.storage.epochs import LeaderEpochs, load_epochs, save_epochs
from moldau.storage.index_files import make_empty
from moldau.storage.log import Log
from moldau.storage.producer_history import (
    remove_snapshots,
    replay_batch,
    restore_producers,
    snapshot_offsets,
    store_snapshot,
    stray_snapshots,
)
from moldau.storage.producers import ProducerStates
from moldau.storage.resources import Resources
from moldau.storage.scan import StoredBatch, walk
from moldau.storage.segment import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    Segment,
    file_stem,
)
from moldau.storage.topic_config import LONG_MAX, LogConfig
from moldau.storage.transaction_index import TRANSACTION_INDEX_SUFFIX

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"
_LEFT_BEHIND = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TEMPORARY_SUFFIX)


class Report(NamedTuple):
    """What opening a log had to do; empty after an orderly stop."""

    recovered_segments: int = 0
    cut_bytes: int = 0
    removed_segments: int = 0
    reason: str = ""
    warnings: tuple[str, ...] = ()
    """One line for each loss and each file that had to be made anew."""
    cuts: tuple[CutFile, ...] = ()
    """The `.cut` files that lie in the folder now."""
    lacked_room: bool = False
    """Whether files were left out on a full disk that are made again some time."""

    def __str__(self) -> str:
        if not self.recovered_segments:
            return "opened"
        line = f"{self.recovered_segments} segments checked"
        if self.cut_bytes or self.removed_segments:
            line += (
                f", {self.cut_bytes} bytes and {self.removed_segments} segments cut: {self.reason}"
            )
        return line


class Opened(NamedTuple):
    """A log ready for use, and what that took."""

    log: Log
    report: Report


def open_log(
    resources: Resources,
    folder: str,
    config: LogConfig,
    *,
    clean: bool,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    compacted_below: int = 0,
    recovery_point_lowered: Callable[[], None],
) -> Opened:
    """Open the log in a folder; `clean` says that the last stop was an orderly one.

    A folder without segments becomes an empty log at its start offset.
    """
    with disk_errors(folder):
        opening = _Opening(resources, folder, config, log_start_offset, compacted_below)
        end_offset = opening.end_after_orderly_stop() if clean else None
        trusted = end_offset is not None
        if end_offset is None:
            end_offset = opening.recover(recovery_point)
        if end_offset < log_start_offset:
            end_offset = opening.start_over(log_start_offset)
        log_start = max(log_start_offset, opening.segments[0].base_offset)
        opening.epochs.truncate_from_end(Offset(end_offset))
        opening.epochs.truncate_from_start(Offset(log_start))
        opening.restore_producers(end_offset, trusted=trusted)
        cuts = opening.cut_files()
    log = Log(
        resources,
        folder,
        config,
        opening.segments,
        opening.epochs,
        opening.producers,
        log_start_offset=log_start,
        log_end_offset=end_offset,
        recovery_point=end_offset if trusted else min(recovery_point, end_offset),
        recovery_point_lowered=recovery_point_lowered,
        durable=trusted,
        unsynced_paths=opening.unsynced_paths,
    )
    return Opened(log, opening.report._replace(cuts=cuts))


class _Opening:
    """A log in the making."""

    def __init__(
        self,
        resources: Resources,
        folder: str,
        config: LogConfig,
        log_start_offset: int,
        compacted_below: int,
    ) -> None:
        files = resources.files
        self._resources = resources
        self._folder = folder
        self._config = config
        self._gaps_below = LONG_MAX if config.compacts else compacted_below
        """Segments that begin up to here may leave a gap before them."""
        names = finish_interrupted(files, folder)
        self._snapshots = snapshot_offsets(names)
        self._has_cuts = any(name.endswith(CUT_SUFFIX) for name in names)
        self.producers = ProducerStates()
        self.report = Report()
        self.unsynced_paths: list[str] = []
        known = set(names)
        self.segments = [
            Segment(
                resources,
                folder,
                base_offset,
                files.size(f"{folder}/{name}"),
                config,
                has_aborted=file_stem(base_offset) + TRANSACTION_INDEX_SUFFIX in known,
            )
            for name in names
            if name.endswith(LOG_SUFFIX) and (base_offset := segment_base(name)) is not None
        ]
        if not self.segments:
            self.segments.append(Segment.create(resources, folder, log_start_offset, config))
        self.epochs = self._load_epochs()

    def _load_epochs(self) -> LeaderEpochs:
        """Read the epochs; a file that is damaged is made anew from the headers of all batches."""
        try:
            return load_epochs(self._files, self._folder)
        except DamagedFile as error:
            epochs = LeaderEpochs()
            for segment in self.segments:
                # What is behind garbage is learned by recovery, or is not in the log any more.
                with contextlib.suppress(CorruptRecords):
                    for batch in segment.batches():
                        if batch.leader_epoch > epochs.latest:
                            _learn_epoch(epochs, batch)
            epochs.dirty = True
            save_epochs(self._files, self._folder, epochs)
            self._warn(f"{error}; made anew from the batches: {len(epochs.entries)} epoch(s)")
            return epochs

    def _warn(self, line: str) -> None:
        self.report = self.report._replace(warnings=(*self.report.warnings, line))

    def end_after_orderly_stop(self) -> int | None:
        """Find the log's end from its last bytes; None if they are not what such a stop leaves."""
        return self.segments[-1].end_offset()

    def recover(self, recovery_point: int) -> int:
        """Check all from the recovery point on; return the offset at which the log ends now."""
        bases = [segment.base_offset for segment in self.segments]
        first = max(0, bisect_right(bases, recovery_point) - 1)
        start = bases[first]
        # Epochs and snapshots above may speak of batches that were cut off since.
        self.epochs.truncate_from_end(Offset(start))
        restore_producers(self._files, self._folder, self.producers, self.segments[:first], start)
        self.unsynced_paths.append(f"{self._folder}/{PARTITION_METADATA}")
        end_offset = start
        number = first
        while number < len(self.segments):
            segment = self.segments[number]
            wrong = self._gap(number, first, end_offset)
            if wrong is None:
                end_offset, wrong = self._recover_segment(segment, recovery_point)
                number += 1
            if wrong is not None:
                self._remove_from(number, end_offset, wrong)
        self.segments[-1].warm_up()
        self.report = self.report._replace(recovered_segments=len(self.segments) - first)
        return end_offset

    @property
    def _files(self) -> Files:
        return self._resources.files

    def _gap(self, number: int, first: int, end_offset: int) -> CorruptRecords | None:
        """Tell what is wrong with a segment's start, seen from the end of the one before."""
        base_offset = self.segments[number].base_offset
        if number == first or base_offset == end_offset:
            return None
        if end_offset < base_offset <= self._gaps_below:
            return None
        return CorruptRecords(f"segment {base_offset} where {end_offset} was next")

    def _recover_segment(
        self, segment: Segment, recovery_point: int
    ) -> tuple[int, CorruptRecords | None]:
        """Check one segment; return its end offset and what was wrong with the rest."""
        size = segment.size
        end_offset = segment.base_offset
        if end_offset > 0:
            with self._if_there_is_room():
                path = store_snapshot(self._files, self._folder, end_offset, self.producers)
                self.unsynced_paths.append(path)

        def take(batch: StoredBatch) -> None:
            nonlocal end_offset
            if batch.leader_epoch > self.epochs.latest:
                _learn_epoch(self.epochs, batch)
            aborted = replay_batch(self.producers, segment, batch)
            if aborted is not None:
                segment.add_aborted(aborted)
            end_offset = batch.last_offset + 1

        wrong = segment.recover(recovery_point, take)
        if wrong is not None:
            self._cut_tail(segment, size, end_offset, wrong)
        if segment is not self.segments[-1] and wrong is None:
            with self._if_there_is_room():
                self._store_indexes(segment)
            segment.stop_writing()
            self.unsynced_paths += segment.index_paths
        return end_offset, wrong

    def _store_indexes(self, segment: Segment) -> None:
        """Store all entries or none: some would be taken for all, and none for a lost file."""
        try:
            segment.store_indexes()
        except OSError:
            make_empty(self._files, segment.index_paths[:2])
            raise

    @contextlib.contextmanager
    def _if_there_is_room(self) -> Iterator[None]:
        """Let a write fail on a full disk that can be made up for."""
        try:
            yield
        except OSError as error:
            if not is_full(error):
                raise
            self.report = self.report._replace(lacked_room=True)

    def _cut_tail(
        self, segment: Segment, size: int, end_offset: int, wrong: CorruptRecords
    ) -> None:
        """Cut a segment's file where its good batches end, and keep what is cut."""
        file, position = segment.handle(), segment.size
        kept_as = keep_tail(self._files, file, position, size, self._resources.clock.wall_ms())
        last_lost = last_readable_offset(file, position, size, end_offset)
        crash_point("recovery.before_cut")
        file.truncate(position)
        crash_point("recovery.after_cut")
        if kept_as:
            self.unsynced_paths.append(kept_as)
        self._note_cut(
            Cut(
                segment.path, position, size - position, 0, end_offset, end_offset, last_lost,
                str(wrong), kept_as,
            )
        )  # fmt: skip

    def _remove_from(self, number: int, end_offset: int, wrong: CorruptRecords) -> None:
        """Remove the segments from this one on, newest first: nothing may follow what is wrong."""
        removed = self.segments[number:]
        if not removed:
            return
        first, last = removed[0], removed[-1]
        last_lost = (last.end_offset() or last.base_offset) - 1
        kept: list[str] = []
        while len(self.segments) > number:
            crash_point("recovery.before_removal")
            kept += self._set_aside(self.segments.pop())
        self.unsynced_paths += kept
        size = sum(segment.size for segment in removed)
        self._note_cut(
            Cut(
                first.path, 0, size, len(removed), end_offset, first.base_offset, last_lost,
                str(wrong), ", ".join(reversed(kept)),
            )
        )  # fmt: skip

    def _set_aside(self, segment: Segment) -> list[str]:
        """Make a whole segment a `.cut` and return its path; an empty one just goes."""
        segment.let_go()
        kept = []
        if segment.size:
            kept = [cut_path(segment.path, 0, self._resources.clock.wall_ms())]
            self._files.rename(segment.path, kept[0])
        else:
            self._files.remove(segment.path)
        for path in segment.index_paths:
            self._files.remove(path)
        return kept

    def _note_cut(self, cut: Cut) -> None:
        self._has_cuts = True
        report = self.report
        self.report = report._replace(
            removed_segments=report.removed_segments + cut.removed_segments,
            cut_bytes=report.cut_bytes + cut.size,
            reason=f"{self._folder}: {cut.reason}",
        )
        if cut.size:
            self._warn(str(cut))

    def cut_files(self) -> tuple[CutFile, ...]:
        """List the `.cut` files in the folder; nearly no folder has any."""
        if not self._has_cuts:
            return ()
        return tuple(find_cuts(self._files, self._folder, self._files.names(self._folder)))

    def start_over(self, log_start_offset: int) -> int:
        """Drop a log that ends before its own start: nothing in it may be served."""
        wrong = CorruptRecords(f"the log ended before its start, {log_start_offset}")
        self._remove_from(0, self.segments[0].base_offset, wrong)
        self.segments.append(
            Segment.create(self._resources, self._folder, log_start_offset, self._config)
        )
        return log_start_offset

    def restore_producers(self, end_offset: int, *, trusted: bool) -> None:
        """Bring producer state up to the end; recovery has it already.

        An orderly stop without any snapshot is that of a log without producers, or of one copied
        without them; reading all of it to find out which would make every start slow.
        """
        bases = {segment.base_offset for segment in self.segments}
        remove_snapshots(self._files, self._folder, stray_snapshots(self._snapshots, bases))
        if trusted and self._snapshots:
            restore_producers(self._files, self._folder, self.producers, self.segments, end_offset)


def _learn_epoch(epochs: LeaderEpochs, batch: StoredBatch) -> None:
    epochs.assign(LeaderEpoch(batch.leader_epoch), Offset(batch.base_offset))


def finish_interrupted(files: Files, folder: str) -> list[str]:
    """Finish or undo what a compaction or a removal left half done; return the names then there.

    Mostly there is nothing of the kind, and one look at the folder is all this costs.
    """
    names = files.names(folder)
    if any(name.endswith(_LEFT_BEHIND) for name in names):
        _remove_unfinished(files, folder, names)
        _complete_swaps(files, folder)
        names = files.names(folder)
    logs = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    orphans = [
        name
        for name in names
        if name.endswith(SEGMENT_SUFFIXES[1:]) and name.partition(".")[0] not in logs
    ]
    for name in orphans:
        files.remove(f"{folder}/{name}")
    return [name for name in names if name not in orphans]


def _remove_unfinished(files: Files, folder: str, names: list[str]) -> None:
    first_cleaned = min(_bases(names, CLEANED_SUFFIX), default=None)
    for name in names:
        swap = segment_base(name, SWAP_SUFFIX)
        unfinished = swap is not None and first_cleaned is not None and swap >= first_cleaned
        if unfinished or name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
            files.remove(f"{folder}/{name}")


def _complete_swaps(files: Files, folder: str) -> None:
    """Let finished segments take the place of those they were made from.

    The old ones go first: as long as a log is still a swap, all this is done again after a crash.
    Then come the logs and at last their indexes, which must not be taken for old ones: what is
    aborted can be learned from nothing else.
    """
    names = files.names(folder)
    swaps = [name for name in names if segment_base(name, SWAP_SUFFIX) is not None]
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if not swaps:
        return
    start = min(_bases(logs, SWAP_SUFFIX), default=0)
    end = max((_swap_end(files, folder, name) for name in logs), default=0)
    crash_point("recovery.before_swap")
    for name in names:
        base_offset = segment_base(name)
        if base_offset is not None and start <= base_offset < end:
            files.remove(f"{folder}/{name}")
    for name in sorted(swaps, key=lambda name: name not in logs):
        files.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(SWAP_SUFFIX)}")
        crash_point("recovery.after_rename")
    crash_point("recovery.after_swap")
    files.sync_folder(folder)


def segment_base(name: str, more_suffix: str = "") -> int | None:
    """Read the base offset in the name of a segment's file; None if it is no such name."""
    for suffix in SEGMENT_SUFFIXES:
        if name.endswith(suffix + more_suffix):
            stem = name.removesuffix(suffix + more_suffix)
            return int(stem) if len(stem) == 20 and stem.isascii() and stem.isdigit() else None
    return None


def _bases(names: list[str], more_suffix: str) -> list[int]:
    found = (segment_base(name, more_suffix) for name in names)
    return [base_offset for base_offset in found if base_offset is not None]


def _swap_end(files: Files, folder: str, name: str) -> int:
    """Find the offset behind the last batch of a segment that waits to be swapped in."""
    end_offset = segment_base(name, SWAP_SUFFIX) or 0
    file = files.open(f"{folder}/{name}")
    try:
        for batch in walk(file, 0, file.size()):
            end_offset = batch.last_offset + 1
    finally:
        file.close()
    return end_offset
