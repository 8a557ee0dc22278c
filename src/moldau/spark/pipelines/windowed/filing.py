"""Rows into tables, each append under the number that the state gives it.

A batch that is run again has the same rows and the same state before it, hence the same numbers;
a table that has a number takes nothing twice. An append without rows is none, and takes no number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame

from moldau.spark.pipelines.records.gathering import Chosen, Rows
from moldau.spark.pipelines.tables.appending import TableWriter, file_count
from moldau.spark.pipelines.windowed.closing import State


class Share(NamedTuple):
    """The part of some rows that goes to one table."""

    table: str
    columns: Mapping[str, str]
    """By the names of the table, those of the rows. One is `date`, under which rows are filed."""
    chosen: Chosen | None = None
    """Which rows; all of them without it."""


class Filing:
    """The tables of a pipeline, by name."""

    def __init__(self, tables: Mapping[str, TableWriter]) -> None:
        self._tables = tables

    def file(self, state: State, rows: Rows, shares: Sequence[Share]) -> State:
        """Append each share to its table, and return the state after that."""
        for share in shares:
            state, _ = self.append(state, rows, share)
        return state

    def append(self, state: State, rows: Rows, share: Share) -> tuple[State, list[str]]:
        """Append one share; return the state after it and names to read it by."""
        count = rows.count(share.chosen)
        if not count:
            return state, []
        part = rows.part(share.chosen, share.columns)
        if isinstance(part, DataFrame):
            part = part.coalesce(file_count(count))
        number = state.next_append(share.table)
        paths = self._tables[share.table].append(part, number, state.wanted())
        return state.with_append(share.table), paths
