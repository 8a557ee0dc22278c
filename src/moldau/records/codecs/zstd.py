"""Zstandard (KIP-110).

The library's contexts are reused through free lists. Their calls release the interpreter lock and
a context serves one call at a time, so it is taken off the list meanwhile; `list.pop` and
`list.append` are atomic, which is all the locking this needs (asking first whether the list is
empty would not be: another thread may take the last in between).
"""

from __future__ import annotations

from typing import Final

import zstandard

from moldau.base.files import Buffer
from moldau.records.codecs.inflating import Inflated, garbage, too_large

LABEL: Final = "zstd"

_DEFAULT_LEVEL: Final = 3
_MAX_WINDOW: Final = 1 << 27
"""The window of level 22, which Java's streaming writer declares however small the data."""
_RLE_BLOCK: Final = 1

_compressors: Final[dict[int, list[zstandard.ZstdCompressor]]] = {}
_decompressors: Final[list[zstandard.ZstdDecompressor]] = []


def compress(data: Buffer, level: int | None) -> bytes:
    """Write one frame that says how large its content is."""
    level = _DEFAULT_LEVEL if level is None else level
    idle = _compressors.setdefault(level, [])
    try:
        context = idle.pop()
    except IndexError:
        context = zstandard.ZstdCompressor(level)
    compressed = context.compress(data)
    idle.append(context)
    return compressed


def decompress(data: Buffer, limit: int) -> bytes:
    """Stream, because Java's frames do not say how large their content is."""
    inflated = Inflated(LABEL, len(data), limit)
    try:
        context = _decompressors.pop()
    except IndexError:
        context = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    try:
        _check_frames(memoryview(data), limit)
        reader = context.stream_reader(data, read_across_frames=True)
        while part := reader.read(inflated.step):
            inflated.add(part)
    except zstandard.ZstdError as error:
        raise garbage(LABEL, error) from error
    finally:
        _decompressors.append(context)
    return inflated.joined()


def _check_frames(view: memoryview, limit: int) -> None:
    """Walk frames and blocks to their end: the streaming reader is silent about a cut one."""
    position = 0
    while position < len(view):
        frame = view[position:]
        facts = zstandard.get_frame_parameters(frame)
        if limit < facts.content_size != zstandard.CONTENTSIZE_UNKNOWN:
            raise too_large(LABEL, limit)
        position += zstandard.frame_header_size(frame)
        last = False
        while not last:
            block = int.from_bytes(view[position : position + 3], "little")
            last = bool(block & 1)
            kind, size = block >> 1 & 3, block >> 3
            position += 3 + (1 if kind == _RLE_BLOCK else size)
            if position > len(view):
                raise garbage(LABEL, "it is cut")
        position += 4 if facts.has_checksum else 0
    if position == 0 or position > len(view):
        raise garbage(LABEL, "it is cut")
