"""Leader epochs: which leader wrote which part of a log.

An entry (epoch, start offset) says: from this offset on, records were written under this epoch,
until the next entry's start. A returning replica asks its leader where the last epoch they share
ends and truncates there, not at its high watermark; that is what keeps acknowledged records and
keeps two logs from diverging (KIP-101, KIP-279).

    entries (0, 0) (1, 120): epoch 0 wrote [0, 120), epoch 1 writes from 120

Invariant: entries ascend strictly in both fields. `LeaderEpochs` is pure; it is kept in the
partition's `leader-epoch-checkpoint`, and `dirty` tells whether that file is behind. The file may
hold an entry too many, which goes when the log is loaded; one that it misses must still be found
in the batches at or above the recovery point.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from moldau.base.checks import invariant
from moldau.base.files import Files, read_whole, write_atomically
from moldau.base.ids import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from moldau.storage.checkpoints import format_checkpoint, integer, parse_checkpoint

LEADER_EPOCHS = "leader-epoch-checkpoint"


class EpochEntry(NamedTuple):
    """Where an epoch's records begin."""

    epoch: LeaderEpoch
    start_offset: Offset


class EpochEnd(NamedTuple):
    """The answer to OffsetForLeaderEpoch: an epoch and the first offset that is not its own."""

    epoch: LeaderEpoch
    end_offset: Offset


UNKNOWN_EPOCH_END = EpochEnd(NO_LEADER_EPOCH, NO_OFFSET)

_by_epoch = attrgetter("epoch")
_by_start = attrgetter("start_offset")


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    __slots__ = ("_entries", "dirty", "latest")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest = NO_LEADER_EPOCH
        """The epoch that wrote last; a plain attribute, since every append reads it."""
        for entry in entries:
            self.assign(*entry)
        self.dirty = False
        """Whether the entries have changed since they were last loaded or saved."""

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Say that records from this offset on belong to this epoch; tell whether that was new.

        The current epoch going on is no news. Entries that contradict the new one, by a higher
        epoch or a later start, were never committed and go.
        """
        entries = self._entries
        if entries and epoch == self.latest and start_offset >= entries[-1].start_offset:
            return False
        invariant(epoch >= 0 and start_offset >= 0, f"leader epoch {epoch} at {start_offset}")
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self._changed()
        return True

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEnd:
        """Say where an epoch ends, as Kafka answers OffsetForLeaderEpoch.

        The current epoch ends at the log's end. An older one ends where the next higher begins,
        and the answer names the largest epoch of ours up to it. One older than all of ours ends
        where our first begins: its records are gone from this log. One we have not seen, or none,
        has no end we could name.
        """
        entries = self._entries
        if epoch < 0 or epoch > self.latest:
            return UNKNOWN_EPOCH_END
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        higher = bisect_right(entries, epoch, key=_by_epoch)
        floor = entries[higher - 1].epoch if higher else epoch
        return EpochEnd(floor, entries[higher].start_offset)

    def epoch_for(self, offset: Offset) -> LeaderEpoch:
        """Say under which epoch a record was written; -1 when that was before our first."""
        after = bisect_right(self._entries, offset, key=_by_start)
        return self._entries[after - 1].epoch if after else NO_LEADER_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> None:
        """The log now ends at this offset: epochs that begin there or later are gone."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        self._keep(kept)

    def truncate_from_start(self, start_offset: Offset) -> None:
        """The log now starts at this offset: the epoch that holds it begins there."""
        after = bisect_right(self._entries, start_offset, key=_by_start)
        if after:
            first = EpochEntry(self._entries[after - 1].epoch, start_offset)
            self._keep([first, *self._entries[after:]])

    def clear(self) -> None:
        """Forget every epoch: the log starts anew."""
        self._keep([])

    def _keep(self, entries: list[EpochEntry]) -> None:
        if entries != self._entries:
            self._entries = entries
            self._changed()

    def _changed(self) -> None:
        self.latest = self._entries[-1].epoch if self._entries else NO_LEADER_EPOCH
        self.dirty = True


def format_epochs(epochs: LeaderEpochs) -> bytes:
    """Write the entries as `leader-epoch-checkpoint` holds them."""
    return format_checkpoint(f"{epoch} {start}" for epoch, start in epochs.entries)


def parse_epochs(path: str, content: bytes) -> LeaderEpochs:
    """Read the entries of a checkpoint; DamagedFile names the line that is wrong."""
    return LeaderEpochs(parse_checkpoint(path, content, _entry))


def load_epochs(files: Files, folder: str) -> LeaderEpochs:
    """Read a partition's epochs; no file means none yet."""
    path = f"{folder}/{LEADER_EPOCHS}"
    try:
        content = read_whole(files, path)
    except FileNotFoundError:
        return LeaderEpochs()
    return parse_epochs(path, content)


def save_epochs(files: Files, folder: str, epochs: LeaderEpochs) -> None:
    """Bring a partition's checkpoint up to date; costs nothing when it is."""
    if epochs.dirty:
        write_atomically(files, f"{folder}/{LEADER_EPOCHS}", format_epochs(epochs))
        epochs.dirty = False


def _entry(words: list[str]) -> EpochEntry:
    if len(words) != 2:
        raise ValueError("expected epoch and start offset")
    epoch, start_offset = integer(words[0], 32), integer(words[1], 64)
    if epoch < 0 or start_offset < 0:
        raise ValueError("epoch and start offset are never negative")
    return EpochEntry(LeaderEpoch(epoch), Offset(start_offset))
