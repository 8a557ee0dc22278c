"""The codecs of record batches, behind two functions.

`decompress` never makes more than its limit: every codec inflates step by step, and one byte past
the limit is refused, so that a bomb costs no more than a batch of the largest legal size
(CVE-2023-34455). Whatever a codec library complains about leaves as CorruptRecords.

The libraries' contexts are reused through free lists. Their calls release the interpreter lock and
a context serves one call at a time, so it is taken off the list meanwhile; `list.pop` and
`list.append` are atomic, which is all the locking this needs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Final

import cramjam
import lz4.frame
import zstandard

from moldau.base.errors import CorruptRecords
from moldau.base.files import Buffer

_GZIP_WBITS: Final = 31
"""The largest window, in gzip's wrapping."""
_GZIP_CHUNK_SIZE: Final = 64 * 1024
"""What follows a member is copied by the library, so a million tiny ones must not see it all."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
"""What snappy-java writes; its readers take any size."""
_BLOCK_LENGTH: Final = Struct(">i")
_SNAPPY_MAX_RATIO: Final = 32
"""Three bytes of snappy copy at most 64: a block that promises more than this is a lie."""

_LZ4_FAST_LEVEL: Final = 9
"""Java's default: the fast compressor. Any other level means the high compression one (KIP-390)."""

_ZSTD_DEFAULT_LEVEL: Final = 3
_ZSTD_MAX_WINDOW: Final = 1 << 27
"""The window of level 22, which Java's streaming writer declares however small the data."""
_ZSTD_RLE_BLOCK: Final = 1

_FIRST_STEP: Final = 64 * 1024
"""Room for a usual batch in one step; a bomb gets no more before it has shown itself."""
_USUAL_RATIO: Final = 8
"""Records rarely shrink further, so the first step is mostly the only one."""


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


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress a whole payload; without a level, with Kafka's default for the codec."""
    return _COMPRESSORS[codec](data, level)


def decompress(codec: Codec, data: Buffer, limit: int) -> bytes:
    """Decompress a whole payload of at most `limit` bytes."""
    if limit < 0:  # which the libraries would take for no limit at all
        raise _too_large(codec, limit)
    return _DECOMPRESSORS[codec](data, limit)


