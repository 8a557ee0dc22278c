"""The sources port: everything the collector may ask of the files it reads.

It never writes to them. Two implementations: `machine.MachineSources` here, and the one of the
tests, whose files are renamed, truncated and deleted by the hundred. What the system refuses is
raised as OSError, unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from moldau.collect.marks import FileIdentity


class Seen(NamedTuple):
    """A file at a moment."""

    identity: FileIdentity
    size: int
    modified_ns: int


class SourceFile(Protocol):
    """An open file; it stays the same one whatever happens to its path."""

    def look(self) -> Seen:
        """Return what it is now."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Read up to so many bytes; fewer only at the end of the file."""
        ...

    def close(self) -> None:
        """Give the descriptor back; closing twice is harmless."""
        ...


class Sources(Protocol):
    """One machine's log files."""

    def matches(self, patterns: Sequence[str]) -> list[str]:
        """Return the paths that match any of the patterns, each once, in order.

        A path without wildcards is named in any case: what is there, or that nothing is, is found
        out by looking at it.
        """
        ...

    def check(self, pattern: str) -> None:
        """Raise OSError if the folder where the wildcards of a pattern begin may not be listed.

        One that is not there may come yet.
        """
        ...

    def siblings(self, path: str) -> list[str]:
        """Return the paths of all that lies in the folder of a path; none if that is not there."""
        ...

    def look(self, path: str) -> Seen:
        """Return what is at a path now; FileNotFoundError, or OSError if it is no plain file."""
        ...

    def open(self, path: str) -> SourceFile:
        """Open what is at a path for reading; FileNotFoundError, or OSError."""
        ...
