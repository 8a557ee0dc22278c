"""The records of many version 2 batches as columns, without an object per record.

For readers that want tables. What is found are numbers: offsets, times, and where keys, values and
headers lie in the bytes they came in; nothing is copied out. Needs numpy, which only the extra
`arrow` brings, so that nothing may import this module before it is asked for columns.

Three steps, over all batches given at a time, because an array operation costs as much for ten
records as for a hundred:

1. Find where each record begins. Lengths lead from one record to the next, a walk that no array
   operation does. But records of one length often follow each other, and a stretch of them is
   crossed in one step; and a batch with as many records in as many bytes as an earlier one mostly
   has them at the same places, which is guessed.
2. Read each field of all records at once, from where the field before it ends.
3. Prove it. A record must begin where the one before it ends, and its fields must end where its
   length says. Positions only grow from field to field, so what passes has read no byte outside of
   its own record, and a guess that passes was none. A guess that fails is walked after all.

Batches in which all records are alike need none of that: `alike` reads them.

Agrees with `record.iter_records` on every input; but what is wrong with one batch is CorruptRecords
for all of them, and headers are looked into only by `header_columns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from moldau.base.errors import CorruptRecords
from moldau.base.files import Buffer
from moldau.records.alike import Run, find_runs
from moldau.records.column_types import (
    Bytes,
    Columns,
    HeaderColumns,
    Integers,
    Part,
    Rows,
    Slices,
    empty_columns,
)
from moldau.records.record import MIN_HEADER_SIZE, MIN_RECORD_SIZE, check_bounds, note_starts
from moldau.records.varint import SMALL_NUMBERS, read_varint

_MIN_LENGTH: Final = MIN_RECORD_SIZE - 1
_INT64_MIN: Final = -(2**63)
_FIRST_STRETCH: Final = 16
_STRETCH_GROWTH: Final = 8
"""A stretch is looked for in steps that grow: where it is short, little was looked at in vain."""
_FEW_RECORDS: Final = 16
"""Fewer are read one by one: an array operation costs as much as reading so many numbers."""


def read_columns(data: Buffer, parts: Sequence[Part]) -> Columns:
    """Read the records of batches that lie in the data one behind the other."""
    for part in parts:
        check_bounds(part.header, part.end - part.start)
        if not part.header.count and part.end > part.start:
            raise CorruptRecords(f"{part.end - part.start} bytes in a batch without records")
    parts = [part for part in parts if part.header.count]
    if not parts:
        return _NO_COLUMNS
    runs = find_runs(data, parts)
    return _wanted(_read_around(data, parts, runs) if runs else _read(data, parts), parts)


def _read_around(data: Buffer, parts: Sequence[Part], runs: Sequence[Run]) -> Columns:
    """Read runs of batches that are alike, and whatever lies between them."""
    firsts = np.cumsum([0, *(part.header.count for part in parts)]).tolist()
    columns = empty_columns(data, firsts[-1])
    for run in runs:
        run.put(columns, firsts[run.first])
    in_runs = set(chain.from_iterable(range(run.first, run.end) for run in runs))
    others = [number for number in range(len(parts)) if number not in in_runs]
    if others:
        rows = np.concatenate([np.arange(firsts[each], firsts[each + 1]) for each in others])
        columns.put(rows, _read(data, [parts[each] for each in others]))
    return columns


def _read(data: Buffer, parts: Sequence[Part]) -> Columns:
    """Read the records of batches that have some."""
    content: Bytes = np.frombuffer(data, np.uint8)
    batches = _Batches(parts)
    positions, ends = _located(data, content, batches)
    timestamps, positions = _read_timestamps(content, positions + 1, batches)
    offsets, positions = _read_offsets(content, positions, batches)
    keys, positions = _read_slices(content, positions)
    values, positions = _read_slices(content, positions)
    _check_ends(content, positions, ends)
    headers = Slices(positions, ends - positions)
    return Columns(data, offsets, timestamps, batches.append_times(), keys, values, headers)


def header_columns(columns: Columns) -> HeaderColumns:
    """Read the headers of all records, round by round: the first of each, the second of each...

    Once few records have any left these are read one by one, or a single record with a million
    headers would cost a million rounds.
    """
    content: Bytes = np.frombuffer(columns.data, np.uint8)
    ends = columns.headers.starts + columns.headers.sizes
    if not ends.size:
        return HeaderColumns(ends, _NOTHING, _NOTHING)
    counts, positions = _read_varints(content, columns.headers.starts, 32)
    rows = np.cumsum(counts) - counts
    total = int(counts.sum())
    keys, values = (Slices(np.empty(total, np.int64), np.empty(total, np.int64)) for _ in "kv")
    left = np.flatnonzero(counts)
    number = 0
    while left.size >= _FEW_RECORDS:
        key, behind = _read_slices(content, positions[left])
        value, behind = _read_slices(content, behind)
        if key.sizes.min() < 0:
            raise CorruptRecords("a header without a key")
        keys.put(rows[left] + number, key)
        values.put(rows[left] + number, value)
        positions[left] = behind
        number += 1
        left = left[counts[left] > number]
    for record in left.tolist():
        row, row_end = int(rows[record]) + number, int(rows[record] + counts[record])
        start, end = int(positions[record]), int(ends[record])
        positions[record] = _read_one_by_one(columns.data, start, end, row, row_end, keys, values)
    if (positions != ends).any():
        raise CorruptRecords("the headers of a record do not end where the record ends")
    return HeaderColumns(counts, keys, values)


def _read_one_by_one(
    data: Buffer, start: int, end: int, row: int, row_end: int, keys: Slices, values: Slices
) -> int:
    """Read the headers that one record has left; return the position behind them."""
    content = bytes(memoryview(data)[start:end])
    position = 0
    try:
        for number in range(row, row_end):
            for column, shortest in ((keys, 0), (values, -1)):
                size, position = read_varint(content, position)
                if size < shortest:
                    raise CorruptRecords(f"nothing in a header can have {size} bytes")
                column.starts[number], column.sizes[number] = start + position, size
                position += max(size, 0)
    except IndexError:
        raise CorruptRecords("a record ends inside its headers") from None
    return start + position


def _read_varints(content: Bytes, positions: Integers, bits: int) -> tuple[Integers, Integers]:
    """Read one number at each position; return them, and the positions behind them.

    A position behind the content reads its last byte instead: whoever calls finds out from the
    positions returned, which are always behind those given.
    """
    numbers, behind, too_long = _try_varints(content, positions, bits)
    if too_long is not None:
        raise CorruptRecords(f"a varint of more than {bits} bits")
    return numbers, behind


def _try_varints(
    content: Bytes, positions: Integers, bits: int
) -> tuple[Integers, Integers, Rows | None]:
    """Read numbers where there may be none; tell also which have more bits than there may be."""
    byte = content.take(positions, mode="clip")
    behind = positions + 1
    longer = _continued(byte)
    if longer is None:
        return _SMALL_NUMBERS.take(byte, mode="clip"), behind, None
    raw = (byte & 0x7F).astype(np.uint64)
    too_long = None
    for shift in range(7, bits, 7):
        byte = content.take(behind[longer], mode="clip")
        behind[longer] += 1
        raw[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        if shift + 7 > bits:
            excess = byte >> (bits - shift)
            too_long = _among(longer, np.flatnonzero(excess)) if excess.any() else None
            break
        further = _continued(byte)
        if further is None:
            break
        longer = _among(longer, further)
    numbers = (raw >> _ONE).view(np.int64) ^ -(raw & _ONE).view(np.int64)
    return numbers, behind, too_long


def _among(rows: Rows, some: Rows) -> Rows:
    """Return those of the rows that are meant by their places among them."""
    return some if isinstance(rows, slice) else rows[some]


def _continued(byte: Bytes) -> Rows | None:
    """Tell which of these bytes have another one behind them: some, all, or none."""
    if byte.max() < 0x80:
        return None
    return slice(None) if byte.min() >= 0x80 else np.flatnonzero(byte & 0x80)


class _Batches:
    """What the headers of batches say to each of their records."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.headers = [part.header for part in parts]
        self.counts = _integers([header.count for header in self.headers])
        behind = np.cumsum(self.counts)
        self.firsts = behind - self.counts
        """By batch: the row of its first record."""
        self.lasts = behind - 1

    def by_record(self, by_batch: Sequence[int]) -> Integers:
        """Repeat what stands in a header for each record of the batch."""
        return np.repeat(_integers(by_batch), self.counts)

    def append_times(self) -> npt.NDArray[np.bool_]:
        return np.repeat([header.append_time for header in self.headers], self.counts)


