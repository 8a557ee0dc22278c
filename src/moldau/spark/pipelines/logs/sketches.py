"""What a group of rows certainly does not hold: small bit sets, asked before rows are read.

A search for a text that occurs nowhere would have to read everything. So beside a large file lies a
sketch of each of its row groups, made of four sets of bits:

    grams    every four bytes in a row of the messages and stacks
    pieces   of words of ten letters and digits or more: some pieces of six
    numbers  every five digits in a row
    pairs    every `name=value` of the fields, and of the columns that are searched by value

A text can only occur where all its grams, pieces and numbers do. Bits say "perhaps" or "certainly
not"; rows that are passed over cannot match, and those that are read are compared as without
sketches. Letters of ASCII are in lower case, so that a search in either case can use them too.

Ids of random digits set nearly all grams of digits; pieces are for these. To keep all of them would
take as much room as the ids, so of any five that follow each other only the one with the least hash
is kept. It is the same one wherever these ten characters occur, hence the part of an id is found in
the whole. Shorter numbers, of orders or of users, are told apart by five of their digits.

Pure: bytes in, bytes out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

GRAM_SIZE: Final = 4
"""Three bytes are not rare enough in a row group of many messages, five make twice the bits."""

BITS_MAX: Final = 1 << 20
BITS_MIN: Final = 1 << 10
FILLED_MAX: Final = 0.4
"""A set is folded in half as long as no more of its bits are set than this. Words have several
grams that are rare, and four tenths to the power of three or four is little."""

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

_MAGIC: Final = b"MLS2"
_HEAD: Final = struct.Struct("<4sII")
_SIZES: Final = struct.Struct("<IIII")

_SPREAD: Final = 0x9E3779B1
_BASE: Final = 0x9E3779B97F4A7C15
_MIX: Final = 0xFF51AFD7ED558CCD
_U64: Final = (1 << 64) - 1
_PAIR_BITS: Final = 3
_NINE: Final = np.uint8(9)

_LOWER: Final = np.array([ord(chr(one).lower()) if one < 128 else one for one in range(256)],
                         dtype=np.uint8)  # fmt: skip

_IN_WORD: Final = np.array([one < 128 and chr(one).isalnum() for one in range(256)])

Bits = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Packed = bytes | memoryview
"""Bits, eight to a byte; those of a file are views of it, as few of them are ever looked at."""


class TextMarks(NamedTuple):
    """The places of the bits that a text must have set."""

    grams: frozenset[int]
    pieces: frozenset[int]
    numbers: frozenset[int]


def text_marks(runs: Iterable[str]) -> TextMarks:
    """Return what is to be looked for, if all these texts are to occur."""
    texts = [_LOWER[np.frombuffer(run.encode(), dtype=np.uint8)] for run in runs]
    return TextMarks(
        frozenset(int(one) for text in texts for one in _grams(text)),
        frozenset(int(one) for text in texts for one in _pieces(text)),
        frozenset(int(one) for text in texts for one in _numbers(text)),
    )


def pair_marks(name: str, value: str) -> frozenset[int]:
    """Return the places of the bits that a value under a name must have set."""
    return frozenset(_pair_places(f"{name}={value}"))


class Sketch(NamedTuple):
    """What is known of a row group."""

    grams: Packed
    pieces: Packed
    numbers: Packed
    pairs: Packed

    def may_hold_text(self, marks: TextMarks) -> bool:
        """Tell whether texts may occur."""
        return (
            _all_set(self.numbers, marks.numbers)
            and _all_set(self.pieces, marks.pieces)
            and _all_set(self.grams, marks.grams)
        )

    def may_hold_pair(self, marks: frozenset[int]) -> bool:
        """Tell whether a row may have a value under a name."""
        return _all_set(self.pairs, marks)


def sketch_of(texts: Sequence[pa.Array], pairs: pa.Array) -> Sketch:
    """Return the sketch of a row group, from its texts and its `name=value` pairs."""
    grams, pieces, numbers = _no_bits(), _no_bits(), _no_bits(NUMBER_BITS)
    for text in texts:
        lower = _LOWER[_bytes_of(text)]
        grams[_grams(lower)] = True
        pieces[_pieces(lower)] = True
        numbers[_numbers(lower)] = True
    return Sketch(
        _packed(grams),
        _packed(pieces),
        _packed(numbers, NUMBERS_FILLED_MAX),
        _packed(_pair_bits(pairs)),
    )


# Grams, pieces and numbers


def _grams(lower: Bytes) -> npt.NDArray[np.uint32]:
    """Return the bits of every four bytes of a text.

    First of those at 0, 4, 8..., then of those at 1, 5, 9...: so each is read as one number.
    """
    starts = range(min(GRAM_SIZE, len(lower) - GRAM_SIZE + 1))
    read = [np.frombuffer(lower, "<u4", (len(lower) - start) // 4, start) for start in starts]
    gram = np.concatenate(read, dtype=np.uint32) if read else np.zeros(0, dtype=np.uint32)
    bits: npt.NDArray[np.uint32] = (gram * np.uint32(_SPREAD)) >> np.uint32(12)
    return bits


def _pieces(lower: Bytes) -> npt.NDArray[np.uint64]:
    """Return the bits of the pieces of long words that are kept."""
    places = _places_of_pieces(lower)
    if len(places) == 0:
        return np.zeros(0, dtype=np.uint64)
    hashed = np.zeros(len(places), dtype=np.uint64)
    for byte in range(PIECE_SIZE):
        hashed |= lower[places + byte].astype(np.uint64) << np.uint64(8 * byte)
    hashed = (hashed * np.uint64(_BASE)) >> np.uint64(20)
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


# Pairs


def _pair_bits(pairs: pa.Array) -> Bits:
    bits = _no_bits()
    unique = pc.unique(pairs).drop_null()
    if len(unique) == 0:
        return bits
    hashes = _hashes(_bytes_of(unique), _ends(unique))
    for turn in range(_PAIR_BITS):
        bits[(hashes >> np.uint64(20 * turn)) & np.uint64(BITS_MAX - 1)] = True
    return bits


def _hashes(data: Bytes, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hash every text of a buffer: the sum of byte * BASE ** place, places from its end on.

    Sums of all texts come from one running sum over the buffer, so that no text costs a step of
    Python's. Sizes take part, as leading zero bytes would not.
    """
    powers = np.full(len(data) + 1, _BASE, dtype=np.uint64)
    powers[0] = 1
    np.multiply.accumulate(powers, out=powers)
    inverse = np.full(len(data) + 1, pow(_BASE, -1, 1 << 64), dtype=np.uint64)
    inverse[0] = 1
    np.multiply.accumulate(inverse, out=inverse)
    running = np.zeros(len(data) + 1, dtype=np.uint64)
    np.cumsum(data.astype(np.uint64) * inverse[:-1], out=running[1:])
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]])
    sums = (running[ends] - running[starts]) * powers[ends]
    mixed: npt.NDArray[np.uint64] = sums + (ends - starts).astype(np.uint64)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(_MIX)
    mixed ^= mixed >> np.uint64(33)
    return mixed


