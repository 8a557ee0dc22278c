"""What a fetch gave, taken apart into whole and sound batches."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.base.files import Buffer
from moldau.records.batch import BatchHeader, crc_ok, iter_batches, parse_header
from moldau.sim.history import Violation


def whole_batches(place: str, content: object) -> Iterator[tuple[BatchHeader, bytes]]:
    """Walk the whole batches of an answer; one that is cut at the end is left out."""
    if not content:
        return
    assert isinstance(content, Buffer)
    for span in iter_batches(content, allow_cut=True):
        if not crc_ok(content, span.position, span.size):
            raise Violation(f"P8: {place} served {span.base_offset} with a wrong checksum")
        batch = bytes(content[span.position : span.position + span.size])
        yield parse_header(batch), batch