def _located(data: Buffer, content: Bytes, batches: _Batches) -> tuple[Integers, Integers]:
    """Return where each record goes on behind its length, and where it ends."""
    walk = _Walk(data, batches)
    guessed = walk.begin()
    bases = batches.by_record([part.start for part in batches.parts])
    ends = np.empty_like(bases)
    while True:
        starts = bases + walk.starts
        ends[:-1] = starts[1:]
        ends[batches.lasts] = [part.end for part in batches.parts]
        lengths, bodies, too_long = _try_varints(content, starts, 32)
        if too_long is not None:
            lengths[too_long] = -1
        wrong = (bodies + lengths != ends) | (lengths < _MIN_LENGTH)
        if not wrong.any():
            return bodies, ends
        numbers = set(np.searchsorted(batches.lasts, np.flatnonzero(wrong)).tolist())
        if not numbers <= guessed:
            raise CorruptRecords("a record does not begin where the one before it ends")
        walk.through_all(sorted(numbers))
        guessed -= numbers


class _Walk:
    """Goes from record to record by their lengths, wherever those lead: others judge it."""

    __slots__ = ("_batches", "_data", "_found", "_found_row", "starts")

    def __init__(self, data: Buffer, batches: _Batches) -> None:
        self._data = memoryview(data)
        self._batches = batches
        self.starts = np.empty(int(batches.counts.sum()), np.int64)
        """Where each record begins in the records of its batch."""
        self._found: list[int] = []
        self._found_row = 0
        """Starts that are still to be put into the column, and the row of the first of them."""

    def begin(self) -> set[int]:
        """Walk through one batch of each shape; tell which ones were taken to be alike."""
        models: dict[tuple[int, int], int] = {}
        alike: dict[int, int] = {}
        for number, part in enumerate(self._batches.parts):
            model = models.setdefault((part.header.count, part.end - part.start), number)
            if model != number:
                alike[number] = model
        self.through_all(models.values())
        firsts = self._batches.firsts.tolist()
        for number, model in alike.items():
            first, known, count = firsts[number], firsts[model], self._batches.headers[model].count
            self.starts[first : first + count] = self.starts[known : known + count]
        return set(alike)

    def through_all(self, numbers: Iterable[int]) -> None:
        """Walk through some batches."""
        firsts = self._batches.firsts.tolist()
        try:
            for number in numbers:
                part = self._batches.parts[number]
                if firsts[number] != self._found_row + len(self._found):
                    self._put_down(firsts[number])
                self._through(bytes(self._data[part.start : part.end]), part.header.count)
        except IndexError:
            raise CorruptRecords("the records end inside a record") from None
        self._put_down(0)

    def _through(self, content: bytes, left: int) -> None:
        """Walk through a batch."""
        position, pause = 0, _FIRST_STRETCH
        while left > 0:
            step, crossed = _stretch(content, position, left)
            if crossed >= _FIRST_STRETCH:
                self._cross(position, step, crossed)
                position += crossed * step
                left -= crossed
                pause = _FIRST_STRETCH
            walked = min(pause, left)
            position = note_starts(content, position, walked, self._found)
            left -= walked
            pause *= 2

    def _cross(self, position: int, step: int, count: int) -> None:
        """Note a stretch of records at equal distances."""
        row = self._found_row + len(self._found)
        self._put_down(row + count)
        self.starts[row : row + count] = np.arange(count) * step + position

    def _put_down(self, next_row: int) -> None:
        """Put what was found into its column, and go on with another row."""
        row = self._found_row
        self.starts[row : row + len(self._found)] = self._found
        self._found.clear()
        self._found_row = next_row


