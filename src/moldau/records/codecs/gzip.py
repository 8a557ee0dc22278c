"""gzip, with the interpreter's own zlib."""

from __future__ import annotations

import zlib
from typing import Final

from moldau.base.files import Buffer
from moldau.records.codecs.inflating import Inflated, garbage

LABEL: Final = "gzip"

_WBITS: Final = 31
"""The largest window, in gzip's wrapping."""
_CHUNK_SIZE: Final = 64 * 1024
"""What follows a member is copied by the library, so a million tiny ones must not see it all."""


def compress(data: Buffer, level: int | None) -> bytes:
    """Write one gzip member."""
    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _WBITS)
    return compressor.compress(data) + compressor.flush()


def decompress(data: Buffer, limit: int) -> bytes:
    """Read one gzip member or, as the format allows, several."""
    inflated = Inflated(LABEL, len(data), limit)
    view = memoryview(data)
    position = _inflate_member(view, 0, inflated)
    while position < len(view):
        position = _inflate_member(view, position, inflated)
    return inflated.joined()


def _inflate_member(view: memoryview, position: int, inflated: Inflated) -> int:
    """Inflate one member; return the position behind it."""
    member = zlib.decompressobj(_WBITS)
    try:
        while not member.eof:
            chunk: Buffer = member.unconsumed_tail
            if not chunk:
                chunk = view[position : position + _CHUNK_SIZE]
                position += len(chunk)
            part = member.decompress(chunk, inflated.step)
            if not part and not chunk:
                raise garbage(LABEL, "it is cut")
            inflated.add(part)
    except zlib.error as error:
        raise garbage(LABEL, error) from error
    return position - len(member.unused_data)
