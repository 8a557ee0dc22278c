"""The result of an append to a log."""

from __future__ import annotations

from typing import NamedTuple


class AppendResult(NamedTuple):
    """The offsets of a batch in the log."""

    base_offset: int
    last_offset: int
    timestamp: int
    """The largest timestamp of the batch; the answer of a topic with LogAppendTime."""
    duplicate: bool
    """The batch was in the log already, and nothing was appended."""
