"""Checking what a leader sends of its log, before any of it is written. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import Buffer
from moldau.cluster.metadata_source import SourceUnavailable
from moldau.records.batch import BatchHeader, crc_ok, iter_batches, parse_header

_SLICE_BYTES: Final = 64 << 10
"""Checked and written in one turn of the loop, unless one batch is larger."""


class FetchedBatches(NamedTuple):
    """Whole batches that follow each other."""

    data: Buffer
    headers: list[BatchHeader]


def checked_batches(
    data: Buffer, next_offset: int, last_epoch: int, leader_epoch: int
) -> Iterator[FetchedBatches]:
    """Yield the batches that continue a log, some at a time; SourceUnavailable at a wrong one.

    A batch that the log has already is left out: its answer came twice. A cut last batch is left
    out too. A batch of a later epoch than the one it was fetched under is refused (KAFKA-18723).
    """
    view = memoryview(data)
    headers: list[BatchHeader] = []
    start = end = 0
    problem: Exception | None = None
    try:
        for span in iter_batches(data, allow_cut=True):
            header = parse_header(data, span.position)
            if header.next_offset <= next_offset and not headers:
                start = end = span.position + span.size
                continue
            _check(data, span.position, header, (next_offset, last_epoch, leader_epoch))
            next_offset, last_epoch = header.next_offset, header.leader_epoch
            headers.append(header)
            end = span.position + span.size
            if end - start >= _SLICE_BYTES:
                yield FetchedBatches(view[start:end], headers)
                start, headers = end, []
    except (CorruptRecords, SourceUnavailable) as error:
        problem = error
    if headers:
        yield FetchedBatches(view[start:end], headers)
    if problem is not None:
        raise SourceUnavailable(f"fetched metadata is refused: {problem}") from problem


def _check(
    data: Buffer, position: int, header: BatchHeader, expected: tuple[int, int, int]
) -> None:
    next_offset, last_epoch, leader_epoch = expected
    if header.base_offset != next_offset or header.last_offset_delta < 0:
        raise SourceUnavailable(f"offset {header.base_offset} where {next_offset} belongs")
    if not last_epoch <= header.leader_epoch <= leader_epoch:
        raise SourceUnavailable(
            f"epoch {header.leader_epoch} behind epoch {last_epoch}, fetched under {leader_epoch}"
        )
    if not crc_ok(data, position, header.size):
        raise SourceUnavailable(f"the checksum of the batch at offset {next_offset} differs")
