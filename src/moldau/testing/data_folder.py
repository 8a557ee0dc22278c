"""The folder of a test's brokers: a given one that is kept, or a temporary one."""

from __future__ import annotations

import tempfile
from pathlib import Path


class DataFolder:
    """A given folder, which is kept, or a temporary one, created on first use."""

    def __init__(self, given: str | Path | None) -> None:
        self._given = None if given is None else Path(given)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def path(self) -> Path:
        """The path; a broker creates the folder if it does not exist."""
        if self._given is not None:
            return self._given
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="moldau-test-")
        return Path(self._temporary.name) / "data"

    def remove(self) -> None:
        """Remove the files, unless the folder was given; may be called twice."""
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.cleanup()
