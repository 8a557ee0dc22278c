"""Sets of bits: as large as they have to be for what is set in them, eight to a byte."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

BITS_MAX: Final = 1 << 20
BITS_MIN: Final = 1 << 10
FILLED_MAX: Final = 0.4
"""A set is folded in half as long as no more of its bits are set than this. Words have several
grams that are rare, and four tenths to the power of three or four is little."""

SPREAD: Final = 0x9E3779B97F4A7C15
"""What hashes multiply by: odd, and with ones and zeros well mixed."""

Bits = npt.NDArray[np.bool_]
Packed = bytes | memoryview
"""What is written; of a file these are views of it, as few of them are ever looked at."""


def no_bits(count: int = BITS_MAX) -> Bits:
    """Return bits of which none is set."""
    return np.zeros(count, dtype=np.bool_)


def folded(bits: Bits, filled_max: float = FILLED_MAX) -> bytes:
    """Pack bits into as few bytes as may be; how many there are is a power of two."""
    while len(bits) > BITS_MIN:
        half = len(bits) // 2
        smaller = bits[:half] | bits[half:]
        if np.count_nonzero(smaller) > filled_max * half:
            break
        bits = smaller
    return packed(bits)


def packed(bits: Bits) -> bytes:
    """Pack bits as many as they are."""
    return np.packbits(bits, bitorder="little").tobytes()


def are_folded(sizes: npt.NDArray[np.int64]) -> bool:
    """Tell whether sets of bits may all have so many bytes."""
    return bool(np.all((sizes * 8 >= BITS_MIN) & (sizes & (sizes - 1) == 0)))


def all_set(bits: Packed, places: Iterable[int]) -> bool:
    """Tell whether all these places are set, in bits that may have been folded."""
    last = len(bits) * 8 - 1
    return all(bits[(place & last) >> 3] >> (place & 7) & 1 for place in places)
