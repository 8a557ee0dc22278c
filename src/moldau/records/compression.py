"""The codecs of record batches, behind two functions.

`decompress` never makes more than its limit: every codec inflates step by step, and one byte past
the limit is refused, so that a bomb costs no more than a batch of the largest legal size
(CVE-2023-34455). Whatever a codec library complains about leaves as CorruptRecords.

A codec is loaded when it is first used: the libraries of all four take longer to import than the
rest of the records, and hardly a process needs more than one. Two threads may load at once; the
import system lets one wait for the other.
"""

from __future__ import annotations

from enum import IntEnum
from importlib import import_module
from typing import Final, Protocol, cast

from moldau.base.files import Buffer
from moldau.records.codecs.inflating import too_large


class Codec(IntEnum):
    """How the records of a batch are compressed; the number stands in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The name in `compression.type`."""
        return self.name.lower()

    @classmethod
    def named(cls, label: str) -> Codec:
        """Find a codec by its name in `compression.type`; ValueError if there is none."""
        for codec in cls:
            if codec.label == label:
                return codec
        raise ValueError(f"no codec is called {label!r}")


class Coder(Protocol):
    """What each file in `codecs` offers."""

    def compress(self, data: Buffer, level: int | None) -> bytes:
        """Compress a whole payload."""
        ...

    def decompress(self, data: Buffer, limit: int) -> bytes:
        """Decompress a whole payload; CorruptRecords if it is none, or grows beyond the limit."""
        ...


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress a whole payload; without a level, with Kafka's default for the codec."""
    return (_loaded.get(codec) or _load(codec)).compress(data, level)


def decompress(codec: Codec, data: Buffer, limit: int) -> bytes:
    """Decompress a whole payload of at most `limit` bytes."""
    if limit < 0:  # which the libraries would take for no limit at all
        raise too_large(codec.label, limit)
    return (_loaded.get(codec) or _load(codec)).decompress(data, limit)


def _load(codec: Codec) -> Coder:
    coder = cast("Coder", import_module(f"moldau.records.codecs.{codec.label}"))
    _loaded[codec] = coder
    return coder


_loaded: Final[dict[Codec, Coder]] = {}