def _stretch(content: bytes, position: int, left: int) -> tuple[int, int]:
    """Return the size of a record, and how many of those left begin with the same length."""
    length, body = read_varint(content, position)
    step = body - position + length
    if step < MIN_RECORD_SIZE:
        raise CorruptRecords(f"a record cannot have {step} bytes")
    following = position + step
    if content[position:body] != content[following : following + body - position]:
        return step, 1
    tried = _FIRST_STRETCH
    while True:
        tried = min(tried, left)
        stop = position + tried * step
        columns = [content[byte:stop:step] for byte in range(position, body)]
        crossed = min(len(column) - len(column.lstrip(column[:1])) for column in columns)
        if crossed < tried or tried == left:
            return step, crossed
        tried *= _STRETCH_GROWTH


def _integers(numbers: Sequence[int]) -> Integers:
    return np.array(numbers, np.int64)


def _read_timestamps(
    content: Bytes, positions: Integers, batches: _Batches
) -> tuple[Integers, Integers]:
    deltas, positions = _read_varints(content, positions, 64)
    base = batches.by_record([header.base_timestamp for header in batches.headers])
    timestamps = base + deltas
    overflown = (base ^ timestamps) & (deltas ^ timestamps) < 0
    if overflown.any() or timestamps.min() == _INT64_MIN:
        raise CorruptRecords("a time beyond 64 bits")
    if any(header.append_time for header in batches.headers):
        appended = batches.by_record([header.max_timestamp for header in batches.headers])
        timestamps = np.where(batches.append_times(), appended, timestamps)
    return timestamps, positions


