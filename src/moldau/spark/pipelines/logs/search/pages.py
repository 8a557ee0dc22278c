"""Whether texts occur in a column of a row group, told from its bytes.

To make an array of a column, Arrow decompresses its pages and takes them apart, value by value. Who
only asks whether a text occurs at all needs the first half of that: a value lies in its page in one
piece, with its size before it. So pages are gone through as if each were one text. What is found
may not be a value, or not one of a row, but what is not found does not occur.

This holds for values as they are and for dictionaries of them, and for nothing else; pages of
another form, and ones that cannot be made sense of, count as if they held everything. Then the rows
are read, and who reads them knows more about what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from moldau.spark.pipelines.logs.search.patterns import Probe

_IN_ONE_PIECE: Final = frozenset(
    {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
)
"""Encodings that leave values as they are; the last two are those of levels."""

_CODECS: Final = {"LZ4": "lz4_raw", "ZSTD": "zstd", "SNAPPY": "snappy", "GZIP": "gzip"}
_UNCOMPRESSED: Final = "UNCOMPRESSED"

# Fields and kinds of Parquet's PageHeader.
_KIND, _SIZE_AFTER, _SIZE = 1, 2, 3
_DATA_V1, _DICTIONARY = 0, 2
_SAMPLE_SIZE: Final = 4096
"""Some dozens of messages, counted in the time in which a page is searched a hundredth."""

_DEPTH_MAX: Final = 3
"""A header holds a header of its kind of page, and that holds statistics."""


class _StrangeError(Exception):
    """A page has a form that is not known here."""


def absent(data: pa.Buffer, column: pq.ColumnChunkMetaData, probes: Iterable[Probe]) -> set[Probe]:
    """Return what no value of a column matches for certain; `data` is the file."""
    missing = set(probes)
    if not missing or not _IN_ONE_PIECE.issuperset(column.encodings):
        return set()
    try:
        for page in _pages(data, column):
            missing = {probe for probe in missing if not _may_match(page, probe)}
            if not missing:
                break
    except (_StrangeError, LookupError, ValueError, OSError):
        return set()
    return missing


def _may_match(page: pa.Buffer, probe: Probe) -> bool:
    return all(find(page, pattern) >= 0 for pattern in attempts(page, probe))


def attempts(texts: pa.Buffer, probe: Probe) -> Iterator[str]:
    """Yield patterns that match where a probe does: first one that is quick to find, then its own.

    RE2 looks for the first byte of a text with the fastest loop there is, and with a slow one
    whether that goes on as it should. So the literal is looked for from its rarest character on.
    How often each occurs is told by the beginning of the texts.
    """
    if probe.literal:
        sample = np.frombuffer(texts, dtype=np.uint8, count=min(texts.size, _SAMPLE_SIZE))
        counts = np.bincount(sample, minlength=256)
        seldom = [counts[letter.encode()[0]] for letter in probe.literal]
        yield re.escape(probe.literal[int(np.argmin(seldom)) :])
    yield probe.pattern


def find(texts: pa.Buffer, pattern: str) -> int:
    """Return where a pattern matches first, in bytes that are taken for one text; -1 if nowhere."""
    ends = pa.py_buffer(np.array([0, texts.size], dtype=np.int64))
    one = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, texts])
    return int(pc.find_substring_regex(one, pattern)[0].as_py())


def _pages(data: pa.Buffer, column: pq.ColumnChunkMetaData) -> Iterator[pa.Buffer]:
    """Yield the pages of a column, decompressed."""
    start = column.data_page_offset
    if column.has_dictionary_page:
        start = min(start, column.dictionary_page_offset)
    chunk = data.slice(start, column.total_compressed_size)
    view = memoryview(chunk).cast("B")
    codec = None
    if column.compression != _UNCOMPRESSED:
        codec = pa.Codec(_CODECS[column.compression])
    place = 0
    while place < len(view):
        header, place = _struct(view, place)
        if (
            header[_KIND] not in (_DATA_V1, _DICTIONARY)
            or not 0 <= header[_SIZE] <= len(view) - place
            or not 0 <= header[_SIZE_AFTER] <= column.total_uncompressed_size
        ):
            raise _StrangeError
        page = chunk.slice(place, header[_SIZE])
        yield page if codec is None else codec.decompress(page, header[_SIZE_AFTER])
        place += header[_SIZE]


# Thrift's compact protocol


def _struct(view: memoryview, place: int, depth: int = 1) -> tuple[dict[int, Any], int]:
    """Read the numbers of a struct, by field; return them and the place after it."""
    found: dict[int, Any] = {}
    field = 0
    while head := view[place]:
        place += 1
        kind = head & 15
        if head >> 4:
            field += head >> 4
        else:
            field, place = _number(view, place)
        if kind in (4, 5, 6):
            found[field], place = _number(view, place)
        elif kind == 8:
            size, place = _varint(view, place)
            place += size
        elif kind == 12 and depth < _DEPTH_MAX:
            found[field], place = _struct(view, place, depth + 1)
        elif kind not in (1, 2):  # the two booleans, which have no bytes of their own
            raise _StrangeError
    return found, place + 1


def _number(view: memoryview, place: int) -> tuple[int, int]:
    value, place = _varint(view, place)
    return (value >> 1) ^ -(value & 1), place


def _varint(view: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place
