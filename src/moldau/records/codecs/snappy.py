"""snappy, in the framing that snappy-java gave it (xerial's)."""

from __future__ import annotations

from struct import Struct
from typing import Final

import cramjam

from moldau.base.files import Buffer
from moldau.records.codecs.inflating import garbage, too_large

LABEL: Final = "snappy"

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
"""What snappy-java writes; its readers take any size."""
_BLOCK_LENGTH: Final = Struct(">i")
_MAX_RATIO: Final = 32
"""Three bytes of snappy copy at most 64: a block that promises more than this is a lie."""


def compress(data: Buffer, _level: int | None) -> bytes:
    """Write snappy-java's framing, which every reader of Kafka's batches knows."""
    view = memoryview(data)
    parts: list[Buffer] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE])
        parts += (_BLOCK_LENGTH.pack(len(block)), memoryview(block))
    return b"".join(parts)


def decompress(data: Buffer, limit: int) -> bytes:
    """Read snappy-java's framing, or one bare block as librdkafka once wrote it."""
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _inflate_block(view, limit)
    if len(view) < len(_XERIAL_HEADER):
        raise garbage(LABEL, "its header is cut")
    parts = []
    position, room = len(_XERIAL_HEADER), limit
    while position < len(view):
        if len(view) - position < _BLOCK_LENGTH.size:
            raise garbage(LABEL, "a block length is cut")
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += _BLOCK_LENGTH.size
        if not 0 < length <= len(view) - position:
            raise garbage(LABEL, f"a block of {length} bytes, {len(view) - position} left")
        part = _inflate_block(view[position : position + length], room)
        parts.append(part)
        position += length
        room -= len(part)
    return b"".join(parts)


def _inflate_block(block: memoryview, limit: int) -> bytes:
    try:
        promised = cramjam.snappy.decompress_raw_len(block)
        if promised > limit:
            raise too_large(LABEL, limit)
        if promised > len(block) * _MAX_RATIO:
            raise garbage(LABEL, f"{len(block)} bytes cannot become {promised}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise garbage(LABEL, error) from error
