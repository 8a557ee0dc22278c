"""The search: which row groups are read, in which order, and when the newest rows are found."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.base.errors import UserError
from moldau.spark.pipelines.logs.search.groups import Group, Sieve
from moldau.spark.pipelines.logs.search.patterns import (
    Probe,
    WantedText,
    wanted_expression,
    wanted_text,
)
from moldau.spark.pipelines.logs.search.question import Question
from moldau.spark.pipelines.logs.search.rows import Mask, Rows, are_few
from moldau.spark.pipelines.tables.committed import TableFile, files_of

COLUMNS: Final = ("time", "level", "host", "service", "path", "message", "fields", "stack",
                  "format", "topic", "partition", "offset")  # fmt: skip
"""What a row can be shown with."""

TRIES: Final = 3
"""How often a search begins again because files were merged into others and removed meanwhile."""

_ORDER: Final = ("time", "partition", "offset")

Condition: TypeAlias = Callable[[Mask], Mask]
"""Tells of rows that are left which of them fulfil it."""


class Part(NamedTuple):
    """Rows of one row group that match, with what is shown of them."""

    keys: Mapping[str, str]
    columns: Mapping[str, pa.Array]


class Hit(NamedTuple):
    """A row that matches."""

    time_us: int
    partition: int
    offset: int
    part: Part
    place: int
    """Among the rows of its part."""


class Effort(NamedTuple):
    """What an answer took."""

    groups: int
    """Row groups of the days that were looked at."""
    read: int
    """Those that no footer and no sketch ruled out, and that were read."""


class Answer(NamedTuple):
    """The newest rows that match, the newest first."""

    rows: list[dict[str, Any]]
    effort: Effort


def search(table: Path, question: Question, columns: Iterable[str] = COLUMNS) -> Answer:
    """Find rows; UserError if the table cannot be read, or an expression not be understood."""
    for _ in range(TRIES):
        try:
            return Search(question, tuple(columns)).run(files_of(table))
        except FileNotFoundError as error:
            gone = error
    raise UserError(f"{gone.filename or gone} is gone, though the log of {table} names it")


class Search:
    """One search."""

    def __init__(self, question: Question, columns: tuple[str, ...]) -> None:
        self._question = question
        self._columns = columns
        self._wanted, self._unwanted = _wanted(question), _unwanted(question)
        self._sieve = Sieve(question, self._wanted)
        self._workers = os.cpu_count() or 1
        self._groups = 0
        self._read = 0

    def run(self, files: list[TableFile]) -> Answer:
        """Go through files of the table."""
        hits: list[Hit] = []
        with ThreadPoolExecutor(self._workers) as pool:
            for _, of_day in groupby(self._of_days(files), key=lambda one: one.keys["date"]):
                if len(hits) >= self._question.limit:
                    break
                groups = self._groups_of(pool, of_day)
                hits = self._newest(pool, groups, hits)
        return Answer([*map(self._shown, hits)], Effort(self._groups, self._read))

    def _of_days(self, files: list[TableFile]) -> list[TableFile]:
        """Return the files of days and levels that are asked for, the newest day first."""
        levels = self._question.levels
        since, until = _date(self._question.since_us), _date(self._question.until_us)
        found = [
            file
            for file in files
            if (levels is None or file.keys["level"] in levels)
            and (since is None or file.keys["date"] >= since)
            and (until is None or file.keys["date"] <= until)
        ]
        return sorted(found, key=lambda file: file.keys["date"], reverse=True)

    def _groups_of(self, pool: ThreadPoolExecutor, files: Iterable[TableFile]) -> list[Group]:
        """Return the row groups that may match, those with the newest rows first."""
        found = []
        for count, groups in pool.map(self._sieve.candidates, files):
            self._groups += count
            found += groups
        return sorted(found, key=lambda group: group.last_us, reverse=True)

    # Which rows

    def _newest(self, pool: ThreadPoolExecutor, groups: list[Group], known: list[Hit]) -> list[Hit]:
        """Return the newest hits of known ones and of row groups, which come newest first."""
        limit = self._question.limit
        under_way: deque[Future[list[Hit]]] = deque()
        ahead = iter(groups)

        def begin() -> None:
            group = next(ahead, None)
            if group is not None and not (
                len(known) >= limit and known[limit - 1].time_us > group.last_us
            ):
                self._read += 1
                under_way.append(pool.submit(self._hits, group))

        for _ in range(self._workers + 1):
            begin()
        while under_way:
            found = under_way.popleft().result()
            if found:
                known = sorted([*known, *found], key=_age)[:limit]
            begin()
        return known

    def _hits(self, group: Group) -> list[Hit]:
        """Return the newest rows of a row group that match.

        Nearly all that are found are shown in the end, as the newest are looked for first. So what
        is shown of them is read at once, with what they are sorted by.
        """
        rows = Rows(group)
        left = rows.possible()
        for condition in self._conditions(rows, group, fields_last=are_few(left)):
            left &= condition(left)
            if not left.any():
                return []
        places = np.flatnonzero(left)
        keys = group.file.keys
        shown = [name for name in self._columns if name not in keys]
        rows.load({*_ORDER, *shown})
        order = [rows.numbers(name)[places] for name in _ORDER]
        newest = np.lexsort(order[::-1])[-self._question.limit :]
        part = Part(keys, rows.taken(shown, places[newest]))
        times, partitions, offsets = (one[newest].tolist() for one in order)
        return [
            Hit(times[place], partitions[place], offsets[place], part, place)
            for place in range(len(newest))
        ]

    def _conditions(self, rows: Rows, group: Group, *, fields_last: bool) -> Iterator[Condition]:
        """Yield what tells which of the rows that are left fulfil a condition, the cheap first.

        Fields take longer to read than messages, but their values are compared more quickly: so
        they are best last if sketches have left few rows to compare, and before messages otherwise.
        """
        yield from self._on_columns(rows, group)
        absent = rows.absent(
            probe for one in (*self._wanted, *self._unwanted) for probe in one.probes
        )
        if any(not absent.isdisjoint(one.probes) for one in self._wanted):
            yield np.zeros_like
            return
        fields = [partial(rows.with_field, *field) for field in self._question.fields.items()]
        texts = self._on_texts(rows, absent)
        yield from chain(texts, fields) if fields_last else chain(fields, texts)

    def _on_columns(self, rows: Rows, group: Group) -> Iterator[Condition]:
        question = self._question
        since_us, until_us, after = question.since_us, question.until_us, question.after_batch
        if since_us is not None and group.first_us < since_us:
            yield lambda _: rows.numbers("time") >= since_us
        if until_us is not None and group.last_us >= until_us:
            yield lambda _: rows.numbers("time") < until_us
        if after is not None:
            yield lambda _: rows.numbers("batch") > after
        for name, value in question.values.items():
            yield lambda _, name=name, value=value: rows.equal(name, value)  # type: ignore[misc]

    def _on_texts(self, rows: Rows, absent: set[Probe]) -> Iterator[Condition]:
        for one in self._wanted:
            yield partial(rows.matching, one)
        for one in self._unwanted:
            if absent.isdisjoint(one.probes):
                yield lambda left, one=one: ~rows.matching(one, left)  # type: ignore[misc]

    # What is shown of them

    def _shown(self, hit: Hit) -> dict[str, Any]:
        """Return what is shown of a hit."""
        keys, columns = hit.part
        return {
            name: keys[name]
            if name in keys
            else _plain(columns[name][hit.place].as_py(maps_as_pydicts="lossy"))
            for name in self._columns
        }


def _wanted(question: Question) -> list[WantedText]:
    case = question.ignore_case
    found = [
        *(wanted_text(one, ignore_case=case) for one in question.texts),
        *(wanted_expression(one, ignore_case=case) for one in question.expressions),
    ]
    for one in found:
        try:
            pc.match_substring_regex("", one.pattern)
        except pa.ArrowInvalid as error:
            raise UserError(f"{one.pattern!r} is no regular expression: {error}") from None
    return found


def _unwanted(question: Question) -> list[WantedText]:
    return [wanted_text(one, ignore_case=question.ignore_case) for one in question.without]


def _date(time_us: int | None) -> str | None:
    """Return the day of a time, as folders are named; None for no time, and for no day we know."""
    try:
        return None if time_us is None else str(datetime.fromtimestamp(time_us / 1e6, UTC).date())
    except (ValueError, OverflowError, OSError):
        return None


def _age(hit: Hit) -> tuple[int, int, int]:
    """Put the newest first."""
    return -hit.time_us, -hit.partition, -hit.offset


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value
