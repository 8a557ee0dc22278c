"""What a collector of files is told to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Final

from moldau.collect.framing import Framing

COMPRESSED: Final = ("*.gz", "*.bz2", "*.xz", "*.zst", "*.zip", "*.lz4", "*.Z")
"""What rotation makes of files that were read already."""


@dataclass(frozen=True, slots=True)
class WantedFiles:
    """Which files are to be collected, and how."""

    patterns: Sequence[str]
    framing: Framing
    excluded: Sequence[str] = COMPRESSED
    """Patterns for whole paths, or for their last part where they have no slash."""
    from_end: bool = False
    """Whether files that are there when everything begins are read only from their ends on."""
    lines_wait_s: float = 5.0
    """How long the lines of a record wait for one that shows that it is whole."""
    rotated_wait_s: float = 60.0
    """For how long a file that was renamed away or deleted must be quiet before it is left: who
    writes to it may not have noticed yet."""
    poll_max_s: float = 2.0
    """How seldom a file may be looked at that has been quiet for long."""
    scan_s: float = 5.0
    """How often new files are looked for."""

    def takes(self, path: str) -> bool:
        """Tell whether a path is not excluded."""
        name = path.rpartition("/")[2]
        return not any(fnmatch(path if "/" in one else name, one) for one in self.excluded)
