"""The `with` block of `TestBroker` and `TestCluster`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class WithBlock(ABC):
    """Starts at the beginning of a `with` block and closes at its end, also if the start fails."""

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
