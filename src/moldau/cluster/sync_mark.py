"""How far a voter's journal was synced, for telling a torn tail from damage at the next start.

A voter appends on while the disk syncs, so that a power cut may leave gaps behind what was synced.
That is cut: nobody was told of it. A broken batch before it was promised to others. Without it this
node must not vote: it would let a leader win that lacks what is committed.

The file is appended to after each sync of the journal, and is not synced itself. What a power cut
leaves of it is too low at worst. It is lowered durably before the journal is cut, so that it never
speaks of records that were cut off. A clean stop removes it: the folder may go on with Kafka.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from zlib import crc32

from moldau.base.files import File, Files, read_whole, write_atomically

FILE_NAME: Final = "synced-offsets"

_ENTRY: Final = Struct(">qI")
_OFFSET: Final = Struct(">q")
_SIZE_MAX: Final = 4096 * _ENTRY.size
"""A longer file is begun anew."""


class SyncMark:
    """The mark of one journal."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._path = f"{folder}/{FILE_NAME}"
        self._file: File | None = None
        self.offset = self._read()
        """Everything before it was synced; None if nobody has noted it."""

    def _read(self) -> int | None:
        """Return the last whole entry."""
        try:
            data = read_whole(self._files, self._path)
        except FileNotFoundError:
            return None
        found = None
        for position in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
            offset, checksum = _ENTRY.unpack_from(data, position)
            if crc32(_OFFSET.pack(offset)) != checksum:
                break
            found = int(offset)
        return found

    def note(self, offset: int) -> None:
        """Take note that everything before an offset is synced; may block.

        A disk that refuses leaves the mark too low, which is allowed.
        """
        if offset == self.offset:
            return
        entry = _entry(offset)
        try:
            if self._file is None or self._file.size() >= _SIZE_MAX:
                self._begin(entry)
            else:
                self._file.append([entry])
        except OSError:
            self.close()
            return
        self.offset = offset

    def lower(self, offset: int) -> None:
        """Speak durably of no record from an offset on; may block."""
        if self.offset is not None and offset < self.offset:
            self.close()
            write_atomically(self._files, self._path, _entry(offset))
            self.offset = offset

    def remove(self) -> None:
        """Leave none behind: the journal is synced whole, and other software may go on with it."""
        self.close()
        self._files.remove(self._path)
        self.offset = None

    def _begin(self, entry: bytes) -> None:
        """Begin the file anew: what a crash left behind its last whole entry is not read past."""
        self.close()
        write_atomically(self._files, self._path, entry)
        self._file = self._files.open(self._path)

    def close(self) -> None:
        """Give the descriptor back; closing twice is harmless."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _entry(offset: int) -> bytes:
    return _ENTRY.pack(offset, crc32(_OFFSET.pack(offset)))
