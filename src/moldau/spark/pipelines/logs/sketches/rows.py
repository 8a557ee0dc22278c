"""Which rows have a field's value, for values that are likely to occur in other groups as well.

Two values may both occur in every row group and never in one row; bits cannot tell. So rows are
listed by the pair. A pair that occurs once is not worth it where most values of its field do (ids):
it is rare, which bits do tell. One that very many rows have takes bits, one for each row.

A list is found by the upper half of the pair's hash, so it may hold rows of another pair; all rows
of the pair are in it. What does not make sense counts as if nothing were listed.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moldau.spark.pipelines.logs.sketches.bits import Packed, packed
from moldau.spark.pipelines.logs.sketches.pairs import Hashes

REPEATED: Final = 2
"""So often a pair occurs that is listed in any case, and those of a field on average otherwise."""
ROWS_MAX: Final = 1 << 16
"""A row is told by two bytes."""
_ROW_BITS: Final = 16

_HEAD: Final = struct.Struct("<III")
"""How many rows the group has, how many pairs are listed, and how many have bits."""

Numbers = npt.NDArray[np.int64]
RowMask = npt.NDArray[np.bool_]
"""One for each row of a group."""


class FieldPairs(NamedTuple):
    """The `name=value` of every field of a group of rows."""

    pairs: pa.Array
    """With nulls for fields without a value."""
    names: Numbers
    """A number for the name of each."""
    rows: Numbers
    """The row of each."""
    row_count: int


def are_repeated(pairs: Numbers, names: Numbers) -> RowMask:
    """Tell of every pair of a group whether those of its name occur several times on average.

    Both are told by numbers from zero on, one of each for every time that a pair occurs. A pair of
    two names, as `a=b=c` is, counts for one of them; the other may be left without any.
    """
    name_of = np.zeros(pairs.max(initial=-1) + 1, dtype=np.int64)
    name_of[pairs] = names
    occurring = np.bincount(names)
    distinct = np.bincount(name_of, minlength=len(occurring))
    repeated: RowMask = occurring >= REPEATED * distinct
    return repeated[names]


def listed_rows(shorts: Hashes, rows: Numbers, repeated: RowMask, row_count: int) -> bytes:
    """Write the rows of pairs: the hash, the row and what is known of each that occurs.

    Nothing is listed in a group of more rows than two bytes can tell.
    """
    if row_count > ROWS_MAX or len(rows) == 0:
        return b""
    entries = (shorts << np.uint64(_ROW_BITS)) | rows.astype(np.uint64)
    entries = np.sort((entries << np.uint64(1)) | repeated.astype(np.uint64))
    numbers = (entries >> np.uint64(1)).astype(np.uint16)
    pairs, starts, counts = np.unique(
        entries >> np.uint64(_ROW_BITS + 1), return_index=True, return_counts=True
    )
    is_kept = (counts >= REPEATED) | (np.bitwise_or.reduceat(entries, starts) & np.uint64(1) > 0)
    words = _words(row_count)
    is_long = is_kept & (counts >= words)
    is_listed = is_kept & ~is_long
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
    return packed(bits)
