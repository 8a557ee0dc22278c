"""Questions about the table `logs`, answered from its files without Spark.

The newest rows that match are wanted, and not more than some. So days are gone through from the
newest on, and in a day its row groups by their greatest times, until nothing older can be among
them. Before a row group is read it must have passed

    the folder      its date and level
    the footer      the least and greatest time, host and service of the row group
    the sketch      the text and the fields, where the file has one (see `sketches`)

and then the columns that are asked about are read one after the other, the cheap ones first, as
long as any row is left. Only rows that are shown are read with all that is shown of them. All this
happens in as many threads as there are cores; Arrow computes outside of Python's lock.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from moldau.base.errors import UserError
from moldau.spark.pipelines.logs.committed import TableFile, files_of
from moldau.spark.pipelines.logs.sketches import (
    Sketch,
    pair_marks,
    sketch_place,
    text_marks,
    unpacked_sketches,
)

COLUMNS: Final = ("time", "level", "host", "service", "path", "message", "fields", "stack",
                  "format", "topic", "partition", "offset")  # fmt: skip
"""What a row can be shown with."""

_ORDER: Final = ("time", "partition", "offset")
_TRIES: Final = 3
"""How often a search begins again because files were merged into others and removed meanwhile."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Question:
    """Which rows are wanted; all conditions hold for a row that is."""

    since_us: int | None = None
    until_us: int | None = None
    """Exclusive."""
    levels: frozenset[str] | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    """By column: host, service, path."""
    text: str | None = None
    """Part of the message or of the stack."""
    ignore_case: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    after_batch: int | None = None
    limit: int = 100


class Group(NamedTuple):
    """A row group that may hold rows that are wanted."""

    file: TableFile
    number: int
    footer: pq.FileMetaData
    first_us: int
    last_us: int


class Hit(NamedTuple):
    """A row that matches."""

    time_us: int
    partition: int
    offset: int
    group: Group
    row: int


class Effort(NamedTuple):
    """What an answer took."""

    groups: int = 0
    """Row groups of the days that were looked at."""
    read: int = 0
    """Those that no footer and no sketch ruled out, and that were read."""


class Answer(NamedTuple):
    """The newest rows that match, the newest first."""

    rows: list[dict[str, Any]]
    effort: Effort


def search(table: Path, question: Question, columns: Iterable[str] = COLUMNS) -> Answer:
    """Find rows; UserError if the table cannot be read."""
    for _ in range(_TRIES):
        try:
            return _Search(question, tuple(columns)).run(files_of(table))
        except FileNotFoundError as error:
            gone = error
    raise UserError(f"{gone.filename or gone} is gone, though the log of {table} names it")


class Follower:
    """Looks at a table again and again, each time at the rows that have come since.

    New rows lie in files of appends that were not there before. If those were merged with older
    ones meanwhile, the batches that have brought the rows tell them apart.
    """

    def __init__(self, table: Path, question: Question, columns: Iterable[str] = COLUMNS) -> None:
        self._table = table
        self._question = question
        self._columns = tuple(columns)
        self._append = -1
        self._batch = -1

    def look(self, limit: int) -> list[dict[str, Any]]:
        """Return what has come, in the order of time; the first look finds what was asked for."""
        question = self._question
        if self._append >= 0:
            question = replace(question, after_batch=self._batch, limit=limit)
        for _ in range(_TRIES):
            try:
                fresh = [one for one in files_of(self._table) if append_of(one) > self._append]
                answer = _Search(question, self._columns).run(fresh)
                self._batch = max(self._batch, *(_last_batch(one) for one in fresh), -1)
            except FileNotFoundError:
                continue
            self._append = max(self._append, *map(append_of, fresh), -1)
            return answer.rows[::-1]
        return []


