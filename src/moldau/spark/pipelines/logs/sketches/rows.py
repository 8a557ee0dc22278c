"""Which rows have a field's value, for values that occur more than once in a group.

Two values may both occur in every row group and never in one row; bits cannot tell. So rows are
listed by the pair. A pair that occurs once is not worth it: it is rare, which bits do tell, and
most pairs are of this kind (ids). One that very many rows have takes bits, one for each row.

A list is found by the upper half of the pair's hash, so it may hold rows of another pair; all rows
of the pair are in it. What does not make sense counts as if nothing were listed.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moldau.spark.pipelines.logs.sketches.bits import Packed
from moldau.spark.pipelines.logs.sketches.pairs import Hashes

LISTED_MIN: Final = 2
ROWS_MAX: Final = 1 << 16
"""A row is told by two bytes."""
_ROW_BITS: Final = 16

_HEAD: Final = struct.Struct("<III")
"""How many rows the group has, how many pairs are listed, and how many have bits."""

RowMask = npt.NDArray[np.bool_]
"""One for each row of a group."""


class FieldPairs(NamedTuple):
    """The `name=value` of every field of a group of rows."""

    pairs: pa.Array
    """With nulls for fields without a value."""
    rows: npt.NDArray[np.int64]
    """The row of each."""
    row_count: int


def listed_rows(shorts: Hashes, rows: npt.NDArray[np.int64], row_count: int) -> bytes:
    """Write the rows of pairs that occur more than once; `shorts` has the pair of each row.

    Nothing is listed in a group of more rows than two bytes can tell.
    """
    if row_count > ROWS_MAX:
        return b""
    both = np.sort((shorts << np.uint64(_ROW_BITS)) | rows.astype(np.uint64))
    pairs, starts, counts = np.unique(
        both >> np.uint64(_ROW_BITS), return_index=True, return_counts=True
    )
    numbers = both.astype(np.uint16)
    words = _words(row_count)
    is_long = counts >= max(words, LISTED_MIN)
    is_listed = (counts >= LISTED_MIN) & ~is_long
    long = [_as_bits(numbers[start : start + count], words)
            for start, count in zip(starts[is_long], counts[is_long], strict=True)]  # fmt: skip
    return b"".join((
        _HEAD.pack(row_count, int(is_listed.sum()), len(long)),
        pairs[is_listed].astype("<u4").tobytes(),
        pairs[is_long].astype("<u4").tobytes(),
        counts[is_listed].astype("<u2").tobytes(),
        *long,
        numbers[np.repeat(is_listed, counts)].astype("<u2").tobytes(),
    ))  # fmt: skip


def rows_of(listed: Packed, short: int, row_count: int) -> RowMask | None:
    """Tell which rows of a group may have a pair; None if they are not listed."""
    try:
        return _rows_of(listed, short, row_count)
    except (ValueError, IndexError, struct.error):
        return None


def _rows_of(listed: Packed, short: int, row_count: int) -> RowMask | None:
    told_count, list_count, long_count = _HEAD.unpack_from(listed)
    if told_count != row_count:
        return None
    words = _words(row_count)
    long_at = _HEAD.size + list_count * 4
    counts_at = long_at + long_count * 4
    bits_at = counts_at + list_count * 2
    rows_at = bits_at + long_count * words * 2
    place = _place_of(short, np.frombuffer(listed, "<u4", list_count, _HEAD.size))
    if place is not None:
        counts = np.frombuffer(listed, "<u2", place + 1, counts_at)
        before = int(counts[:-1].sum())
        mask = np.zeros(row_count, dtype=np.bool_)
        mask[np.frombuffer(listed, "<u2", int(counts[-1]), rows_at + before * 2)] = True
        return mask
    place = _place_of(short, np.frombuffer(listed, "<u4", long_count, long_at))
    if place is not None:
        bits = np.frombuffer(listed, np.uint8, words * 2, bits_at + place * words * 2)
        return np.unpackbits(bits, count=row_count, bitorder="little").view(np.bool_)
    return None


def _place_of(short: int, pairs: npt.NDArray[np.uint32]) -> int | None:
    place = int(np.searchsorted(pairs, np.uint32(short)))
    return place if place < len(pairs) and pairs[place] == short else None


def _words(row_count: int) -> int:
    """Return how many numbers of two bytes have a bit for each row."""
    return -(-row_count // _ROW_BITS)


def _as_bits(rows: npt.NDArray[np.uint16], words: int) -> bytes:
    bits = np.zeros(words * _ROW_BITS, dtype=np.bool_)
    bits[rows] = True
    return np.packbits(bits, bitorder="little").tobytes()
