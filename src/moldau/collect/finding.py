"""Finding files again: after a restart, after a rename, after a copy took their content.

Three questions, answered by looking at numbers and contents, never at names alone: where is the
file that was marked; which file has the rest of one that was truncated (`copytruncate` of
logrotate); is a file that appears only a copy of one that is read already. A copy has the name of
its original and something behind it, as logrotate makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple

from moldau.collect.marks import FileIdentity, Mark, is_alike
from moldau.collect.sources import Seen, SourceFile, Sources
from moldau.collect.state import Entry

COPY_SIZE_MIN: Final = 64
"""Files are told from copies by what both hold; less than most log lines have tells too little,
and then a line sent twice is better than a file taken for another."""


class Found(NamedTuple):
    """An open file, and the path it was found at."""

    path: str
    file: SourceFile


def is_named_after(path: str, original: str) -> bool:
    """Tell whether a path could be that of a copy: the original's, and something behind it."""
    return path != original and path.startswith(original) and "/" not in path[len(original) :]


def fits(file: SourceFile, mark: Mark) -> bool:
    """Tell whether a file holds what was marked."""
    return mark.fits(file.look().size, file.read)


def find_marked(sources: Sources, path: str, entry: Entry) -> Found | None:
    """Open the file that was marked, at the path where its number is now, if it is still the same.

    Its number counts, not its device: that may have another one after a restart of the machine.
    """
    inode = entry.identity.inode
    for found in _opened(sources, [path], lambda seen: seen.identity.inode == inode):
        if is_marked(found, entry):
            return found
        found.file.close()
    return None


def is_marked(found: Found, entry: Entry) -> bool:
    """Tell whether a file that has the number of one that was marked is still the same.

    One of which nothing has been read is known by its number alone, which another file may have by
    now: it has to be named after what it was.
    """
    path, name, mark = found.path, entry.name, entry.mark
    is_named = path == name or is_named_after(path, name)
    return (mark.position > 0 or is_named) and fits(found.file, mark)


def find_copy(
    sources: Sources, name: str, mark: Mark, others: Collection[FileIdentity]
) -> Found | None:
    """Find a copy of what a file held before it was truncated; `others` are no such copies."""
    paths = [path for path in sources.siblings(name) if is_named_after(path, name)]
    for found in _opened(sources, paths, lambda seen: seen.identity not in others):
        if holds_copy(found.file, mark):
            return found
        found.file.close()
    return None


def holds_copy(file: SourceFile, mark: Mark) -> bool:
    """Tell whether a file holds so much of what was marked that it must be a copy of it."""
    return mark.position >= COPY_SIZE_MIN and fits(file, mark)


def is_copy(file: SourceFile, original: SourceFile) -> bool:
    """Tell whether two files hold the same, as far as the shorter one goes."""
    size, original_size = file.look().size, original.look().size
    if min(size, original_size) < COPY_SIZE_MIN:
        return False
    return is_alike(size, file.read, original_size, original.read)


def _opened(
    sources: Sources, paths: Iterable[str], is_wanted: Callable[[Seen], bool]
) -> Iterator[Found]:
    """Open those files that look as wanted; what cannot be looked at or opened is passed over."""
    for path in paths:
        try:
            if not is_wanted(sources.look(path)):
                continue
            file = sources.open(path)
        except OSError:
            continue
        if is_wanted(file.look()):
            yield Found(path, file)
        else:
            file.close()
