"""What `TestBroker` and `TestCluster` share: a `with` block, and a folder for its files."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self


class WithBlock(ABC):
    """Started where a `with` block begins, and closed where it ends, also if the start fails."""

    @abstractmethod
    def start(self) -> None:
        """Return once it serves."""

    @abstractmethod
    def close(self) -> None:
        """Stop what runs; twice is fine."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class DataFolder:
    """A folder that a test has named, whose files stay; or a temporary one, made at first use."""

    def __init__(self, given: str | Path | None) -> None:
        self._given = None if given is None else Path(given)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def path(self) -> Path:
        """Where it is; a broker makes it if it is not there."""
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
