"""What a pipeline says of itself before anything of it runs: its name, its options, its entry.

Plain values, so that a command line can list pipelines and explain their options without Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from moldau.base.errors import ConfigError


class Kind(Enum):
    """What an option is."""

    TEXT = "text"
    COUNT = "count"
    DURATION = "duration"
    """Milliseconds, where a program reads it; people write `30s` or `5m`."""
    RATIO = "ratio"


Value = str | int | float | None
"""What an option may hold; None where it was not given and has no default."""


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that a user may say about a pipeline."""

    name: str
    """As it is typed, without dashes in front: `session-gap`."""
    kind: Kind
    default: str | None
    text: str
    pinned: bool = False
    """Whether tables that were begun with one value cannot go on with another."""
    may_be_zero: bool = False
    """Whether a duration of none at all makes sense: that of a window does not."""
    check: Callable[[str], object] | None = None
    """Raises UserError for a text that makes no sense."""
    needs: str | None = None
    """The option without which this one has no effect."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline, declared."""

    name: str
    text: str
    """One line for help."""
    entry: str
    """`module:function`, imported when it runs: `function(stage)` starts the queries."""
    options: tuple[Option, ...]
    tables: tuple[str, ...]
    """The folders it fills below `--out`."""

    def pinned(self, values: dict[str, Value]) -> dict[str, Value]:
        """Return those of the values that a table cannot change any more."""
        return {one.name: values[one.name] for one in self.options if one.pinned}

    def typed(self, name: str, value: Value) -> str:
        """Return the value of an option as people write it: a duration not in milliseconds."""
        is_duration = any(one.name == name and one.kind is Kind.DURATION for one in self.options)
        if not is_duration or not isinstance(value, int):
            return str(value)
        return f"{value}ms" if value % 1000 else f"{value // 1000}s"


PARQUET: Final = "parquet"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
TABLE_FORMATS: Final = (PARQUET, DELTA, ICEBERG)
"""In which forms tables can be kept."""

TABLE_FORMAT: Final = "table-format"
"""The option of the frame that says which; tables cannot change it any more."""

NAMES_OF_FRAME: Final = frozenset(
    {"out", "master", "trigger", "once", "checkpoint", "conf", TABLE_FORMAT}
)
"""Options that every pipeline has; none may declare them again."""


def checked(pipeline: Pipeline) -> Pipeline:
    """Refuse a declaration whose options are not told apart."""
    names = [one.name for one in pipeline.options]
    if len(set(names)) < len(names) or NAMES_OF_FRAME & set(names):
        raise ConfigError(f"the pipeline {pipeline.name} declares an option twice: {names}")
    return pipeline
