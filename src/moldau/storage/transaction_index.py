"""The `.txnindex` of a segment: the aborted transactions whose ABORT marker is in the segment.

The first abort creates the file; most segments have none. Unlike the other indexes, every entry is
written at once: a rebuild has to read the log from the transaction's first record on. `indexes` has
the format of an entry.

With a wrong index, consumers would get aborted records. So a file is checked when it is loaded, and
a damaged one raises DamagedTransactionIndex; `transaction_index_rebuild` rebuilds it. An empty file
counts as damaged: Moldau never leaves one, but Kafka or a power cut may, and only the batches tell
what it should contain. The check does not find missing entries at the end, plausible wrong numbers,
or a missing file.
"""

from __future__ import annotations

from moldau.base.errors import CorruptRecords
from moldau.base.files import Files, Folder, read_whole
from moldau.storage.indexes import AbortedIndex, AbortedTransaction, encode_aborted

TRANSACTION_INDEX_SUFFIX = ".txnindex"
TEMPORARY_SUFFIX = ".tmp"
EMPTY = "a transaction index is empty"
"""The reason for a file that may be right; only the batches can tell."""


class DamagedTransactionIndex(CorruptRecords):
    """A `.txnindex` that does not fit its segment; it can be rebuilt from the batches."""

    def __init__(self, path: str, base_offset: int, reason: str) -> None:
        super().__init__(path, base_offset, reason)
        self.path = path
        self.base_offset = base_offset
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def load_aborted(files: Files, path: str, base_offset: int, end_offset: int) -> AbortedIndex:
    """Load and check the index of a segment with offsets in [base offset, end offset).

    DamagedTransactionIndex if the file is missing or does not fit.
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
    """Raise DamagedTransactionIndex if the index of a segment does not fit."""
    load_aborted(files, path, base_offset, end_offset)


def read_aborted(files: Files, path: str) -> AbortedIndex:
    """Load an index without checking it against a segment; empty if there is no file."""
    try:
        content = read_whole(files, path)
    except FileNotFoundError:
        return AbortedIndex()
    try:
        return AbortedIndex.decode(content)
    except CorruptRecords as error:
        raise CorruptRecords(f"{path}: {error}") from error


def append_aborted(files: Files, path: str, transaction: AbortedTransaction) -> None:
    """Append an aborted transaction to the file; after an OSError nothing is appended."""
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


def cut_aborted(folder: Folder, name: str, size: int) -> None:
    """Cut the file to this many bytes, or remove it if nothing is left; may run on any thread."""
    if not size:
        folder.remove(name)
        return
    file = folder.open(name)
    try:
        file.truncate(size)
    finally:
        file.close()


def store_beside(files: Files, path: str, index: AbortedIndex) -> None:
    """Write an index to a temporary file and sync it; may block. The caller renames it.

    Without the sync a power cut could leave the renamed file without all of its content.
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