class _Search:
    def __init__(self, question: Question, columns: tuple[str, ...]) -> None:
        self._question = question
        self._columns = columns
        self._pattern = None if question.text is None else _pattern(question)
        self._text_marks = None if question.text is None else text_marks(_runs(question))
        pairs = (*question.fields.items(), *question.values.items())
        self._pair_marks = [pair_marks(name, value) for name, value in pairs]
        self._workers = os.cpu_count() or 1
        self._groups = 0
        self._read = 0

    def run(self, files: list[TableFile]) -> Answer:
        hits: list[Hit] = []
        with ThreadPoolExecutor(self._workers) as pool:
            for _, of_day in groupby(self._wanted(files), key=lambda one: one.keys["date"]):
                if len(hits) >= self._question.limit:
                    break
                groups = self._groups_of(pool, of_day)
                hits = self._newest(pool, groups, hits)
            return Answer(self._shown(pool, hits), Effort(self._groups, self._read))

    # What may be passed over unread

    def _wanted(self, files: list[TableFile]) -> list[TableFile]:
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
        for count, groups in pool.map(self._candidates, files):
            self._groups += count
            found += groups
        return sorted(found, key=lambda group: group.last_us, reverse=True)

    def _candidates(self, file: TableFile) -> tuple[int, list[Group]]:
        """Return how many row groups a file has, and those of them that may match."""
        footer = _footer(file.path)
        places = _places(footer)
        sketches = self._sketches(file, footer)
        found = []
        for number in range(footer.num_row_groups):
            statistics = _Statistics(footer.row_group(number), places)
            first_us, last_us = statistics.span("time")
            if self._may_match(statistics, first_us, last_us) and (
                sketches is None or self._may_hold(sketches[number])
            ):
                found.append(Group(file, number, footer, first_us, last_us))
        return footer.num_row_groups, found

    def _may_match(self, statistics: _Statistics, first_us: int, last_us: int) -> bool:
        question = self._question
        if question.since_us is not None and last_us < question.since_us:
            return False
        if question.until_us is not None and first_us >= question.until_us:
            return False
        if question.after_batch is not None and statistics.span("batch")[1] <= question.after_batch:
            return False
        return all(
            (bounds := statistics.bounds(name)) is None or bounds[0] <= value <= bounds[1]
            for name, value in question.values.items()
        )

    def _sketches(self, file: TableFile, footer: pq.FileMetaData) -> list[Sketch] | None:
        """Return what is known of the row groups; None if that is not asked for, or not known."""
        if self._text_marks is None and not self._pair_marks:
            return None
        try:
            data = Path(sketch_place(str(file.path))).read_bytes()
        except OSError:
            return None
        return unpacked_sketches(data, footer.num_row_groups, footer.num_rows)

    def _may_hold(self, sketch: Sketch) -> bool:
        return all(map(sketch.may_hold_pair, self._pair_marks)) and (
            self._text_marks is None or sketch.may_hold_text(self._text_marks)
        )

    # Reading

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
            known = sorted([*known, *under_way.popleft().result()], key=_age)[:limit]
            begin()
        return known

    def _hits(self, group: Group) -> list[Hit]:
        """Return the newest rows of a row group that match."""
        rows = _Rows(group)
        mask: Mask | None = None
        for condition in self._conditions(group):
            found = condition(rows)
            mask = found if mask is None else mask & found
            if not mask.any():
                return []
        order = [rows.column(name).cast(pa.int64()).to_numpy() for name in _ORDER]
        places = np.arange(len(order[0])) if mask is None else np.flatnonzero(mask)
        chosen = places[np.lexsort([one[places] for one in reversed(order)])]
        time, partition, offset = order
        return [
            Hit(int(time[row]), int(partition[row]), int(offset[row]), group, int(row))
            for row in chosen[-self._question.limit :]
        ]

    def _conditions(self, group: Group) -> Iterator[Callable[[_Rows], Mask]]:
        """Yield what a row must fulfil, what is cheap to look at first."""
        question = self._question
        since_us, until_us = question.since_us, question.until_us
        if since_us is not None and group.first_us < since_us:
            yield lambda rows: rows.times() >= since_us
        if until_us is not None and group.last_us >= until_us:
            yield lambda rows: rows.times() < until_us
        if (after := question.after_batch) is not None:
            yield lambda rows: rows.column("batch").to_numpy() > after
        for name, value in question.values.items():
            yield lambda rows, name=name, value=value: rows.equal(name, value)  # type: ignore[misc]
        if (pattern := self._pattern) is not None:
            yield lambda rows: rows.matching("message", pattern) | rows.matching("stack", pattern)
        for name, value in question.fields.items():
            yield lambda rows, name=name, value=value: rows.with_field(name, value)  # type: ignore[misc]

    def _shown(self, pool: ThreadPoolExecutor, hits: list[Hit]) -> list[dict[str, Any]]:
        """Return hits with all that is shown of them, in their order."""
        by_group: dict[tuple[Path, int], list[int]] = {}
        for place, hit in enumerate(hits):
            by_group.setdefault((hit.group.file.path, hit.group.number), []).append(place)
        parts = pool.map(
            lambda places: self._rows([hits[one] for one in places]), by_group.values()
        )
        found: dict[int, dict[str, Any]] = {}
        for places, rows in zip(by_group.values(), parts, strict=True):
            found.update(zip(places, rows, strict=True))
        return [found[place] for place in range(len(hits))]

    def _rows(self, hits: list[Hit]) -> list[dict[str, Any]]:
        """Return rows of one row group."""
        group = hits[0].group
        stored = [name for name in self._columns if name not in group.file.keys]
        table = _Rows(group).table(stored).take([hit.row for hit in hits])
        return [
            {name: _plain(row.get(name, group.file.keys.get(name))) for name in self._columns}
            for row in table.to_pylist(maps_as_pydicts="lossy")
        ]


