"""`moldau metadata log`: the records of the metadata log or of a snapshot, a line each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import click

from moldau.base.files import Files
from moldau.cli.frame.texts import json_text, safe
from moldau.cli.metadata.batches import LogWalk, PlacedBatch, naming, snapshot_batches
from moldau.cli.metadata.options import folder_option, form_option, tell_notes
from moldau.cli.metadata.printing import print_lines
from moldau.cli.metadata.record_fields import RecordFields, control_fields, metadata_fields
from moldau.cli.metadata.source import (
    MetadataFiles,
    OpenSegment,
    metadata_files,
    while_files_change,
)
from moldau.cli.metadata.state import UNCOMMITTED
from moldau.cluster.opening import opening_errors
from moldau.records.control import control_type
from moldau.storage.disk import Disk

_COLUMNS: Final = "{:>8}  {:>5}  {:<34}  {}"
_HEADING: Final = _COLUMNS.format("OFFSET", "EPOCH", "TYPE", "FIELDS")


class ShownRecord(NamedTuple):
    """A record with what its batch says of it."""

    offset: int
    epoch: int
    timestamp: int
    content: RecordFields


class _Source(NamedTuple):
    batches: Iterator[PlacedBatch]
    notes: list[str]
    """Complete once the batches were read."""


@click.command()
@click.option("--from", "begin", type=click.IntRange(0), default=0, help="First offset.")
@click.option("--until", type=click.IntRange(0), help="End offset, exclusive.")
@folder_option
@form_option("table", "json")
def log(begin: int, until: int | None, folder: str, output: str) -> None:
    """Print the records of the log, or of a .checkpoint file, one per line.

    With -o json each line is an object. Secrets are hidden.
    """
    disk = Disk(read_only=True)
    with opening_errors(folder):
        found, segments = while_files_change(partial(_open, disk, folder))
    source = _source(disk, found, segments)
    records = _readable(_records(source.batches, begin, until), folder)
    if output == "json":
        print_lines(map(_json_line, records))
    else:
        print_lines(chain((_HEADING,), map(_text_line, records)))
    tell_notes(source.notes)


def _readable(records: Iterator[ShownRecord], folder: str) -> Iterator[ShownRecord]:
    """Yield records; an error of the disk names the folder. One of the output is not meant."""
    with opening_errors(folder):
        yield from records


def _open(files: Files, folder: str) -> tuple[MetadataFiles, list[OpenSegment]]:
    found = metadata_files(files, folder)
    return found, found.open_segments(files)


def _source(files: Files, found: MetadataFiles, segments: list[OpenSegment]) -> _Source:
    """Choose the log; a snapshot only where there is nothing else."""
    if not segments:
        assert found.snapshot is not None
        return _Source(snapshot_batches(files, found.snapshot), [])
    walk = LogWalk(segments, found.snapshot_id.end_offset, found.synced)
    walk.notes.append(UNCOMMITTED)
    if segments[0].base and found.snapshot is not None:
        walk.notes.append(
            f"the log begins at offset {segments[0].base}; {found.snapshot} has earlier metadata"
        )
    return _Source(walk.batches(), walk.notes)


def _records(
    batches: Iterator[PlacedBatch], begin: int, until: int | None
) -> Iterator[ShownRecord]:
    for placed in batches:
        header = placed.batch.header
        if until is not None and header.base_offset >= until:
            return
        if header.next_offset <= begin:
            continue
        with naming(placed):
            shown = list(_shown(placed))
        for record in shown:
            if begin <= record.offset and (until is None or record.offset < until):
                yield record


def _shown(placed: PlacedBatch) -> Iterator[ShownRecord]:
    header = placed.batch.header
    for record in placed.records():
        if header.control:
            content = control_fields(control_type(record.key), record.value)
        else:
            content = metadata_fields(record.value)
        yield ShownRecord(record.offset, header.leader_epoch, record.timestamp, content)


def _text_line(record: ShownRecord) -> str:
    fields = " ".join(f"{name}={_text(value)}" for name, value in record.content.fields.items())
    return _COLUMNS.format(record.offset, record.epoch, record.content.type, safe(fields)).rstrip()


def _text(value: Any) -> str:
    """Write a value so that one can see where it ends."""
    if type(value) is int:
        return str(value)
    if isinstance(value, str) and value and not any(letter in value for letter in ' "='):
        return value
    return json_text(value)


def _json_line(record: ShownRecord) -> str:
    return json_text(
        {
            "offset": record.offset,
            "epoch": record.epoch,
            "timestamp": record.timestamp,
            "type": record.content.type,
            "version": record.content.version,
            "fields": record.content.fields,
        }
    )
