"""Looking for damaged batches in a segment that nobody writes to any more.

Every byte is read and every CRC compared, in steps, so that the caller can rest in between. A batch
whose CRC is wrong is passed over by its length; where no batch begins, the rest of the file cannot
be looked at. Nothing is changed. Steps are made for `Executor.compute`: plain values in and out.

Whether the segment is still the one that was asked about is for the caller to see: compaction may
have put another file in its place meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import Files
from moldau.storage.scan import StoredBatch, walk_doubting


class Damage(NamedTuple):
    """Bytes of a segment that are not what was written."""

    position: int
    size: int
    first_offset: int
    last_offset: int
    """As the header says, which may be damaged itself; -1 where there is none."""
    reason: str


class ScrubStep(NamedTuple):
    """How far a segment was looked at."""

    position: int
    """Where the next step begins; the end if nothing is left."""
    next_offset: int
    """The least offset that may come next."""
    damages: tuple[Damage, ...]


def scrub_step(
    files: Files, path: str, begin: ScrubStep, end_position: int, budget_bytes: int
) -> ScrubStep:
    """Look at the batches of a `.log` from where a step ended, until the budget is used up.

    OSError if it cannot be read; FileNotFoundError if it is gone.
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
