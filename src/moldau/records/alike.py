"""Columns of batches that are alike: their fields lie at equal distances, so none is searched for.

A producer of records of one size fills batch after batch with as many of them. Such batches follow
each other in a fetch answer at equal distances, as records do within them. So one byte of every
record is a grid: a view of the data with a step from batch to batch and one from record to record.

The first batch is read by `stretches`, which prove its records to be alike. In the others the
bytes that say how long what is must be the same ones. Then positions and offsets are counted, and
only times are read. Nothing here raises: what is not alike is left to `columns`.

Needs numpy, as `columns` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from moldau.base.files import Buffer
from moldau.records.column_types import Columns, Integers, Part
from moldau.records.stretches import Stretch, find_stretch
from moldau.records.varint import SMALL_NUMBERS, VARINT

FEWEST: Final = 128
"""Where a stretch has fewer records, in all batches together, it costs more than it saves."""

_SMALL_NUMBERS: Final = np.array(SMALL_NUMBERS, np.int64)


_Kind = Literal["u1", "<u8"]


class Run(NamedTuple):
    """Batches that are alike and follow each other."""

    first: int
    """The number of the first one among all."""
    parts: Sequence[Part]
    step: int
    """From the start of one to the start of the next."""
    stretches: list[Stretch]
    """What the first one consists of; their positions are positions in it."""

    @property
    def end(self) -> int:
        """The number behind the last one."""
        return self.first + len(self.parts)

    def put(self, columns: Columns, row: int) -> None:
        """Put the records into their rows, from this one on."""
        headers = [part.header for part in self.parts]
        shape = len(headers), headers[0].count
        rows = slice(row, row + shape[0] * shape[1])
        append_times = _column([header.append_time for header in headers])
        columns.append_times[rows].reshape(shape)[:] = append_times
        offsets = _column([header.base_offset for header in headers])
        np.add(offsets, np.arange(shape[1]), out=columns.offsets[rows].reshape(shape))
        self._put_times(columns.data, columns.timestamps[rows].reshape(shape))
        starts = _column([part.start for part in self.parts])
        lengths = [each.length for each in self.stretches]
        records = np.concatenate(
            [np.arange(each.position, each.end, each.size) for each in self.stretches]
        )
        fields = zip(*map(_fields, self.stretches), strict=True)
        for column, found in zip(
            (columns.keys, columns.values, columns.headers), fields, strict=True
        ):
            places, sizes = np.repeat(np.array(found), lengths, axis=0).T
            np.add(starts, records + places, out=column.starts[rows].reshape(shape))
            column.sizes[rows].reshape(shape)[:] = sizes

    def _put_times(self, data: Buffer, times: Integers) -> None:
        """Read the times. None leaves 64 bits: a difference of two bytes is small."""
        headers = [part.header for part in self.parts]
        bases = _column([header.base_timestamp for header in headers])
        first = 0
        for stretch in self.stretches:
            some = times[:, first : first + stretch.length]
            first += stretch.length
            byte = self.numbers_at(data, stretch, stretch.time, "u1")
            if stretch.delta - stretch.time == 1:
                np.add(_SMALL_NUMBERS.take(byte, mode="clip"), bases, out=some)
            else:
                second = self.numbers_at(data, stretch, stretch.time + 1, "u1")
                raw = byte & 0x7F | second.astype(np.int64) << 7
                np.add(raw >> 1 ^ -(raw & 1), bases, out=some)
        for number, header in enumerate(headers):
            if header.append_time:
                times[number] = header.max_timestamp

    def numbers_at(
        self, data: Buffer, stretch: Stretch, position: int, kind: _Kind
    ) -> np.ndarray[Any, np.dtype[Any]]:
        """Show a number of each record in all batches: where it lies in the first one of all."""
        shape = len(self.parts), stretch.length
        start = self.parts[0].start + position
        return np.ndarray(shape, kind, data, start, strides=(self.step, stretch.size))


def find_runs(data: Buffer, parts: Sequence[Part]) -> list[Run]:
    """Find batches that are alike, where there are enough of them; none of them is empty."""
    found = []
    for run in _candidates(parts):
        header, start, end, _ = run.parts[0]
        most = len(run.parts) * header.count // FEWEST
        stretches = _stretches(bytes(memoryview(data)[start:end]), header.count, most)
        if stretches is not None:
            whole = run._replace(stretches=stretches)
            if _is_alike(data, whole):
                found.append(whole)
    return found


def _candidates(parts: Sequence[Part]) -> Iterator[Run]:
    """Find batches at equal distances, with as many records in as many bytes."""
    first = 0
    while first < len(parts):
        header, start, end, _ = parts[first]
        count, size, behind, step = header.count, end - start, first + 1, 0
        while behind < len(parts):
            other = parts[behind]
            distance = other.start - start
            if other.header.count != count or other.end - other.start != size:
                break
            if behind == first + 1:
                step = distance
            elif distance != step:
                break
            start = other.start
            behind += 1
        if (behind - first) * count >= FEWEST:
            yield Run(first, parts[first:behind], step, [])
        first = behind


def _stretches(payload: bytes, count: int, most: int) -> list[Stretch] | None:
    """Divide the records of a batch into stretches; None if that takes more than so many."""
    found: list[Stretch] = []
    position = delta = 0
    while delta < count:
        stretch = find_stretch(payload, position, delta, count - delta)
        if stretch is None or len(found) == most:
            return None
        found.append(stretch)
        position = stretch.end
        delta += stretch.length
    return found if position == len(payload) else None


def _is_alike(data: Buffer, run: Run) -> bool:
    """Tell whether what was found in the first batch holds for all of them."""
    last_delta = run.parts[0].header.count - 1
    if any(part.header.last_offset_delta < last_delta for part in run.parts):
        return False
    if len(run.parts) == 1:
        return True
    delta = 0
    for stretch in run.stretches:
        for position, kind, mask in _telling(stretch, len(VARINT[delta])):
            told = run.numbers_at(data, stretch, position, kind) & mask
            if (told != told[0]).any():
                return False
        delta += stretch.length
    return True


def _telling(stretch: Stretch, delta_size: int) -> list[tuple[int, _Kind, np.unsignedinteger]]:
    """Return which bits of a record tell where its fields lie, of eight bytes at a time."""
    masks = dict.fromkeys(stretch.same, 0xFF)
    masks |= dict.fromkeys(range(stretch.time, stretch.delta), 0x80)
    masks |= dict.fromkeys(range(stretch.delta, stretch.delta + delta_size), 0xFF)
    told: list[tuple[int, _Kind, np.unsignedinteger]] = []
    behind, last = 0, stretch.position + stretch.size - 8
    for position in sorted(masks):
        if position < behind:
            continue
        if position > last:
            told.append((position, "u1", np.uint8(masks[position])))
        else:
            behind = position + 8
            eight = bytes(masks.get(each, 0) for each in range(position, behind))
            told.append((position, "<u8", np.uint64(int.from_bytes(eight, "little"))))
    return told


def _fields(stretch: Stretch) -> tuple[tuple[int, int], ...]:
    """Return how far behind a record's start key, value and headers begin, and their sizes."""
    return (
        (stretch.key - stretch.position, stretch.key_size),
        (stretch.value - stretch.position, stretch.value_size),
        (stretch.size - 1, 1),
    )


def _column(by_batch: Sequence[int]) -> Integers:
    """Stand what each batch has in a column, as high as there are batches."""
    return np.array(by_batch, np.int64)[:, None]
