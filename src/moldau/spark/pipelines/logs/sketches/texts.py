"""What is kept of texts: bits of their triples, grams, pieces and numbers.

Ids of random digits set nearly all grams of digits; pieces are for these. To keep all of them would
take as much room as the ids, so of any five that follow each other only the one with the least hash
is kept. It is the same one wherever these ten characters occur, hence the part of an id is found in
the whole. Shorter numbers, of orders or of users, are told apart by five of their digits.

Short words have few grams or none; triples are for these. They know the letters, the digits, and
one kind for all other bytes, so that every triple has a bit of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moldau.spark.pipelines.logs.sketches.arrays import bytes_of
from moldau.spark.pipelines.logs.sketches.bits import (
    BITS_MAX,
    SPREAD,
    Packed,
    all_set,
    folded,
    no_bits,
    packed,
)

TRIPLE_SIZE: Final = 3
TRIPLE_BITS: Final = 1 << 16
"""As many as two bytes have numbers; letters, digits and the rest have less than that."""
KINDS: Final = 26 + 10 + 1
_OPENING_SIZE: Final = 2
_OTHER: Final = np.uint8(0)

GRAM_SIZE: Final = 4
"""Three bytes are not rare enough in a row group of many messages, five make twice the bits."""

PIECE_SIZE: Final = 6
PIECES_BESIDE: Final = 5
"""Of so many pieces one is kept: texts of fewer than ten characters have none."""
WORD_SIZE_MIN: Final = PIECE_SIZE + PIECES_BESIDE - 1

NUMBER_SIZE: Final = 5
"""Of four digits in a row a row group has nearly all there are, of five a part."""
NUMBER_BITS: Final = 1 << 17
"""One for each of them."""
NUMBERS_FILLED_MAX: Final = 0.1
"""Many numbers have but one place of five digits, which has to be rare by itself."""

_SPREAD_32: Final = 0x9E3779B1
_NINE: Final = np.uint8(9)

_LOWER: Final = np.array([ord(chr(one).lower()) if one < 128 else one for one in range(256)],
                         dtype=np.uint8)  # fmt: skip

_KIND: Final = np.array([1 + b"0123456789abcdefghijklmnopqrstuvwxyz".find(one)
                         for one in range(256)], dtype=np.uint8)  # fmt: skip
"""Of a byte in lower case; what is neither a letter nor a digit is of kind 0."""

_IN_WORD: Final = np.array([one < 128 and chr(one).isalnum() for one in range(256)])

Bytes = npt.NDArray[np.uint8]


class TextMarks(NamedTuple):
    """The places of the bits that texts must have set."""

    triples: frozenset[int]
    openings: frozenset[int]
    """Of two bytes: any triple that begins with them must be set, the first being here."""
    grams: frozenset[int]
    pieces: frozenset[int]
    numbers: frozenset[int]


class TextBits(NamedTuple):
    """What is kept of the texts of a row group."""

    triples: Packed
    grams: Packed
    pieces: Packed
    numbers: Packed

    def may_hold(self, marks: TextMarks) -> bool:
        """Tell whether texts may occur, by the smallest set first."""
        return (
            all_set(self.triples, marks.triples)
            and all(map(self._has_triple_with, marks.openings))
            and all_set(self.numbers, marks.numbers)
            and all_set(self.pieces, marks.pieces)
            and all_set(self.grams, marks.grams)
        )

    def _has_triple_with(self, opening: int) -> bool:
        return any(all_set(self.triples, [opening + kind]) for kind in range(KINDS))


def text_marks(runs: Iterable[str]) -> TextMarks:
    """Return what is to be looked for, if all these texts are to occur."""
    texts = [_LOWER[np.frombuffer(run.encode(), dtype=np.uint8)] for run in runs]
    return TextMarks(
        _places(_triples, texts),
        frozenset(_opening(text) for text in texts if len(text) == _OPENING_SIZE),
        _places(_grams, texts),
        _places(_pieces, texts),
        _places(_numbers, texts),
    )


def text_bits(texts: Iterable[pa.Array]) -> TextBits:
    """Return what is to be kept of texts."""
    triples, grams, pieces = no_bits(TRIPLE_BITS), no_bits(), no_bits()
    numbers = no_bits(NUMBER_BITS)
    for text in texts:
        lower = _LOWER[bytes_of(text)]
        # So that the last two bytes begin a triple too.
        triples[_triples(np.append(lower, _OTHER))] = True
        grams[_grams(lower)] = True
        pieces[_pieces(lower)] = True
        numbers[_numbers(lower)] = True
    return TextBits(
        packed(triples), folded(grams), folded(pieces), folded(numbers, NUMBERS_FILLED_MAX)
    )


def _places(
    bits_of: Callable[[Bytes], npt.NDArray[np.generic]], texts: Iterable[Bytes]
) -> frozenset[int]:
    return frozenset(one for text in texts for one in bits_of(text).tolist())


# Triples, grams, pieces and numbers


def _triples(lower: Bytes) -> npt.NDArray[np.uint16]:
    """Return the bits of every three bytes of a text."""
    kinds = _KIND[lower]
    count = max(len(kinds) - TRIPLE_SIZE + 1, 0)
    bits = np.zeros(count, dtype=np.uint16)
    for place in range(TRIPLE_SIZE):
        bits *= np.uint16(KINDS)
        bits += kinds[place : place + count]
    return bits


def _opening(lower: Bytes) -> int:
    """Return the first of the bits of triples that begin with two bytes."""
    first, second = _KIND[lower].tolist()
    return int(first * KINDS + second) * KINDS


def _grams(lower: Bytes) -> npt.NDArray[np.uint32]:
    """Return the bits of every four bytes of a text.

    First of those at 0, 4, 8..., then of those at 1, 5, 9...: so each is read as one number.
    """
    starts = range(min(GRAM_SIZE, len(lower) - GRAM_SIZE + 1))
    read = [np.frombuffer(lower, "<u4", (len(lower) - start) // 4, start) for start in starts]
    gram = np.concatenate(read, dtype=np.uint32) if read else np.zeros(0, dtype=np.uint32)
    bits: npt.NDArray[np.uint32] = (gram * np.uint32(_SPREAD_32)) >> np.uint32(12)
    return bits


def _pieces(lower: Bytes) -> npt.NDArray[np.uint64]:
    """Return the bits of the pieces of long words that are kept."""
    places = _places_of_pieces(lower)
    if len(places) == 0:
        return np.zeros(0, dtype=np.uint64)
    hashed = np.zeros(len(places), dtype=np.uint64)
    for byte in range(PIECE_SIZE):
        hashed |= lower[places + byte].astype(np.uint64) << np.uint64(8 * byte)
    hashed = (hashed * np.uint64(SPREAD)) >> np.uint64(20)
    beside = PIECES_BESIDE - 1
    least = hashed[:-beside]
    for shift in range(1, PIECES_BESIDE):
        least = np.minimum(least, hashed[shift : len(hashed) - beside + shift])
    in_one_word = places[beside:] - places[:-beside] == beside
    bits: npt.NDArray[np.uint64] = least[in_one_word] & np.uint64(BITS_MAX - 1)
    return bits


def _places_of_pieces(data: Bytes) -> npt.NDArray[np.int64]:
    """Return where pieces of long words begin, in order."""
    none = np.int8(0)  # of the same size: else numpy makes eight bytes of each
    edges = np.flatnonzero(np.diff(_IN_WORD[data].astype(np.int8), prepend=none, append=none))
    starts, ends = edges[::2], edges[1::2]
    is_long = ends - starts >= WORD_SIZE_MIN
    starts, counts = starts[is_long], (ends - starts)[is_long] - PIECE_SIZE + 1
    before = np.cumsum(counts) - counts
    places: npt.NDArray[np.int64] = np.repeat(starts - before, counts) + np.arange(counts.sum())
    return places


def _numbers(data: Bytes) -> npt.NDArray[np.int64]:
    """Return the bits of every five digits in a row: the number that they are."""
    count = max(len(data) - NUMBER_SIZE + 1, 0)
    digits = data - np.uint8(ord("0"))  # what is none is larger than nine, and wraps around
    is_number = np.ones(count, dtype=np.bool_)
    for place in range(NUMBER_SIZE):
        is_number &= digits[place : place + count] <= _NINE
    places = np.flatnonzero(is_number)
    found = np.zeros(len(places), dtype=np.int64)
    for place in range(NUMBER_SIZE):
        found = found * 10 + digits[places + place]
    return found
