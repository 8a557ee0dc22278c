"""What an append to a log comes to."""

from __future__ import annotations

from typing import NamedTuple


class AppendResult(NamedTuple):
    """Where a batch stands in the log."""

    base_offset: int
    last_offset: int
    timestamp: int
    """The batch's largest; what LogAppendTime answers with."""
    duplicate: bool
    """It was there already, and nothing was appended now."""
