"""Row groups of the table's files, and which of them may hold rows that are wanted.

Files are mapped into memory, so that what is not looked at is not read. A footer tells the bounds
of what a row group holds, a sketch what it certainly does not hold.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from moldau.spark.pipelines.logs.search.patterns import WantedText
from moldau.spark.pipelines.logs.search.question import Question
from moldau.spark.pipelines.logs.sketches import (
    RowMask,
    Sketch,
    pair_marks,
    sketch_place,
    text_marks,
    unpacked_sketches,
)
from moldau.spark.pipelines.tables.arrow_files import reading
from moldau.spark.pipelines.tables.committed import TableFile


class MappedFile(NamedTuple):
    """A file of the table."""

    path: Path
    keys: Mapping[str, str]
    data: pa.Buffer
    footer: pq.FileMetaData
    places: Mapping[str, int]
    """Of columns, by their paths."""


class Group(NamedTuple):
    """A row group that may hold rows that are wanted."""

    file: MappedFile
    number: int
    first_us: int
    last_us: int
    only: RowMask | None = None
    """Which rows may have the fields that are wanted; None if it may be any."""

    def column(self, path: str) -> pq.ColumnChunkMetaData:
        """Return what the footer says of a column."""
        return self.file.footer.row_group(self.number).column(self.file.places[path])

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return int(self.file.footer.row_group(self.number).num_rows)

    def is_empty(self, path: str) -> bool:
        """Tell whether a column certainly has no values."""
        found = self.column(path).statistics
        return found is not None and found.has_null_count and found.null_count == self.row_count


class Sieve:
    """Tells which row groups may match."""

    def __init__(self, question: Question, wanted: Sequence[WantedText]) -> None:
        self._question = question
        certain = [text for one in wanted for text in one.certain]
        self._text_marks = text_marks(certain)
        self._field_marks = [pair_marks(*field) for field in question.fields.items()]
        values = [pair_marks(*value) for value in question.values.items()]
        self._pair_marks = [*self._field_marks, *values]

    def candidates(self, file: TableFile) -> tuple[int, list[Group]]:
        """Return how many row groups a file has, and those of them that may match."""
        opened = mapped(file)
        sketches = self._sketches(opened)
        found = []
        for number in range(opened.footer.num_row_groups):
            group = Group(opened, number, *span(opened, number, "time"))
            if not self._may_match(group):
                continue
            if sketches is None:
                found.append(group)
            elif self._may_hold(sketches[number]):
                only = sketches[number].rows_with(self._field_marks, group.row_count)
                if only is None or only.any():
                    found.append(group._replace(only=only))
        return opened.footer.num_row_groups, found

    def _may_match(self, group: Group) -> bool:
        question = self._question
        if question.since_us is not None and group.last_us < question.since_us:
            return False
        if question.until_us is not None and group.first_us >= question.until_us:
            return False
        after = question.after_batch
        if after is not None and span(group.file, group.number, "batch")[1] <= after:
            return False
        return all(_may_be(group, name, value) for name, value in question.values.items())

    def _sketches(self, file: MappedFile) -> list[Sketch] | None:
        """Return what is known of the row groups; None if that is not asked for, or not known."""
        if not any(self._text_marks) and not self._pair_marks:
            return None
        try:
            with Path(sketch_place(str(file.path))).open("rb") as opened:
                data = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError):  # there is none, or nothing in it
            return None
        return unpacked_sketches(data, file.footer.num_row_groups, file.footer.num_rows)

    def _may_hold(self, sketch: Sketch) -> bool:
        return all(map(sketch.may_hold_pair, self._pair_marks)) and (
            sketch.may_hold_text(self._text_marks)
        )


def mapped(file: TableFile) -> MappedFile:
    """Open a file; UserError if it is none of Parquet's, FileNotFoundError if it is not there."""
    with reading(file.path):
        data = pa.memory_map(str(file.path)).read_buffer()
        footer = pq.ParquetFile(pa.BufferReader(data)).metadata
    places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    return MappedFile(file.path, file.keys, data, footer, places)


def span(file: MappedFile, number: int, path: str) -> tuple[int, int]:
    """Return the least and the greatest number of a column of a row group."""
    found = file.footer.row_group(number).column(file.places[path]).statistics
    if found is None or not found.has_min_max:
        return -(1 << 63), (1 << 63) - 1
    return found.min_raw, found.max_raw


def _may_be(group: Group, path: str, value: str) -> bool:
    found = group.column(path).statistics
    return found is None or not found.has_min_max or found.min <= value <= found.max
