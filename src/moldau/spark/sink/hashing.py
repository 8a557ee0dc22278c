"""The partitions of a whole column of keys: Java's murmur2, over all keys at once.

Pure. Says the same as `engine.murmur2`, which hashes one key in a microsecond and more:
too long for a million rows a second. Here step *i* mixes the *i*-th four bytes of every key that
has so many. Keys are put in order of their length, longest first, so that those are the first
ones of the column at each step; where all are equally long nothing need be moved.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from moldau.engine.murmur2 import murmur2
from moldau.spark.sink.columns import Integers

Hashes = npt.NDArray[np.uint32]

_SEED: Final = np.uint32(0x9747B28C)
_M: Final = np.uint32(0x5BD1E995)
_SHIFT: Final = np.uint32(24)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)

LONG_KEY_SIZE: Final = 256
"""Longer keys are hashed one by one: a single one of a megabyte would cost a quarter of a million
steps, each of them for no other key."""


def hashed_keys(data: npt.NDArray[np.uint8], starts: Integers, sizes: Integers) -> Integers:
    """Hash byte strings in the data; the sign is cleared as Kafka does it."""
    hashes = np.empty(len(sizes), np.uint32)
    is_long = sizes > LONG_KEY_SIZE
    if is_long.any():
        for row in np.flatnonzero(is_long).tolist():
            start = int(starts[row])
            hashes[row] = murmur2(data[start : start + int(sizes[row])].tobytes())
        rows = np.flatnonzero(~is_long)
        hashes[rows] = _hashed(data, starts[rows], sizes[rows])
    else:
        hashes = _hashed(data, starts, sizes)
    return (hashes & _POSITIVE).astype(np.int64)


def _hashed(data: npt.NDArray[np.uint8], starts: Integers, sizes: Integers) -> Hashes:
    if not sizes.size:
        return np.empty(0, np.uint32)
    if sizes[0] == sizes[-1] and sizes.min() == sizes.max():
        return _mixed(data, starts, sizes)
    order = np.argsort(-sizes.astype(np.int16), kind="stable")
    hashes = np.empty(len(sizes), np.uint32)
    hashes[order] = _mixed(data, starts[order], sizes[order])
    return hashes


def _mixed(data: npt.NDArray[np.uint8], starts: Integers, sizes: Integers) -> Hashes:
    """Hash keys that are in order of their length, longest first."""
    hashes = _SEED ^ sizes.astype(np.uint32)
    word_counts = sizes >> 2
    words = _words(data)
    for number in range(int(word_counts[0])):
        active = len(starts) - int(np.searchsorted(word_counts[::-1], number, side="right"))
        mixed = words[starts[:active] + 4 * number] * _M
        mixed ^= mixed >> _SHIFT
        mixed *= _M
        hashes[:active] *= _M
        hashes[:active] ^= mixed
    hashes = _with_tails(hashes, data, starts + 4 * word_counts, sizes & 3)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    return hashes ^ (hashes >> np.uint32(15))


def _words(data: npt.NDArray[np.uint8]) -> Hashes:
    """View the four bytes that begin at each position as a number."""
    return np.ndarray((max(0, len(data) - 3),), np.dtype("<u4"), data, strides=(1,))


def _with_tails(
    hashes: Hashes, data: npt.NDArray[np.uint8], positions: Integers, left: Integers
) -> Hashes:
    """Mix in the one to three bytes that are left of some keys."""
    if not left.any():
        return hashes
    tails = np.zeros(len(hashes), np.uint32)
    for place in range(3):
        rows = np.flatnonzero(left > place)
        tails[rows] |= data[positions[rows] + place].astype(np.uint32) << np.uint32(8 * place)
    with_tail = left > 0
    hashes[with_tail] = (hashes[with_tail] ^ tails[with_tail]) * _M
    return hashes
