"""Finding damaged batches in a closed segment.

A scrub reads every byte and checks every CRC, in steps with pauses in between. It skips a batch
with a wrong CRC by its length. Where no batch starts, it cannot read the rest of the file. It
changes nothing. The steps take and return plain values, for `Executor.compute`.

Compaction may replace the file between two steps: the caller must check that the segment is still
the same.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import Files
from moldau.storage.scan import StoredBatch, walk_doubting


class Damage(NamedTuple):
    """Damaged bytes of a segment."""

    position: int
    size: int
    first_offset: int
    last_offset: int
    """From the header, which may be damaged itself; -1 without a header."""
    reason: str


class ScrubStep(NamedTuple):
    """How far a segment was checked."""

    position: int
    """Where the next step starts; the end of the file if nothing is left."""
    next_offset: int
    """The smallest offset that the next batch may have."""
    damages: tuple[Damage, ...]


def scrub_step(
    files: Files, path: str, begin: ScrubStep, end_position: int, budget_bytes: int
) -> ScrubStep:
    """Check the batches of a `.log` from the end of the last step, until the budget is used.

    OSError if the file cannot be read; FileNotFoundError if it was deleted.
    """
    position, next_offset = begin.position, begin.next_offset
    pause_at = position + budget_bytes
    damages = []
    file = files.open(path)
    try:
        for batch, crc_matches in walk_doubting(file, position, end_position):
            reason = None if crc_matches else "the CRC does not match"
            if crc_matches and _first_offset(batch) < next_offset:
                reason = f"offset {batch.base_offset} where {next_offset} is the least"
            if reason is not None:
                damages.append(_damage(batch, reason))
            else:
                next_offset = batch.last_offset + 1
            position = batch.end_position
            if position >= pause_at:
                break
    except CorruptRecords as error:
        damages.append(Damage(position, end_position - position, next_offset, -1, str(error)))
        position = end_position
    finally:
        file.close()
    return ScrubStep(position, next_offset, tuple(damages))


def _damage(batch: StoredBatch, reason: str) -> Damage:
    return Damage(batch.position, batch.size, batch.base_offset, batch.last_offset, reason)


def _first_offset(batch: StoredBatch) -> int:
    return batch.base_offset if batch.header is not None else batch.last_offset
