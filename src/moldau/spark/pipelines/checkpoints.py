"""Whether Spark will be able to read its checkpoint, asked before it tries.

Of a damaged one Spark says only what it stumbled over (`Unrecognized token`), and not where. Only
the newest entries are looked at: those are what a query goes on from.
"""

from __future__ import annotations

import json
from typing import Final

from moldau.base.errors import UserError
from moldau.spark.pipelines.identity import NAME
from moldau.spark.pipelines.storage import Files

LOGS: Final = ("offsets", "commits")
_NOTHING: Final = "-"
"""Stands for an offset that is not known yet."""


def check_checkpoints(files: Files, folder: str) -> None:
    """Look at the checkpoint of each query in a folder; UserError if one is damaged."""
    for query in (name for name in files.names(folder) if name != NAME):
        for log in LOGS:
            numbers = [
                int(name) for name in files.names(f"{folder}/{query}/{log}") if name.isdigit()
            ]
            if numbers:
                place = f"{folder}/{query}/{log}/{max(numbers)}"
                _check(files.read(place) or "", place)


def _check(text: str, place: str) -> None:
    head, *lines = text.split("\n")
    try:
        if not head.startswith("v") or not lines:
            raise ValueError(f"it begins with {head[:20]!r}")
        for line in lines:
            if line and line != _NOTHING:
                json.loads(line)
    except ValueError as error:
        raise UserError(
            f"the checkpoint is damaged: {place} cannot be read ({error}); restore it, or begin"
            " with a new --out"
        ) from None
