"""Leader epochs: which leader wrote which part of a log.

An entry (epoch, start offset) says that the leader of this epoch wrote the records from this offset
up to the start of the next entry. A replica that returns asks its leader where the last epoch they
share ends, and truncates there, not at its high watermark. So no acknowledged record is lost and
two logs never diverge (KIP-101, KIP-279).

    entries (0, 0) (1, 120): epoch 0 wrote [0, 120), epoch 1 writes from 120

Invariant: entries ascend strictly in both fields. `LeaderEpochs` is pure. The partition's
`leader-epoch-checkpoint` stores it, and `dirty` is true while that file is out of date. After a
crash the file may have entries above the log end, which loading removes. An entry that it lacks
must be in the batches at or above the recovery point: a flush writes the file before the recovery
point moves.
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
    """An epoch and the offset of its first record."""

    epoch: LeaderEpoch
    start_offset: Offset


class EpochEnd(NamedTuple):
    """The answer to OffsetForLeaderEpoch: an epoch and the first offset after it."""

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
        """The last epoch with records; a plain attribute, because every append reads it."""
        for entry in entries:
            self.assign(*entry)
        self.dirty = False
        """Whether the entries changed since the file was read or written."""

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Start an epoch at this offset; return whether that changed anything.

        Another batch of the latest epoch changes nothing. Entries with a higher epoch or a later
        start contradict the new one: they come from a damaged file and are removed. A log never
        assigns a lower epoch (`Log` checks it before it writes).
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
        """Return where an epoch ends, as Kafka answers OffsetForLeaderEpoch.

        The latest epoch ends at the log end. An older one ends where the next higher one starts;
        the answer has our largest epoch up to it. An epoch below all entries ends where the first
        entry starts: its records are no longer in the log. An epoch above all entries, or a
        negative one, is unknown.
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
        """Return the epoch of the record at an offset; -1 below the first entry."""
        after = bisect_right(self._entries, offset, key=_by_start)
        return self._entries[after - 1].epoch if after else NO_LEADER_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Remove the epochs that start at or above the new log end."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        self._keep(kept)

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Remove the epochs below the new log start; the one that contains it starts there."""
        after = bisect_right(self._entries, start_offset, key=_by_start)
        if after:
            first = EpochEntry(self._entries[after - 1].epoch, start_offset)
            self._keep([first, *self._entries[after:]])

    def clear(self) -> None:
        """Remove every epoch, for a log that starts over."""
        self._keep([])

    def _keep(self, entries: list[EpochEntry]) -> None:
        if entries != self._entries:
            self._entries = entries
            self._changed()

    def _changed(self) -> None:
        self.latest = self._entries[-1].epoch if self._entries else NO_LEADER_EPOCH
        self.dirty = True


def format_epochs(epochs: LeaderEpochs) -> bytes:
    """Encode the entries in the format of `leader-epoch-checkpoint`."""
    return format_checkpoint([f"{epoch} {start}" for epoch, start in epochs.entries])


def parse_epochs(path: str, content: bytes) -> LeaderEpochs:
    """Parse a checkpoint; DamagedFile names the bad line."""
    return LeaderEpochs(parse_checkpoint(path, content, _entry))


def load_epochs(files: Files, folder: str) -> LeaderEpochs:
    """Read a partition's epochs; none if the file does not exist."""
    path = f"{folder}/{LEADER_EPOCHS}"
    try:
        content = read_whole(files, path)
    except FileNotFoundError:
        return LeaderEpochs()
    return parse_epochs(path, content)


def save_epochs(files: Files, folder: str, epochs: LeaderEpochs) -> None:
    """Write a partition's checkpoint and sync it, if the entries have changed."""
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
