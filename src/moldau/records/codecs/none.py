"""No compression: the payload as it is."""

from __future__ import annotations

from typing import Final

from moldau.base.files import Buffer
from moldau.records.codecs.inflating import too_large

LABEL: Final = "none"


def compress(data: Buffer, _level: int | None) -> bytes:
    """Copy."""
    return bytes(data)


def decompress(data: Buffer, limit: int) -> bytes:
    """Copy, if it is no more than the limit."""
    if len(data) > limit:
        raise too_large(LABEL, limit)
    return bytes(data)
