"""The `.txnindex` of a segment: which transactions whose marker it holds were aborted.

The file is made with the first abort; most segments have none. Unlike the other indexes it is
written at once, because what it says cannot be learned again without reading the log from the
transaction's first record on. The form of an entry is in `indexes`.

A reader who trusts a damaged file shows records that were aborted. So a file is checked when it is
first read, and one that cannot be right is DamagedTransactionIndex: `transaction_index_rebuild`
makes it anew. An empty file counts as damaged: we leave none behind, Kafka may, and a crash of the
machine can, so the batches have to say which it is. What cannot be known from the file: whether
whole entries are missing at its end, whether numbers in it were exchanged for others that fit, and
whether there should be a file where none was at the start.
"""

from __future__ import annotations

from moldau.base.errors import CorruptRecords
from moldau.base.files import Files, read_whole
from moldau.storage.indexes import AbortedIndex, AbortedTransaction, encode_aborted

TRANSACTION_INDEX_SUFFIX = ".txnindex"
TEMPORARY_SUFFIX = ".tmp"
EMPTY = "a transaction index is empty"
"""Why a file is doubted that may be right: only the batches can tell."""


class DamagedTransactionIndex(CorruptRecords):
    """A `.txnindex` that does not fit its segment; the batches can say what belongs into it."""

    def __init__(self, path: str, base_offset: int, reason: str) -> None:
        super().__init__(path, base_offset, reason)
        self.path = path
        self.base_offset = base_offset
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def load_aborted(files: Files, path: str, base_offset: int, end_offset: int) -> AbortedIndex:
    """Read the index of a segment that has one; DamagedTransactionIndex if it cannot be right.

    The segment's offsets are in [base offset, end offset).
    """
    try:
        content = read_whole(files, path)
        if not content:
            raise CorruptRecords(EMPTY)
        index = AbortedIndex.decode(content)
        index.check(base_offset, end_offset)
    except FileNotFoundError as error:
        raise DamagedTransactionIndex(path, base_offset, "the file is gone") from error
    except CorruptRecords as error:
        raise DamagedTransactionIndex(path, base_offset, str(error)) from error
    return index


def check_stored(files: Files, path: str, base_offset: int, end_offset: int) -> None:
    """Raise DamagedTransactionIndex if the index of a segment cannot be right."""
    load_aborted(files, path, base_offset, end_offset)


def read_aborted(files: Files, path: str) -> AbortedIndex:
    """Read aborted transactions, in whichever segment they are; no file means none."""
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


def store_beside(files: Files, path: str, index: AbortedIndex) -> None:
    """Write an index under a temporary name, and wait until it is on the disk; may block.

    Without the sync a power cut could leave the new name with less than the content.
    """
    temporary = path + TEMPORARY_SUFFIX
    files.remove(temporary)
    file = files.open(temporary, create=True)
    try:
        file.append([index.encode()])
        file.sync()
    except OSError:
        files.remove(temporary)
        raise
    finally:
        file.close()
