"""The file of positions: what of each file has been delivered, written down in one step.

It is replaced as a whole, so a crash leaves the old content or the new, and only after records were
acknowledged: what it says has been delivered, has been. A second collector on the same file is kept
out by a lock beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from moldau.base.errors import UserError
from moldau.base.files import Files, read_whole, write_atomically
from moldau.collect.marks import FileIdentity, Mark, Window

VERSION: Final = 1
ASIDE: Final = ".corrupt"
"""What a file is called that could not be read: somebody may want to look at it."""


class Entry(NamedTuple):
    """What is written down of one file."""

    name: str
    """The path its records go under."""
    identity: FileIdentity
    mark: Mark
    gone_ms: int = 0
    """Since when it has been gone, so that it can be forgotten one day; 0 while it is there."""
    service: str | None = None
    """Whose access log it is, where requests are counted: several services may have one file."""


class CorruptState(Exception):  # noqa: N818 - it names the thing
    """Bytes that are no file of positions."""


def encode(entries: Iterable[Entry]) -> bytes:
    """Write entries as JSON, one a line: people look into this file when something is wrong."""
    lines = ",\n".join(json.dumps(_fields(entry)) for entry in entries)
    return f'{{"version": {VERSION}, "files": [\n{lines}\n]}}\n'.encode()


def _fields(entry: Entry) -> dict[str, Any]:
    fields = {
        "path": entry.name,
        "device": entry.identity.device,
        "inode": entry.identity.inode,
        "position": entry.mark.position,
        "head": entry.mark.head,
        "tail": entry.mark.tail,
        "gone_ms": entry.gone_ms,
    }
    return fields if entry.service is None else {**fields, "service": entry.service}


def decode(content: bytes) -> list[Entry]:
    """Read entries; CorruptState if that cannot be."""
    try:
        data = json.loads(content)
        version = data["version"]
        if version != VERSION:
            raise CorruptState(f"version {version!r} is not known here")
        return [_entry(fields) for fields in data["files"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptState(f"it cannot be read: {error!r}") from error


def _entry(fields: dict[str, Any]) -> Entry:
    mark = Mark(_count(fields["position"]), _window(fields["head"]), _window(fields["tail"]))
    if max(mark.head.size, mark.tail.size) > mark.position:
        raise ValueError("a position lies before what was read")
    identity = FileIdentity(_count(fields["device"]), _count(fields["inode"]))
    service = _text(fields["service"]) if "service" in fields else None
    return Entry(_text(fields["path"]), identity, mark, _count(fields["gone_ms"]), service)


def _window(pair: Any) -> Window:
    size, digest = pair
    return Window(_count(size), _text(digest))


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no number from 0 on")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


class StateFile:
    """The file, and the lock beside it, from `open` to `close`."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self._written: list[Entry] | None = None
        try:
            files.make_folder(path.rpartition("/")[0] or "/")
            self._lock = files.lock(path + ".lock")
        except BlockingIOError:
            raise UserError(f"{path} is in use by another collector") from None
        except OSError as error:
            raise UserError(f"cannot use {path}: {error.strerror or error}") from error

    def load(self) -> list[Entry] | None:
        """Return what was written, None if there is no such file.

        CorruptState if it cannot be read: it was put aside then, and the next `save` makes
        another. UserError if the system refuses.
        """
        try:
            content = read_whole(self._files, self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UserError(f"cannot read {self.path}: {error.strerror or error}") from error
        try:
            return decode(content)
        except CorruptState:
            self._files.rename(self.path, self.path + ASIDE)
            raise

    def save(self, entries: list[Entry]) -> None:
        """Replace the file, unless that is what it holds already; OSError. Blocks for a sync."""
        if entries != self._written:
            write_atomically(self._files, self.path, encode(entries))
            self._written = entries

    def close(self) -> None:
        """Let another collector in."""
        self._lock.release()
