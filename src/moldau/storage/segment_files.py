"""Changes to the files of a segment that may take long, for any thread.

Files are named by an open folder: the log may be deleted meanwhile, and its path may be another
log's. `segment` has changed its own state before; this module knows files only.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from moldau.base.checks import crash_point
from moldau.base.files import File, Folder
from moldau.storage.transaction_index import cut_aborted

DELETED_SUFFIX = ".deleted"

CUT_STEP_BYTES: Final = 16 * 1024 * 1024
"""What one call cuts off a file."""


class SegmentCut(NamedTuple):
    """What a truncation does to the files of the segment that stays."""

    end_offset: int
    """Where the segment ends now."""
    file: File | None
    """The `.log`, open; None if it stays as it is."""
    size: int
    """The new size of the `.log`."""
    transactions_name: str
    transactions_size: int | None
    """The new size of the `.txnindex`; None if there is none."""

    def run(self, folder: Folder) -> None:
        """Cut the files."""
        if self.file is None:
            return
        # A crash between these steps leaves index and batches out of step. That is safe: the
        # recovery point is at most the new end, so recovery rebuilds all indexes of this segment.
        if self.transactions_size is not None:
            cut_aborted(folder, self.transactions_name, self.transactions_size)
        crash_point("segment.truncate.before_cut")
        _cut_in_steps(self.file, self.size)
        crash_point("segment.truncate.after_cut")
        # Else a power cut could undo the cut, and with it what was written in its place, and keep
        # a later segment: batches of two leaders would stand in one log.
        self.file.sync()


def _cut_in_steps(file: File, size: int) -> None:
    """Cut a file from its end, some at a time.

    The kernel frees what one call cuts in one go. For a gigabyte that may hold up other threads
    too. A crash in between leaves half a batch at the end, which recovery cuts.
    """
    end = file.size()
    while end > size:
        end = max(size, end - CUT_STEP_BYTES)
        file.truncate(end)


def rename_deleted(folder: Folder, names: Iterable[str]) -> None:
    """Rename files to `.deleted`, in this order; a missing one is passed by.

    The `.log` comes first: from then on recovery takes the indexes for orphans and removes them.
    """
    crash_point("segment.schedule_delete.before_log")
    for name in names:
        with suppress(FileNotFoundError):
            folder.rename(name, name + DELETED_SUFFIX)
    crash_point("segment.schedule_delete.after_log")


def create_log_file(folder: Folder, name: str) -> None:
    """Create an empty `.log`."""
    crash_point("segment.create.before_open")
    file = folder.open(name, create=True)
    try:
        file.truncate(0)
    finally:
        file.close()
    crash_point("segment.create.after_open")
