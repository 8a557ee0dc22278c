"""The `.txnindex` of a segment: which transactions whose marker it holds were aborted.

The file is made with the first abort; most segments have none. Unlike the other indexes it is
written at once, because what it says cannot be learned again without reading the log from the
transaction's first record on. The form of an entry is in `indexes`.
"""

from __future__ import annotations

from moldau.base.errors import CorruptRecords
from moldau.base.files import Files, read_whole
from moldau.storage.indexes import (
    ABORTED_ENTRY_SIZE,
    AbortedTransaction,
    decode_aborted,
    encode_aborted,
)

TRANSACTION_INDEX_SUFFIX = ".txnindex"


def read_aborted(files: Files, path: str) -> list[AbortedTransaction]:
    """Read a segment's aborted transactions; no file means none."""
    try:
        content = read_whole(files, path)
    except FileNotFoundError:
        return []
    try:
        return decode_aborted(content)
    except CorruptRecords as error:
        raise CorruptRecords(f"{path}: {error}") from error


def append_aborted(files: Files, path: str, transaction: AbortedTransaction) -> None:
    """Add an aborted transaction behind the others."""
    file = files.open(path, create=True)
    try:
        file.append([encode_aborted([transaction])])
    finally:
        file.close()


def truncate_aborted(files: Files, path: str, end_offset: int) -> None:
    """Drop the transactions whose marker lies at or above this offset."""
    kept = [entry for entry in read_aborted(files, path) if entry.last_offset < end_offset]
    if not kept:
        files.remove(path)
        return
    file = files.open(path)
    try:
        file.truncate(len(kept) * ABORTED_ENTRY_SIZE)
    finally:
        file.close()