def _read_offsets(
    content: Bytes, positions: Integers, batches: _Batches
) -> tuple[Integers, Integers]:
    """Read offsets, which rise within each batch from its first to its last at most."""
    deltas, positions = _read_varints(content, positions, 32)
    falling = deltas[1:] <= deltas[:-1]
    falling[batches.lasts[:-1]] = False
    lasts = _integers([header.last_offset_delta for header in batches.headers])
    if falling.any() or deltas[batches.firsts].min() < 0 or (deltas[batches.lasts] > lasts).any():
        raise CorruptRecords("offsets that do not rise, or leave their batch")
    return batches.by_record([header.base_offset for header in batches.headers]) + deltas, positions


def _read_slices(content: Bytes, positions: Integers) -> tuple[Slices, Integers]:
    """Read one size at each position; the bytes lie behind it, as many as it says, if any."""
    sizes, starts = _read_varints(content, positions, 32)
    smallest = sizes.min()
    if smallest < -1:
        raise CorruptRecords(f"nothing can have {smallest} bytes")
    ends = starts + (sizes if smallest >= 0 else np.maximum(sizes, 0))
    return Slices(starts, sizes), ends


def _check_ends(content: Bytes, positions: Integers, ends: Integers) -> None:
    """See that there is room for as many headers as are counted, and nothing else."""
    counts, behind = _read_varints(content, positions, 32)
    room = ends - behind
    if not counts.any():
        wrong = room != 0
    else:
        wrong = (counts < 0) | (room < counts * MIN_HEADER_SIZE) | ((counts == 0) & (room != 0))
    if wrong.any():
        raise CorruptRecords("the fields of a record do not end where the record ends")


def _wanted(columns: Columns, parts: Sequence[Part]) -> Columns:
    """Leave out the records before those that are wanted."""
    if all(part.header.base_offset >= part.first_wanted for part in parts):
        return columns
    first_wanted = _Batches(parts).by_record([part.first_wanted for part in parts])
    return columns.at(np.flatnonzero(columns.offsets >= first_wanted))


_ONE: Final = np.uint64(1)
_SMALL_NUMBERS: Final = np.array(SMALL_NUMBERS, np.int64)
_NOTHING: Final = Slices(_integers(()), _integers(()))
_NO_COLUMNS: Final = Columns(
    b"", _integers(()), _integers(()), np.zeros(0, np.bool_), _NOTHING, _NOTHING, _NOTHING
)
