"""Lines of a stream, many at a time: a line on its own would cost more to read than to send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, cast

from moldau.base.errors import UserError

CHUNK_SIZE: Final = 1 << 16
"""What a pipe of Linux holds."""

LINE_SIZE_MAX: Final = 1 << 30
"""No broker takes a record of a gigabyte; a stream without line ends must not fill the memory."""


def read_chunk(stream: BinaryIO) -> bytes:
    """Return what is there, waiting for something; nothing at the end."""
    return cast("bytes", stream.read1(CHUNK_SIZE))  # type: ignore[attr-defined]


def line_lists(read: Callable[[], bytes]) -> Iterator[list[bytes]]:
    """Yield lines without their ends as soon as they are whole, as many as there are.

    What stands behind the last line end is a line too, unless it is empty.
    """
    begun: list[bytes] = []
    size = 0
    while chunk := read():
        head, found, rest = chunk.partition(b"\n")
        begun.append(head)
        size += len(head)
        if size > LINE_SIZE_MAX:
            raise UserError(f"a line is longer than {LINE_SIZE_MAX} bytes")
        if found:
            lines = rest.split(b"\n")
            lines.insert(0, b"".join(begun))
            begun = [lines.pop()]
            size = len(begun[0])
            yield lines
    if last := b"".join(begun):
        yield [last]
