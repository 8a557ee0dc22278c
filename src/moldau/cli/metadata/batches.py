"""The batches of a snapshot or of a metadata log, in order. Damage is named with its position.

The rules are those by which a voter opens its journal, but nothing is repaired: a last batch that
is not whole is being written, or was when the node died, and is left out with a note. Anything else
that is not whole is damage. Before the newest snapshot segments may be missing. A voter of several
notes how far it has synced (`sync_mark`): what lies behind may be damaged, and is left out as well.

The end of the log may not be committed: only the nodes know how far it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from moldau.base.errors import InvariantViolated, ProtocolError, StorageError
from moldau.base.files import Files
from moldau.cli.metadata.source import OpenSegment
from moldau.cluster.batch_files import DamagedBatch, StoredBatch, intact_batch_follows, walk
from moldau.records.control import ControlType, control_type
from moldau.records.record import Record, read_records


class DamagedMetadata(StorageError):  # noqa: N818 - it names the thing
    """A file of a metadata log or a snapshot has bad content; the disk itself works."""


class PlacedBatch(NamedTuple):
    """An intact batch, and the file it is in."""

    path: str
    batch: StoredBatch

    def records(self) -> Iterator[Record]:
        """Read its records."""
        return read_records(self.batch.data)


@contextmanager
def naming(placed: PlacedBatch) -> Iterator[None]:
    """Say in which batch it is that records make no sense."""
    try:
        yield
    except LookupError as error:
        # The image looks things up that decisions have checked: of a log this is not certain.
        raise _senseless(placed, f"it names what does not exist ({error})") from error
    except (ProtocolError, InvariantViolated) as error:
        raise _senseless(placed, str(error)) from error


def _senseless(placed: PlacedBatch, problem: str) -> DamagedMetadata:
    where = f"the batch at position {placed.batch.position}"
    return DamagedMetadata(placed.path, f"{where} is inconsistent: {problem}")


def snapshot_batches(files: Files, path: str) -> Iterator[PlacedBatch]:
    """Yield the batches of a snapshot; DamagedMetadata where it is damaged or cut off."""
    file = files.open(path)
    placed = None
    try:
        for batch in walk(file):
            placed = PlacedBatch(path, batch)
            yield placed
    except DamagedBatch as damage:
        raise DamagedMetadata(path, f"is damaged: {damage}") from damage
    finally:
        file.close()
    if placed is None or not _is_footer(placed):
        raise DamagedMetadata(path, "is truncated: it has no footer")


def _is_footer(placed: PlacedBatch) -> bool:
    if not placed.batch.header.control:
        return False
    with naming(placed):
        kinds = [control_type(record.key) for record in placed.records()]
    return kinds[-1:] == [ControlType.SNAPSHOT_FOOTER]


class LogWalk:
    """Reads segments one after the other."""

    def __init__(
        self, segments: Sequence[OpenSegment], snapshot_end: int, synced: int | None = None
    ) -> None:
        self._segments = segments
        self._snapshot_end = snapshot_end
        self._synced = synced
        """Up to here the log was synced; None where nobody has noted it."""
        self._has_ended = False
        self.next_offset = segments[0].base if segments else snapshot_end
        """Where the log goes on, as far as it was read."""
        self.notes: list[str] = []
        """What the user should know; complete once all batches were read."""

    def batches(self) -> Iterator[PlacedBatch]:
        """Yield all batches; DamagedMetadata where they do not go on."""
        for segment in self._segments:
            self._check_start(segment)
            if not self._has_ended:
                yield from self._read(segment, is_last=segment is self._segments[-1])
            if self._has_ended:
                break
        end = max(self.next_offset, self._snapshot_end)
        if self._segments and self._synced is not None and end < self._synced:
            self.notes.append(
                f"the log ends at offset {end}, but was synced up to {self._synced}: the node will"
                " not start"
            )

    def _check_start(self, segment: OpenSegment) -> None:
        if segment.base == self.next_offset:
            return
        path, last = segment.file.path, self.next_offset - 1
        if segment.base < self.next_offset:
            self._end(path, f"begins at offset {segment.base}, but the log goes on after {last}")
        elif segment.base > self._snapshot_end:
            self._end(path, f"begins at offset {segment.base}, but the log before ends at {last}")
        else:
            missing = f"offsets {self.next_offset} to {segment.base - 1} before it are missing"
            self.notes.append(f"{path}: {missing}; a snapshot covers them")
            self.next_offset = segment.base

    def _read(self, segment: OpenSegment, *, is_last: bool) -> Iterator[PlacedBatch]:
        path = segment.file.path
        try:
            for batch in walk(segment.file):
                header = batch.header
                if header.base_offset != self.next_offset or header.last_offset_delta < 0:
                    found = f"offset {header.base_offset} at position {batch.position}"
                    self._end(path, f"{found} where {self.next_offset} belongs")
                    return
                self.next_offset = header.next_offset
                yield PlacedBatch(path, batch)
        except DamagedBatch as damage:
            if self._synced is not None:
                self._end(path, str(damage))
            elif is_last and not intact_batch_follows(segment.file, damage):
                self._leave_out(path, str(damage))
            else:
                raise DamagedMetadata(path, f"{damage}, and more follows it") from damage

    def _end(self, path: str, problem: str) -> None:
        """Refuse damage, unless it is known that all before it is what was synced."""
        if self._synced is None or self.next_offset < self._synced:
            raise DamagedMetadata(path, problem)
        self._leave_out(path, problem)

    def _leave_out(self, path: str, problem: str) -> None:
        self._has_ended = True
        self.notes.append(f"{path}: {problem}; ignored: it was not synced, or is being written now")
