"""What is kept of `name=value` pairs: bits of their hashes."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moldau.spark.pipelines.logs.sketches.arrays import bytes_of, offsets_of
from moldau.spark.pipelines.logs.sketches.bits import BITS_MAX, SPREAD, Bits, no_bits

_MIX: Final = 0xFF51AFD7ED558CCD
_U64: Final = (1 << 64) - 1
_PAIR_BITS: Final = 3
_SHORT: Final = 32

Hashes = npt.NDArray[np.uint64]


class PairMarks(NamedTuple):
    """What is to be looked for, if a row is to have a value under a name."""

    places: frozenset[int]
    """Of bits that must be set."""
    short: int
    """What its rows are listed under."""


def pair_marks(name: str, value: str) -> PairMarks:
    """Return what is to be looked for, if a row is to have this value under this name."""
    hashed = _hash(f"{name}={value}".encode())
    places = ((hashed >> (20 * turn)) & (BITS_MAX - 1) for turn in range(_PAIR_BITS))
    return PairMarks(frozenset(places), hashed >> _SHORT)


def pair_bits(hashes: Hashes) -> Bits:
    """Return the bits of pairs."""
    bits = no_bits()
    for turn in range(_PAIR_BITS):
        bits[(hashes >> np.uint64(20 * turn)) & np.uint64(BITS_MAX - 1)] = True
    return bits


def short_hashes(hashes: Hashes) -> Hashes:
    """Return what rows are listed under."""
    return hashes >> np.uint64(_SHORT)


def hashes_of(pairs: pa.Array) -> Hashes:
    """Hash every text: the sum of byte * SPREAD ** place, places from its end on.

    Sums of all texts come from one running sum over the buffer, so that no text costs a step of
    Python's. Sizes take part, as leading zero bytes would not. There may be no null among them.
    """
    if len(pairs) == 0:
        return np.zeros(0, dtype=np.uint64)
    data, ends = bytes_of(pairs), _ends(pairs)
    powers = np.full(len(data) + 1, SPREAD, dtype=np.uint64)
    powers[0] = 1
    np.multiply.accumulate(powers, out=powers)
    inverse = np.full(len(data) + 1, pow(SPREAD, -1, 1 << 64), dtype=np.uint64)
    inverse[0] = 1
    np.multiply.accumulate(inverse, out=inverse)
    running = np.zeros(len(data) + 1, dtype=np.uint64)
    np.cumsum(data.astype(np.uint64) * inverse[:-1], out=running[1:])
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]])
    sums = (running[ends] - running[starts]) * powers[ends]
    mixed: Hashes = sums + (ends - starts).astype(np.uint64)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(_MIX)
    mixed ^= mixed >> np.uint64(33)
    return mixed


def _hash(data: bytes) -> int:
    """Hash one text as `hashes_of` does."""
    found = 0
    for byte in data:
        found = (found + byte) * SPREAD & _U64
    found = found + len(data) & _U64
    found ^= found >> 33
    found = found * _MIX & _U64
    return found ^ found >> 33


def _ends(texts: pa.Array) -> npt.NDArray[np.int64]:
    offsets = offsets_of(texts).astype(np.int64)
    ends: npt.NDArray[np.int64] = offsets[1:] - offsets[0]
    return ends
