"""Reading and writing the `.index` and `.timeindex` files of a segment.

They lie beside the `.log` from its first batch on, empty at first, so that tools which look at a
running broker find them; their entries come when the segment is rolled or closed. Kafka makes them
with the `.log`. Three more files for each partition without a record would make the creation of a
topic of 2000 partitions a third slower.

Kafka maps the files into memory, so its tools see an entry at once. Here that would be a write for
every `index.interval.bytes` of log, as many as there are appends of that size. Storing them from
time to time, say with the checkpoints, would be two files to open and write for each busy partition
and minute. Nobody but a tool on a running broker would gain: the broker has the entries in memory,
and after a kill recovery makes those of the last segment anew whatever its files say.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.base.files import Files


def store_entries(files: Files, path: str, kept_size: int, content: bytes) -> None:
    """Let an index file hold its first bytes and these; a write that fails can be repeated."""
    file = files.open(path, create=True)
    try:
        file.truncate(kept_size)
        if content:
            file.append([content])
    finally:
        file.close()


def last_entry(files: Files, path: str, entry_size: int) -> bytes:
    """Read the last entry of an index file; nothing if there is none, or half a one."""
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
    """Let these files be there, with nothing in them."""
    for path in paths:
        file = files.open(path, create=True)
        try:
            if file.size():
                file.truncate(0)
        finally:
            file.close()