class _Statistics:
    """What the footer says of the columns of a row group."""

    def __init__(self, group: pq.RowGroupMetaData, places: Mapping[str, int]) -> None:
        self._group = group
        self._places = places

    def span(self, name: str) -> tuple[int, int]:
        """Return the least and the greatest number of a column."""
        found = self._group.column(self._places[name]).statistics
        if found is None or not found.has_min_max:
            return -(1 << 63), (1 << 63) - 1
        return found.min_raw, found.max_raw

    def is_empty(self, name: str) -> bool:
        """Tell whether a column certainly has no values."""
        found = self._group.column(self._places[name]).statistics
        return (
            found is not None
            and found.has_null_count
            and bool(found.null_count == self._group.num_rows)
        )

    def bounds(self, name: str) -> tuple[str, str] | None:
        """Return the least and the greatest text of a column; None if they are not known."""
        found = self._group.column(self._places[name]).statistics
        return None if found is None or not found.has_min_max else (found.min, found.max)


class _Rows:
    """The rows of one row group, read column by column."""

    def __init__(self, group: Group) -> None:
        self._file = pq.ParquetFile(group.file.path, metadata=group.footer, memory_map=True)
        self._number = group.number
        told = group.footer.row_group(group.number)
        self._row_count: int = told.num_rows
        self._statistics = _Statistics(told, _places(group.footer))

    def table(self, names: list[str]) -> pa.Table:
        """Read some columns."""
        return self._file.read_row_group(self._number, columns=names, use_threads=False)

    def column(self, name: str) -> pa.Array:
        """Read a column."""
        column = self.table([name]).column(0)
        # Joining the pieces of one piece would copy it.
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    def times(self) -> npt.NDArray[np.int64]:
        """Return the times, in microseconds."""
        return self.column("time").cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]

    def equal(self, name: str, value: str) -> Mask:
        """Tell which rows have this value."""
        return _mask(pc.equal(self.column(name), value))

    def matching(self, name: str, pattern: str) -> Mask:
        """Tell which rows hold a text.

        All texts lie one after the other in memory, so they are gone through as if they were one,
        ten times quicker. Only where that finds something each row is looked at.
        """
        if self._statistics.is_empty(name):
            return np.zeros(self._row_count, dtype=np.bool_)
        texts = self.column(name)
        data = texts.buffers()[2]
        if data is None or not _occurs(data, pattern):
            return np.zeros(len(texts), dtype=np.bool_)
        return _mask(pc.match_substring_regex(texts, pattern))

    def with_field(self, name: str, value: str) -> Mask:
        """Tell which rows have a field of this value."""
        column = self.column("fields")
        found = np.zeros(len(column), dtype=np.bool_)
        named = pc.equal(column.keys, name)
        pairs = np.flatnonzero(_mask(pc.and_(named, pc.equal(column.items, value))))
        rows = np.searchsorted(column.offsets.to_numpy(), pairs, side="right") - 1
        found[rows] = True
        return found


def append_of(file: TableFile) -> int:
    """Return the number of the append that has brought a file; its name begins with it."""
    return int(file.path.name.split("-")[1])


def _places(footer: pq.FileMetaData) -> dict[str, int]:
    return {footer.schema.column(place).path: place for place in range(footer.num_columns)}


def _last_batch(file: TableFile) -> int:
    footer = _footer(file.path)
    places = _places(footer)
    groups = range(footer.num_row_groups)
    return max((_Statistics(footer.row_group(one), places).span("batch")[1] for one in groups),
               default=-1)  # fmt: skip


def _date(time_us: int | None) -> str | None:
    """Return the day of a time, as folders are named; None for no time, and for no day we know."""
    try:
        return None if time_us is None else str(datetime.fromtimestamp(time_us / 1e6, UTC).date())
    except (ValueError, OverflowError, OSError):
        return None


def _age(hit: Hit) -> tuple[int, int, int]:
    """Put the newest first."""
    return -hit.time_us, -hit.partition, -hit.offset


def _footer(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except pa.ArrowInvalid as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def _occurs(data: pa.Buffer, pattern: str) -> bool:
    whole = pa.py_buffer(np.array([0, data.size], dtype=np.int64))
    one = pa.Array.from_buffers(pa.large_string(), 1, [None, whole, data])
    return bool(pc.match_substring_regex(one, pattern)[0].as_py())


def _mask(found: pa.Array) -> Mask:
    return found.fill_null(False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _pattern(question: Question) -> str:
    """Return the regular expression of a text, as RE2 understands it."""
    assert question.text is not None
    if not question.ignore_case:
        return re.escape(question.text)
    return "".join(
        re.escape(one) if len(forms) == 1 else f"[{''.join(sorted(forms))}]"
        for one in question.text
        for forms in [_forms(one)]
    )


def _forms(letter: str) -> set[str]:
    """Return a character in upper and lower case, as far as each is one character."""
    return {one for one in (letter, letter.lower(), letter.upper()) if len(one) == 1}


def _runs(question: Question) -> list[str]:
    """Return the parts of the text whose bytes are known but for the case of ASCII letters."""
    assert question.text is not None
    if not question.ignore_case:
        return [question.text]
    ascii_only = (one if all(map(str.isascii, _forms(one))) else "\n" for one in question.text)
    return "".join(ascii_only).split("\n")


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value