def _pair_places(text: str) -> Iterator[int]:
    found = 0
    data = text.encode()
    for byte in data:
        found = (found + byte) * _BASE & _U64
    found = found + len(data) & _U64
    found ^= found >> 33
    found = found * _MIX & _U64
    found ^= found >> 33
    for turn in range(_PAIR_BITS):
        yield (found >> (20 * turn)) & (BITS_MAX - 1)


# Bits


def _packed(bits: Bits, filled_max: float = FILLED_MAX) -> bytes:
    while len(bits) > BITS_MIN:
        half = len(bits) // 2
        folded = bits[:half] | bits[half:]
        if np.count_nonzero(folded) > filled_max * half:
            break
        bits = folded
    return np.packbits(bits, bitorder="little").tobytes()


def _no_bits(count: int = BITS_MAX) -> Bits:
    return np.zeros(count, dtype=np.bool_)


def _all_set(packed: Packed, places: Iterable[int]) -> bool:
    last = len(packed) * 8 - 1
    return all(packed[(place & last) >> 3] >> (place & 7) & 1 for place in places)


def _bytes_of(texts: pa.Array) -> Bytes:
    """Return the bytes of all texts, one after the other, without a copy."""
    data = texts.buffers()[2]
    if data is None or len(texts) == 0:
        return np.zeros(0, dtype=np.uint8)
    offsets = _offsets(texts)
    return np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]


def _ends(texts: pa.Array) -> npt.NDArray[np.int64]:
    offsets = _offsets(texts).astype(np.int64)
    ends: npt.NDArray[np.int64] = offsets[1:] - offsets[0]
    return ends


def _offsets(texts: pa.Array) -> npt.NDArray[np.int32]:
    return np.frombuffer(texts.buffers()[1], dtype=np.int32)[
        texts.offset : texts.offset + len(texts) + 1
    ]


# Files


def sketch_place(path: str) -> str:
    """Return the path of a file's sketches; readers of the folder pass over such names."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}_{name.removesuffix('.parquet')}.sketch"


def packed_sketches(sketches: Sequence[Sketch], row_count: int) -> bytes:
    """Write the sketches of a file's row groups."""
    parts: list[Packed] = [_HEAD.pack(_MAGIC, len(sketches), row_count)]
    parts += [_SIZES.pack(*map(len, one)) for one in sketches]
    parts += [part for one in sketches for part in one]
    return b"".join(parts)


def unpacked_sketches(data: Packed, group_count: int, row_count: int) -> list[Sketch] | None:
    """Read the sketches of a file; None if these are not the ones of a file with such counts."""
    view = memoryview(data)
    try:
        if _HEAD.unpack_from(view) != (_MAGIC, group_count, row_count):
            return None
        place = _HEAD.size + group_count * _SIZES.size
        found = []
        for number in range(group_count):
            parts = []
            for size in _SIZES.unpack_from(view, _HEAD.size + number * _SIZES.size):
                parts.append(view[place : place + size])
                place += size
            found.append(Sketch(*parts))
    except struct.error:
        return None
    return found if place == len(view) else None
