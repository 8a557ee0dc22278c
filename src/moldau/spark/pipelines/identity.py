"""One id for a table folder and its checkpoint, so that neither goes on with a stranger.

A checkpoint that is new beside tables that are old would begin again at batch 0; the tables have
that batch already and would take nothing for a long time, while all looks well. So both are given
one id when a pipeline first runs, and every run looks first. What a table cannot change any more,
the length of its windows, say, is written down with it. So is where it is: tables name their files
by whole paths, and a pipeline that went on in a copy would change the files of the original.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from moldau.base.errors import UserError
from moldau.spark.pipelines.checkpoints import OFFSETS
from moldau.spark.pipelines.declaration import PARQUET, TABLE_FORMAT, Pipeline, Value
from moldau.spark.pipelines.places import IDENTITY
from moldau.spark.pipelines.storage import Files

NAME: Final = IDENTITY
OUT: Final = "out"
"""What the folder of the tables is called among what is written down."""
BATCH: Final = "batch"
"""The file beside the id that says which batch was begun last."""
_OF_PLACE: Final = frozenset({OUT, TABLE_FORMAT})
"""What is known of tables before they have rows."""


Typed = Callable[[str, Value], str]
"""How the value of an option looks as people type it."""


class PipelineIdentity(NamedTuple):
    """Whose a folder is."""

    id: str
    pipeline: str
    pinned: Mapping[str, Value]

    def to_json(self) -> str:
        """Write it down."""
        return json.dumps(self._asdict(), indent=1)

    @classmethod
    def from_json(cls, text: str, place: str) -> PipelineIdentity:
        """Read what was written down; UserError if it cannot be."""
        try:
            told = json.loads(text)
            return cls(str(told["id"]), str(told["pipeline"]), dict(told["pinned"]))
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"{place} cannot be read: it says whose the folder is; restore it, or begin with a"
                " new --out"
            ) from None


def claim(
    files: Files, tables: str, checkpoint: str, pipeline: Pipeline, pinned: Mapping[str, Value]
) -> PipelineIdentity:
    """Return the id of both folders; they get one if both are new, UserError if they differ.

    `tables` and `checkpoint` are the folders that hold the file with the id.
    """
    of_tables, of_checkpoint = _read(files, tables), _read(files, checkpoint)
    new = PipelineIdentity(uuid.uuid4().hex, pipeline.name, pinned)
    if of_tables is None and of_checkpoint is None:
        # The tables come last: a crash in between leaves a checkpoint without any batch.
        files.write(f"{checkpoint}/{NAME}", new.to_json())
        files.write(f"{tables}/{NAME}", new.to_json())
        return new
    if of_tables is None and of_checkpoint is not None and files.names(checkpoint) == [NAME]:
        files.remove(f"{checkpoint}/{NAME}")
        return claim(files, tables, checkpoint, pipeline, pinned)
    if of_tables is None or _has_batches(files, tables, checkpoint):
        return agreed(of_tables, of_checkpoint, new, pipeline.typed)
    # What a run was told that has read nothing, as its topic was misspelt, say, binds nobody.
    kept = {name: value for name, value in of_tables.pinned.items() if name in _OF_PLACE}
    unbound = of_tables._replace(pinned={**pinned, **kept})
    found = agreed(unbound, of_checkpoint, new, pipeline.typed)
    if found != of_tables:
        files.write(f"{tables}/{NAME}", found.to_json())
    return found


def agreed(
    tables: PipelineIdentity | None,
    checkpoint: PipelineIdentity | None,
    wanted: PipelineIdentity,
    typed: Typed,
) -> PipelineIdentity:
    """Return what both folders say; UserError if they differ, or say not what is wanted."""
    if tables is None:
        raise UserError(
            "the checkpoint belongs to other tables than these, which are new: name the folder it"
            " was made with, or begin with a new checkpoint"
        )
    if checkpoint is None or checkpoint.id != tables.id:
        found = "is new" if checkpoint is None else f"belongs to {checkpoint.id}"
        raise UserError(
            f"the tables belong to {tables.id}, but the checkpoint {found}: nothing would be"
            " appended; name the checkpoint they were made with, or a new --out"
        )
    if tables.pipeline != wanted.pipeline:
        raise UserError(
            f"the tables are those of the pipeline {tables.pipeline}, not of {wanted.pipeline}:"
            " name another --out"
        )
    # Where nothing is said of the format, there was no other yet; nor was the place written down.
    pinned = {TABLE_FORMAT: PARQUET, OUT: wanted.pinned.get(OUT), **tables.pinned}
    for name, value in wanted.pinned.items():
        before = pinned.get(name)
        if before != value:
            raise UserError(
                f"the tables were begun with {name}={typed(name, before)}, and cannot go on with"
                f" {typed(name, value)}: give the same, or a new --out"
            )
    return tables


def _has_batches(files: Files, tables: str, checkpoint: str) -> bool:
    """Tell whether a batch was begun by the pipeline, or planned by Spark in one of its queries."""
    queries = (name for name in files.names(checkpoint) if name != NAME)
    planned = any(files.names(f"{checkpoint}/{query}/{OFFSETS}") for query in queries)
    return planned or files.exists(f"{tables}/{BATCH}")


def _read(files: Files, folder: str) -> PipelineIdentity | None:
    place = f"{folder}/{NAME}"
    text = files.read(place)
    return None if text is None else PipelineIdentity.from_json(text, place)
