"""Reading and writing the `.index` and `.timeindex` files of a segment.

The first batch of a segment creates both files empty, so that tools find them on a running broker.
Their entries are written when the segment is closed. Kafka creates the files with the `.log`; here
that would make the creation of a topic with 2000 partitions a third slower.

Kafka maps the files into memory, so its tools see every entry at once. Here every entry would be a
write. Writing entries with the checkpoints would open and write two files per busy partition and
minute. Only tools on a running broker would gain: the broker has the entries in memory, and after a
crash recovery rebuilds the indexes of the last segment anyway.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.base.files import Files

INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"


def store_entries(files: Files, path: str, kept_size: int, content: bytes) -> None:
    """Keep the first bytes of an index file and append these; safe to repeat after an error."""
    file = files.open(path, create=True)
    try:
        file.truncate(kept_size)
        if content:
            file.append([content])
    finally:
        file.close()


def last_entry(files: Files, path: str, entry_size: int) -> bytes:
    """Read the last entry of an index file; empty if there is none or it is incomplete."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return b""
    try:
        size = file.size()
        if size < entry_size or size % entry_size:
            return b""
        return file.read(size - entry_size, entry_size)
    finally:
        file.close()


def make_empty(files: Files, paths: Iterable[str]) -> None:
    """Create these files empty, or truncate them to nothing."""
    for path in paths:
        file = files.open(path, create=True)
        try:
            if file.size():
                file.truncate(0)
        finally:
            file.close()
