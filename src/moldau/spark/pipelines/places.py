"""Where the files of a pipeline are: tables in one folder each, everything else in `_moldau`.

    OUT/<table>/                     rows, for everybody
    OUT/_moldau/moldau-pipeline.json whose the tables are
    OUT/_moldau/state ...            what the pipeline remembers from batch to batch
    OUT/_moldau/checkpoint/<query>/  Spark's own; elsewhere if so wanted
    DESK/lock, DESK/status.json      who runs it and how it goes: on the machine of the driver,
                                     in OUT/_moldau if that is there too

Spark and its like pass over names that begin with an underscore.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlparse

from moldau.base.errors import UserError

MEMORY: Final = "_moldau"
IDENTITY: Final = "moldau-pipeline.json"
"""The file in which stands whose the tables are."""


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of one pipeline."""

    out: str
    checkpoints: str
    desk: Path

    @classmethod
    def of(cls, out: str, checkpoint: str | None = None, desk: str | None = None) -> Places:
        """Understand what the user named; UserError if there is no place for lock and status."""
        for option, path in (("out", out), ("checkpoint", checkpoint), ("desk", desk)):
            if path == "":  # a script's variable that is not set; it would be where we stand
                raise UserError(f"--{option} is empty: name a folder")
        local = _local(out)
        root = out.rstrip("/") if local is None else str(local)
        if desk is None and local is None:
            raise UserError(
                f"{out} is not on this machine: name a folder that is, for the lock and the status"
                " of the pipeline, with --desk"
            )
        own = Path(desk).absolute() if desk is not None else Path(root) / MEMORY
        if checkpoint is None:
            checkpoint = f"{root}/{MEMORY}/checkpoint"
        elif (kept := _local(checkpoint)) is not None:
            checkpoint = str(kept)
        return cls(root, checkpoint.rstrip("/"), own)

    @property
    def is_local(self) -> bool:
        """Whether tables and checkpoint are in folders of this machine."""
        return _local(self.out) is not None and _local(self.checkpoints) is not None

    @property
    def identity(self) -> str:
        """The folder in which stands whose the tables are."""
        return f"{self.out}/{MEMORY}"

    def table(self, name: str) -> str:
        """Return the folder of a table."""
        return f"{self.out}/{name}"

    def memory(self, name: str) -> str:
        """Return a folder of what is remembered."""
        return f"{self.out}/{MEMORY}/{name}"

    def checkpoint(self, query: str) -> str:
        """Return the folder of a query's checkpoint."""
        return f"{self.checkpoints}/{query}"


def _local(path: str) -> Path | None:
    """Return a path of this machine; None if it is of another system.

    One folder has one path, without `..` in it: it is written down, and Spark takes such parts out
    by themselves too, whatever links there are.

    UserError for a URL of a file with what stands for something else in URLs: part of the path
    would be lost, or be read as another one.
    """
    parts = urlparse(path)
    if parts.scheme != "file":
        return None if parts.scheme else _plain(Path(path).absolute())
    if odd := next((one for one in "#?%" if one in path), None):
        raise UserError(f"{path} has a {odd}: name the folder without file: in front")
    return _plain(Path(parts.path))


def _plain(path: Path) -> Path:
    return Path(os.path.normpath(path))
