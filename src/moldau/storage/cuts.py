"""The `.cut` files with the bytes that recovery removes from a log, and the log line about them.

    00000000000000000042.log.8192.1700000000000.cut
    base offset of the segment | position of the cut | time of the cut in milliseconds

The file has the bytes of the segment from that position on; at position 0 it is the whole `.log`,
renamed. No broker loads it: Kafka and Moldau ignore unknown suffixes. Zeros at the end of a file
come from preallocation or a power cut; they are not kept.

Retention deletes a `.cut` file that is older than `retention.ms`, and the oldest ones while those
of a partition take more than `retention.bytes` together, whatever the cleanup policy is.

This module does not decide where a log is cut, nor when retention runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import File, Files
from moldau.storage.scan import walk
from moldau.storage.topic_config import LogConfig

CUT_SUFFIX = ".cut"
COPY_CHUNK = 1024 * 1024

_CUT_NAME = re.compile(r"\d{20}\.log\.\d+\.(\d+)\.cut")


class Cut(NamedTuple):
    """Bytes that recovery removed from a log."""

    path: str
    """The `.log` file that had them."""
    position: int
    size: int
    """In bytes, with the later segments that were removed too."""
    removed_segments: int
    """How many whole segments were removed; 0 if only the end of one was."""
    end_offset: int
    """The new log end."""
    first_offset: int
    """The first lost offset."""
    last_offset: int
    """The last lost offset in readable headers; below `first_offset` if none is readable."""
    reason: str
    kept_as: str
    """The path of the `.cut` file; empty if all bytes were zero."""

    def __str__(self) -> str:
        done = f"cut at position {self.position}"
        if self.removed_segments:
            done = f"removed with the {self.removed_segments - 1} segment(s) behind it"
        kept = f"kept in {self.kept_as}" if self.kept_as else "not kept, as all are zero"
        return (
            f"{self.path}: {done} ({self.reason}); {self.size} bytes are {kept};"
            f" last offset kept {self.end_offset - 1}, {self._lost()}"
        )

    def _lost(self) -> str:
        count = self.last_offset - self.first_offset + 1
        if count <= 0:
            return f"first lost {self.first_offset} if it was a record"
        return f"lost {count} offset(s) from {self.first_offset} to {self.last_offset}"


def cut_path(log_path: str, position: int, now_ms: int) -> str:
    """Return the path of the `.cut` file for a cut at a position."""
    return f"{log_path}.{position}.{now_ms}{CUT_SUFFIX}"


def keep_tail(files: Files, file: File, position: int, end: int, now_ms: int) -> str:
    """Copy the bytes of a `.log` from a position on; return the path, or "" if all are zero.

    The caller truncates the `.log` after this. The copy is not synced here: the next flush does it.
    """
    if _all_zero(file, position, end):
        return ""
    path = cut_path(file.path, position, now_ms)
    copy = files.open(path, create=True)
    try:
        copy.truncate(0)
        for start in range(position, end, COPY_CHUNK):
            copy.append([file.read(start, min(COPY_CHUNK, end - start))])
    except OSError:
        files.remove(path)
        raise
    finally:
        copy.close()
    return path


def _all_zero(file: File, position: int, end: int) -> bool:
    for start in range(position, end, COPY_CHUNK):
        chunk = file.read(start, min(COPY_CHUNK, end - start))
        if chunk.count(0) != len(chunk):
            return False
    return True


def last_readable_offset(file: File, position: int, end: int, first_offset: int) -> int:
    """Return the last offset in the headers from a position on, up to the first bad header."""
    last_offset = first_offset - 1
    try:
        for batch in walk(file, position, end):
            if batch.last_offset <= last_offset:
                break
            last_offset = batch.last_offset
    except CorruptRecords:
        pass
    return last_offset


class CutFile(NamedTuple):
    """One `.cut` file in a partition's folder."""

    path: str
    size: int
    cut_ms: int


def find_cuts(files: Files, folder: str, names: Iterable[str]) -> list[CutFile]:
    """List the `.cut` files among a folder's names, oldest first."""
    found = []
    for name in names:
        match = _CUT_NAME.fullmatch(name)
        if match is not None:
            path = f"{folder}/{name}"
            found.append(CutFile(path, files.size(path), int(match[1])))
    return sorted(found, key=lambda cut: cut.cut_ms)


def expired_cuts(cuts: Sequence[CutFile], config: LogConfig, now_ms: int) -> list[CutFile]:
    """List the `.cut` files that exceed `retention.ms` or `retention.bytes`; oldest first."""
    excess = -1
    if config.retention_bytes >= 0:
        excess = sum(cut.size for cut in cuts) - config.retention_bytes
    expired = []
    for cut in cuts:
        too_old = 0 <= config.retention_ms < now_ms - cut.cut_ms
        if too_old or excess > 0:
            expired.append(cut)
            excess -= cut.size
    return expired
