"""Looking at the table again and again, each time at the rows that have come since.

New rows lie in files of appends that were not there before. If those were merged with older ones
meanwhile, the batches that have brought the rows tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from moldau.spark.pipelines.logs.search.groups import mapped, span
from moldau.spark.pipelines.logs.search.newest import COLUMNS, TRIES, Search
from moldau.spark.pipelines.logs.search.question import Question
from moldau.spark.pipelines.tables.committed import TableFile, files_of


class Look(NamedTuple):
    """What one look at the table has found."""

    rows: list[dict[str, Any]]
    """In the order of time."""
    is_cut: bool
    """More have come than the limit allows, and the older ones are not among these."""


class Follower:
    """Remembers what it has seen of a table."""

    def __init__(self, table: Path, question: Question, columns: Iterable[str] = COLUMNS) -> None:
        self._table = table
        self._question = question
        self._columns = tuple(columns)
        self._append = -1
        self._batch = -1

    def look(self, limit: int) -> Look:
        """Return what has come; the first look finds what was asked for, which is never cut."""
        question = self._question
        if self._append >= 0:
            question = replace(question, after_batch=self._batch, limit=limit + 1)
        for _ in range(TRIES):
            try:
                fresh = [one for one in files_of(self._table) if _append_of(one) > self._append]
                answer = Search(question, self._columns).run(fresh)
                self._batch = max(self._batch, *(_last_batch(one) for one in fresh), -1)
            except FileNotFoundError:
                continue
            is_cut = self._append >= 0 and len(answer.rows) > limit
            self._append = max(self._append, *map(_append_of, fresh), -1)
            return Look((answer.rows[:limit] if is_cut else answer.rows)[::-1], is_cut)
        return Look([], is_cut=False)


def _append_of(file: TableFile) -> int:
    """Return the number of the append that has brought a file; its name begins with it."""
    return int(file.path.name.split("-")[1])


def _last_batch(file: TableFile) -> int:
    opened = mapped(file)
    groups = range(opened.footer.num_row_groups)
    return max((span(opened, number, "batch")[1] for number in groups), default=-1)
