"""What really lies in a partition's folder: the headers of its batches, read without any library.

A client that thinks a broker too old for a codec sends its records uncompressed and says nothing;
they come back right all the same. So a test of codecs has to look at the file.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

_HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max
timestamp, producer id, producer epoch, base sequence, record count."""

_LENGTH_END = 12
"""A batch's length counts what follows the length field."""


class StoredBatch(NamedTuple):
    """What a test asks of a batch."""

    base_offset: int
    codec: str
    producer_id: int
    record_count: int


def stored_batches(partition_folder: Path) -> list[StoredBatch]:
    """Return the batches of all segments, in order."""
    found = []
    for file in sorted(partition_folder.glob("*.log")):
        data = file.read_bytes()
        position = 0
        while position + _HEADER.size <= len(data):
            base_offset, length, _, _, _, attributes, *_, producer_id, _, _, count = (
                _HEADER.unpack_from(data, position)
            )
            codec = CODEC_NAMES[attributes & 0x07]
            found.append(StoredBatch(base_offset, codec, producer_id, count))
            position += _LENGTH_END + length
    return found


def assert_stored_as(partition_folder: Path, codec: str, *, idempotent: bool) -> None:
    """Check that a producer's mode has reached the disk.

    A client may leave a batch uncompressed that a codec would only enlarge, but not all of them.
    """
    batches = stored_batches(partition_folder)
    codecs = {batch.codec for batch in batches}
    assert codec in codecs, f"sent as {codec}, stored as {codecs}"
    assert codecs <= {codec, "none"}, f"sent as {codec}, stored as {codecs}"
    assert {batch.producer_id >= 0 for batch in batches} == {idempotent}