class _Inflated:
    """What came out so far, and how much more may come in the next step."""

    __slots__ = ("_codec", "_limit", "_parts", "_size", "step")

    def __init__(self, codec: Codec, compressed_size: int, limit: int) -> None:
        self._codec = codec
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self.step = min(limit + 1, max(_FIRST_STEP, compressed_size * _USUAL_RATIO))

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit:
            raise _too_large(self._codec, self._limit)
        self.step = min(self._limit + 1 - self._size, self.step * 2)

    def joined(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def _too_large(codec: Codec, limit: int) -> CorruptRecords:
    return CorruptRecords(f"{codec.label} data grows beyond {limit} bytes")


def _garbage(codec: Codec, reason: object) -> CorruptRecords:
    return CorruptRecords(f"not {codec.label} data: {reason}")


def _store(data: Buffer, _level: int | None) -> bytes:
    return bytes(data)


def _unstore(data: Buffer, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_large(Codec.NONE, limit)
    return bytes(data)


def _gzip(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
    return compressor.compress(data) + compressor.flush()


def _gunzip(data: Buffer, limit: int) -> bytes:
    """Read one gzip member or, as the format allows, several."""
    inflated = _Inflated(Codec.GZIP, len(data), limit)
    view = memoryview(data)
    position = _gunzip_member(view, 0, inflated)
    while position < len(view):
        position = _gunzip_member(view, position, inflated)
    return inflated.joined()


def _gunzip_member(view: memoryview, position: int, inflated: _Inflated) -> int:
    """Inflate one member; return the position behind it."""
    member = zlib.decompressobj(_GZIP_WBITS)
    try:
        while not member.eof:
            chunk: Buffer = member.unconsumed_tail
            if not chunk:
                chunk = view[position : position + _GZIP_CHUNK_SIZE]
                position += len(chunk)
            part = member.decompress(chunk, inflated.step)
            if not part and not chunk:
                raise _garbage(Codec.GZIP, "it is cut")
            inflated.add(part)
    except zlib.error as error:
        raise _garbage(Codec.GZIP, error) from error
    return position - len(member.unused_data)


def _snap(data: Buffer, _level: int | None) -> bytes:
    view = memoryview(data)
    parts: list[Buffer] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE])
        parts += (_BLOCK_LENGTH.pack(len(block)), memoryview(block))
    return b"".join(parts)


def _unsnap(data: Buffer, limit: int) -> bytes:
    """Read snappy-java's framing, or one bare block as librdkafka once wrote it."""
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnap_block(view, limit)
    if len(view) < len(_XERIAL_HEADER):
        raise _garbage(Codec.SNAPPY, "its header is cut")
    parts = []
    position, room = len(_XERIAL_HEADER), limit
    while position < len(view):
        if len(view) - position < _BLOCK_LENGTH.size:
            raise _garbage(Codec.SNAPPY, "a block length is cut")
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += _BLOCK_LENGTH.size
        if not 0 < length <= len(view) - position:
            raise _garbage(Codec.SNAPPY, f"a block of {length} bytes, {len(view) - position} left")
        part = _unsnap_block(view[position : position + length], room)
        parts.append(part)
        position += length
        room -= len(part)
    return b"".join(parts)


def _unsnap_block(block: memoryview, limit: int) -> bytes:
    try:
        promised = cramjam.snappy.decompress_raw_len(block)
        if promised > limit:
            raise _too_large(Codec.SNAPPY, limit)
        if promised > len(block) * _SNAPPY_MAX_RATIO:
            raise _garbage(Codec.SNAPPY, f"{len(block)} bytes cannot become {promised}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _garbage(Codec.SNAPPY, error) from error


def _lz4(data: Buffer, level: int | None) -> bytes:
    """Write a frame that Java can read: independent blocks of 64 KiB, no content size (KIP-57)."""
    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None or level == _LZ4_FAST_LEVEL else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _unlz4(data: Buffer, limit: int) -> bytes:
    inflated = _Inflated(Codec.LZ4, len(data), limit)
    frame = lz4.frame.LZ4FrameDecompressor()
    rest: Buffer = data
    try:
        while not frame.eof:
            if frame.needs_input and not rest:
                raise _garbage(Codec.LZ4, "it is cut")
            part = frame.decompress(rest, inflated.step)
            rest = b""
            inflated.add(part)
    except RuntimeError as error:
        raise _garbage(Codec.LZ4, error) from error
    if frame.unused_data:
        raise _garbage(Codec.LZ4, f"{len(frame.unused_data)} bytes follow the frame")
    return inflated.joined()


_zstd_compressors: Final[dict[int, list[zstandard.ZstdCompressor]]] = {}
_zstd_decompressors: Final[list[zstandard.ZstdDecompressor]] = []


def _zstd(data: Buffer, level: int | None) -> bytes:
    level = _ZSTD_DEFAULT_LEVEL if level is None else level
    idle = _zstd_compressors.setdefault(level, [])
    context = idle.pop() if idle else zstandard.ZstdCompressor(level)
    compressed = context.compress(data)
    idle.append(context)
    return compressed


def _unzstd(data: Buffer, limit: int) -> bytes:
    """Stream, because Java's frames do not say how large their content is."""
    inflated = _Inflated(Codec.ZSTD, len(data), limit)
    context = (
        _zstd_decompressors.pop()
        if _zstd_decompressors
        else zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)
    )
    try:
        _check_zstd_frames(memoryview(data), limit)
        reader = context.stream_reader(data, read_across_frames=True)
        while part := reader.read(inflated.step):
            inflated.add(part)
    except zstandard.ZstdError as error:
        raise _garbage(Codec.ZSTD, error) from error
    finally:
        _zstd_decompressors.append(context)
    return inflated.joined()


def _check_zstd_frames(view: memoryview, limit: int) -> None:
    """Walk frames and blocks to their end: the streaming reader is silent about a cut one."""
    position = 0
    while position < len(view):
        frame = view[position:]
        facts = zstandard.get_frame_parameters(frame)
        if limit < facts.content_size != zstandard.CONTENTSIZE_UNKNOWN:
            raise _too_large(Codec.ZSTD, limit)
        position += zstandard.frame_header_size(frame)
        last = False
        while not last:
            block = int.from_bytes(view[position : position + 3], "little")
            last = bool(block & 1)
            kind, size = block >> 1 & 3, block >> 3
            position += 3 + (1 if kind == _ZSTD_RLE_BLOCK else size)
            if position > len(view):
                raise _garbage(Codec.ZSTD, "it is cut")
        position += 4 if facts.has_checksum else 0
    if position == 0 or position > len(view):
        raise _garbage(Codec.ZSTD, "it is cut")


_COMPRESSORS: Final[dict[Codec, Callable[[Buffer, int | None], bytes]]] = {
    Codec.NONE: _store,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snap,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
_DECOMPRESSORS: Final[dict[Codec, Callable[[Buffer, int], bytes]]] = {
    Codec.NONE: _unstore,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnap,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
