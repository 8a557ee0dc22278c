"""The `.txnindex` of a segment: which transactions whose marker it holds were aborted.

The file is made with the first abort; most segments have none. Unlike the other indexes it is
written at once, because what it says cannot be learned again without reading the log from the
transaction's first record on. The form of an entry is in `indexes`.
"""

from __future__ import annotations

from moldau.base.errors import CorruptRecords
from moldau.base.files import Files, read_whole
from moldau.storage.indexes import AbortedIndex, AbortedTransaction, encode_aborted

TRANSACTION_INDEX_SUFFIX = ".txnindex"


def read_aborted(files: Files, path: str) -> AbortedIndex:
    """Read a segment's aborted transactions; no file means none."""
    try:
        content = read_whole(files, path)
    except FileNotFoundError:
        return AbortedIndex()
    try:
        return AbortedIndex.decode(content)
    except CorruptRecords as error:
        raise CorruptRecords(f"{path}: {error}") from error


def append_aborted(files: Files, path: str, transaction: AbortedTransaction) -> None:
    """Add an aborted transaction behind the others; an OSError leaves no part of it."""
    file = files.open(path, create=True)
    try:
        size = file.size()
        try:
            file.append([encode_aborted([transaction])])
        except OSError:
            file.truncate(size)
            raise
    finally:
        file.close()


def truncate_aborted(files: Files, path: str, end_offset: int) -> bool:
    """Drop the transactions whose marker lies at or above this offset; tell if any is left."""
    kept = read_aborted(files, path)
    kept.truncate_to(end_offset)
    if not kept.size:
        files.remove(path)
        return False
    file = files.open(path)
    try:
        file.truncate(kept.size)
    finally:
        file.close()
    return True
