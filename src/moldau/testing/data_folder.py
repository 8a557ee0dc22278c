"""Where the brokers of a test keep their files: a folder that stays, or a temporary one."""

from __future__ import annotations

import tempfile
from pathlib import Path


class DataFolder:
    """A folder that the test names, whose files stay, or a temporary one, made at first use."""

    def __init__(self, given: str | Path | None) -> None:
        self._given = None if given is None else Path(given)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def path(self) -> Path:
        """The path; a broker makes the folder if it does not exist."""
        if self._given is not None:
            return self._given
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="moldau-test-")
        return Path(self._temporary.name) / "data"

    def remove(self) -> None:
        """Remove the files, unless the folder was given; twice is fine."""
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.cleanup()
