"""A client that writes one record at a time while something else is measured."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from bench.stage import Client

_RECORD_SIZE = 100


class BackgroundWriter(Client):
    """Writes until its `with` block ends; then `result` has the time of each record.

    The first `warm_up` records are not counted. `count` more are written at least.
    """

    def __init__(
        self, folder: Path, address: str, topic: str, *, warm_up: int = 100, count: int = 1
    ) -> None:
        self._stop_file = folder / "writer-stops"
        super().__init__(
            "one_at_a_time",
            address=address,
            topic=topic,
            size=_RECORD_SIZE,
            warm_up=warm_up,
            count=count,
            until=str(self._stop_file),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop_file.touch()
