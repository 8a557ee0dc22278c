"""The `with` block of `TestBroker` and `TestCluster`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class WithBlock(ABC):
    """Starts with the `with` block and closes at its end, also if the start fails."""

    @abstractmethod
    def start(self) -> None:
        """Start, and wait until requests are served."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything; may be called twice."""

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
