"""How a file is known again: a position in it, and what stood before that position.

A path tells nothing once files are rotated, and the number of a file (its inode) is given to
another one when it is gone. So a position is kept together with digests of the first bytes of the
file and of the last ones before the position. A file whose bytes still are those is the same one,
or a copy of it, which for reading on is as good.

Pure. Digests, not the bytes themselves: what logs hold is nobody's business in a file of positions.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple

from moldau.collect.framing import TAIL_SIZE

HEAD_SIZE: Final = TAIL_SIZE
"""Bytes at the beginning of a file that are looked at."""

Read = Callable[[int, int], bytes]
"""Reads up to so many bytes of a file from a position on."""


class FileIdentity(NamedTuple):
    """The number by which a system knows a file; another one may get it when the file is gone."""

    device: int
    inode: int


class Window(NamedTuple):
    """Some bytes of a file, by their digest."""

    size: int
    digest: str

    @classmethod
    def of(cls, content: bytes) -> Window:
        """Look at these bytes."""
        return cls(len(content), blake2b(content, digest_size=16).hexdigest())


class Mark(NamedTuple):
    """How far a file has been read, or delivered, and how to tell whether it is still that file."""

    position: int
    head: Window
    """The first bytes, none of them at or after the position."""
    tail: Window
    """The last bytes before the position."""

    @classmethod
    def at(cls, position: int, head: bytes, tail: bytes) -> Mark:
        """Make the mark of a position from the first bytes of the file and those before it."""
        return cls(position, Window.of(head[: min(HEAD_SIZE, position)]), Window.of(tail))

    def fits(self, size: int, read: Read) -> bool:
        """Tell whether a file of that size is the one that was marked, or a copy of it."""
        if size < self.position:
            return False
        tail_position = self.position - self.tail.size
        return (
            Window.of(read(0, self.head.size)) == self.head
            and Window.of(read(tail_position, self.tail.size)) == self.tail
        )


BEGINNING: Final = Mark.at(0, b"", b"")
"""The mark of a file of which nothing has been read."""


def is_alike(size: int, read: Read, other_size: int, read_other: Read) -> bool:
    """Tell whether of two files one seems to be the beginning of the other; not of empty ones.

    Looked at are the first bytes of both, and the last ones that both have.
    """
    common = min(size, other_size)
    if not common:
        return False
    windows = ((0, min(common, HEAD_SIZE)), (max(0, common - TAIL_SIZE), min(common, TAIL_SIZE)))
    return all(read(*window) == read_other(*window) for window in windows)
