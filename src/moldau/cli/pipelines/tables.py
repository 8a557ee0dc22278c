"""Which tables there are in the folder of a pipeline, as the pipeline has written down."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from moldau.base.errors import UserError
from moldau.spark.pipelines.catalog import PIPELINES
from moldau.spark.pipelines.places import IDENTITY, MEMORY, Places

CHANGELOG_TABLE: Final = "table"
"""The one table that is replaced as a whole; rows are appended to all others."""


class PipelineTables:
    """The tables of one folder."""

    def __init__(self, out: str) -> None:
        self._out = Places.of(out, desk=".").out

    @property
    def names(self) -> tuple[str, ...]:
        """All tables; none where nobody has written down which pipeline it is."""
        pipeline = PIPELINES.get(str(self._told.get("pipeline")))
        return () if pipeline is None else pipeline.tables

    def chosen(self, name: str | None) -> str:
        """Return the table that a user means; UserError if there is no such, or more than one."""
        if name is None:
            if self.names and CHANGELOG_TABLE not in self.names:
                raise UserError(f"name a table: {self._listed()}")
            return CHANGELOG_TABLE
        if self.names and name not in self.names:
            raise UserError(f"there is no table {name} in {self._out}: expected {self._listed()}")
        return name

    def folder(self, name: str) -> Path:
        """Return the folder of a table on this machine; UserError if there is none."""
        if "://" in self._out:
            raise UserError(f"{self._out} is not on this machine: use moldau table sql")
        folder = Path(self._out, name)
        if name not in self.names and not folder.is_dir():
            raise UserError(f"there is no table {folder}: name the --out of a pipeline")
        return folder

    def _listed(self) -> str:
        return ", ".join(self.names)

    @cached_property
    def _told(self) -> dict[str, Any]:
        """What the pipeline has written down; nothing where that cannot be read here."""
        try:
            told = json.loads(Path(self._out, MEMORY, IDENTITY).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return told if isinstance(told, dict) else {}
