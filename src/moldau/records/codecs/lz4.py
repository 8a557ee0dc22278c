"""LZ4 frames, as KIP-57 wants them since magic 1."""

from __future__ import annotations

from typing import Final

import lz4.frame

from moldau.base.files import Buffer
from moldau.records.codecs.inflating import Inflated, garbage

LABEL: Final = "lz4"

_FAST_LEVEL: Final = 9
"""Java's default: the fast compressor. Any other level means the high compression one (KIP-390)."""


def compress(data: Buffer, level: int | None) -> bytes:
    """Write a frame that Java can read: independent blocks of 64 KiB, no content size (KIP-57)."""
    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None or level == _FAST_LEVEL else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def decompress(data: Buffer, limit: int) -> bytes:
    """Read one frame; nothing may follow it."""
    inflated = Inflated(LABEL, len(data), limit)
    frame = lz4.frame.LZ4FrameDecompressor()
    rest: Buffer = data
    try:
        while not frame.eof:
            if frame.needs_input and not rest:
                raise garbage(LABEL, "it is cut")
            part = frame.decompress(rest, inflated.step)
            rest = b""
            inflated.add(part)
    except RuntimeError as error:
        raise garbage(LABEL, error) from error
    if frame.unused_data:
        raise garbage(LABEL, f"{len(frame.unused_data)} bytes follow the frame")
    return inflated.joined()
