"""The rows of one row group, read column by column, and which of them fulfil a condition."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from moldau.spark.pipelines.logs.layout import FEW_VALUES, TEXT_COLUMNS
from moldau.spark.pipelines.logs.search.groups import Group
from moldau.spark.pipelines.logs.search.pages import absent, attempts, find
from moldau.spark.pipelines.logs.search.patterns import Probe, WantedText
from moldau.spark.pipelines.logs.sketches.arrays import offsets_of
from moldau.spark.pipelines.tables.arrow_files import reading

Mask = npt.NDArray[np.bool_]

_ROWS_MAX: Final = 64
"""If more rows than this are to be expected, going by those found so far, it is quicker to look at
every row than to look for the next one in all texts as if they were one."""
_FEW: Final = 0.25
"""The share of the rows up to which those that are left are few."""


class Rows:
    """What is read of a row group is kept for as long as this is."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._count = group.row_count
        self._columns: dict[str, pa.Array] = {}

    @cached_property
    def _file(self) -> pq.ParquetFile:
        file = self._group.file
        source = pa.BufferReader(file.data)
        return pq.ParquetFile(source, metadata=file.footer, read_dictionary=FEW_VALUES)

    def load(self, names: Iterable[str]) -> None:
        """Read columns that will be needed, unless that was done: together is quicker."""
        missing = [name for name in names if name not in self._columns]
        if missing:
            with reading(self._group.file.path):
                number = self._group.number
                read = self._file.read_row_group(number, columns=missing, use_threads=False)
            for name in missing:
                column = read.column(name)
                # Joining the pieces of one piece would copy it.
                one = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
                self._columns[name] = one

    def column(self, name: str) -> pa.Array:
        """Read a column, unless that was done."""
        self.load([name])
        return self._columns[name]

    def taken(self, names: Iterable[str], rows: npt.NDArray[np.intp]) -> dict[str, pa.Array]:
        """Return what columns have in some rows."""
        places = as_places(rows)
        return {name: self.column(name).take(places) for name in names}

    def numbers(self, name: str) -> npt.NDArray[np.int64]:
        """Return the values of a column of numbers, or its times in microseconds."""
        return self.column(name).cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]

    # Values

    def equal(self, name: str, value: str) -> Mask:
        """Tell which rows have this value."""
        return _equal(self.column(name), value)

    def possible(self) -> Mask:
        """Tell which rows are worth a look, by what is known of the fields that are wanted."""
        only = self._group.only
        return np.ones(self._count, dtype=np.bool_) if only is None else only.copy()

    def with_field(self, name: str, value: str, left: Mask) -> Mask:
        """Tell which of the rows that are left have a field of this value."""
        rows = np.flatnonzero(left)
        fields = self.column("fields")
        if are_few(left):
            fields = fields.take(as_places(rows))
        else:
            rows = np.arange(self._count)
        pairs = np.flatnonzero(_equal(fields.items, value))
        pairs = pairs[_equal(fields.keys.take(as_places(pairs)), name)]
        found = np.zeros(self._count, dtype=np.bool_)
        found[rows[np.searchsorted(fields.offsets.to_numpy(), pairs, side="right") - 1]] = True
        return found

    # Texts

    def absent(self, probes: Iterable[Probe]) -> set[Probe]:
        """Return what no message and no stack matches for certain."""
        missing = set(probes)
        for name in TEXT_COLUMNS:
            if not self._group.is_empty(name):
                missing = absent(self._group.file.data, self._group.column(name), missing)
        return missing

    def matching(self, wanted: WantedText, left: Mask) -> Mask:
        """Tell which of the rows that are left have what is wanted in a text."""
        found = np.zeros(self._count, dtype=np.bool_)
        for name in TEXT_COLUMNS:
            if not self._group.is_empty(name):
                found |= _matching(self.column(name), wanted, left)
        return found


def are_few(rows: Mask) -> bool:
    """Tell whether so few are left that they are better taken out before they are compared."""
    return bool(np.count_nonzero(rows) <= _FEW * len(rows))


def as_places(places: npt.NDArray[np.intp]) -> pa.Array:
    """Return numbers as Arrow has them; its own way looks for a library first, at every call."""
    return pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)])


@lru_cache(maxsize=1024)
def as_scalar(value: str | int) -> pa.Scalar:
    """Return a value as Arrow has it, kept because Arrow looks for a library here as well."""
    return pa.scalar(value)


def _equal(values: pa.Array, value: str) -> Mask:
    """Tell where a value stands in an array, of a dictionary or not."""
    if not isinstance(values, pa.DictionaryArray):
        return _mask(pc.equal(values, as_scalar(value)))
    entry = values.dictionary.index(as_scalar(value)).as_py()
    if entry < 0:
        return np.zeros(len(values), dtype=np.bool_)
    return _mask(pc.equal(values.indices, as_scalar(entry)))


def _matching(texts: pa.Array, wanted: WantedText, left: Mask) -> Mask:
    found = np.zeros(len(texts), dtype=np.bool_)
    if are_few(left):
        rows = np.flatnonzero(left)
        found[rows] = _mask(pc.match_substring_regex(texts.take(as_places(rows)), wanted.pattern))
        return found
    first = _first_matching(texts, wanted)
    if first is None:
        return _mask(pc.match_substring_regex(texts, wanted.pattern))
    found[first] = True
    return found


def _first_matching(texts: pa.Array, wanted: WantedText) -> list[int] | None:
    """Return the rows that match, if something of what is wanted occurs in few; None otherwise."""
    data = texts.buffers()[2]
    if data is None:
        return None
    places = offsets_of(texts)
    for pattern in (one for probe in wanted.probes for one in attempts(data, probe)):
        if (rows := _few_with(data, places, pattern)) is not None:
            return [row for row in rows if _matches(texts[row], wanted.pattern)]
    return None


def _few_with(data: pa.Buffer, places: npt.NDArray[np.int32], pattern: str) -> list[int] | None:
    """Return rows, such that a match within any row is in one of them; None if there are many.

    A match that begins in a row may end in another. Hence the next is looked for in the row behind.
    """
    if _matches(as_scalar(""), pattern):
        return None
    found: list[int] = []
    start, end = int(places[0]), int(places[-1])
    place = start
    while True:
        after = find(data.slice(place, end - place), pattern)
        if after < 0:
            return found
        found.append(int(np.searchsorted(places, place + after, side="right")) - 1)
        place = int(places[found[-1] + 1])
        if len(found) * (end - start) > _ROWS_MAX * (place - start):
            return None


def _matches(text: pa.Scalar, pattern: str) -> bool:
    return bool(pc.match_substring_regex(text, pattern).as_py())


def _mask(found: pa.Array) -> Mask:
    return found.fill_null(False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
