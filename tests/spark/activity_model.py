"""The activity pipeline, worked out by hand: what its tables must hold, from the records alone.

Which records came in one batch is taken from the tables; all else, fates included, is computed here
in plain Python and by other means than the pipeline's.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow.parquet as pq

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


class Record(NamedTuple):
    partition: int
    offset: int
    value: bytes | None


class Rules(NamedTuple):
    window_s: int
    delay_s: int
    gap_s: int
    top: int


def committed_files(table: Path) -> list[Path]:
    """Return the files that the log of a table names, by Spark's rules for reading it."""
    log = table / "_spark_metadata"
    if not log.exists():
        return []
    names = [path.name for path in log.iterdir() if not path.name.startswith(".")]
    compacts = [int(name.removesuffix(".compact")) for name in names if name.endswith(".compact")]
    first = max(compacts, default=-1)
    later = sorted(int(name) for name in names if name.isdigit() and int(name) > first)
    assert later == list(range(first + 1, first + 1 + len(later)))
    parts = ([f"{first}.compact"] if compacts else []) + [str(number) for number in later]
    paths = []
    for part in parts:
        head, *lines = (log / part).read_text().split("\n")
        assert head == "v1"
        uris = [json.loads(line)["path"] for line in lines if line]
        paths += [Path(unquote(uri.removeprefix("file:"))) for uri in uris]
    assert len(set(paths)) == len(paths)
    return paths


def rows_of(out: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    return [
        row
        for path in committed_files(out / table)
        for row in pq.ParquetFile(path).read().to_pylist()
    ]


def stray_files(out: Path, tables: Iterable[str]) -> set[Path]:
    """Return files in the places of rows that no log names."""
    return {
        path
        for table in tables
        for path in (out / table).glob("date=*/*.parquet")
        if path not in set(committed_files(out / table))
    }


def parse(value: bytes | None) -> dict[str, Any] | None:
    """Read an event; None if it is none."""
    try:
        event = json.loads((value or b"").decode())
    except ValueError:
        return None
    name = {"view": "page", "search": "query"}.get(event.get("kind"))
    if name is None or not all(event.get(one) for one in ("event_id", "user", name, "time")):
        return None
    if len(event[name]) > 2048:
        return None
    try:
        event["time"] = datetime.fromisoformat(event["time"])
    except ValueError:
        return None
    return event if event["time"] >= EARLIEST and event["time"].year <= 2050 else None


class Expected:
    """Goes through batches as the pipeline is to."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.fates: dict[str, set[tuple[int, int]]] = {
            "events": set(),
            "late": set(),
            "dead_letters": set(),
        }
        self.closed_until: datetime | None = None
        self.late_for: dict[tuple[int, int], datetime] = {}
        """Up to when windows were closed as each late record came."""
        self._newest: datetime | None = None
        self._events: dict[str, dict[str, Any]] = {}

    def batch(self, records: Iterable[Record]) -> None:
        known = self.closed_until
        for record in records:
            event = parse(record.value)
            fate = "dead_letters"
            if event is not None:
                fate = "late" if known is not None and event["time"] < known else "events"
            self.fates[fate].add((record.partition, record.offset))
            if fate == "late" and known is not None:
                self.late_for[record.partition, record.offset] = known
            if event is not None and fate == "events":
                self._newest = max(self._newest or event["time"], event["time"])
                self._events[json.dumps(event, default=str, sort_keys=True)] = event
        if self._newest is not None:
            until = self.start(self._newest - timedelta(seconds=self.rules.delay_s))
            if any(event["time"] < until for event in self._events.values()):
                self.closed_until = max(self.closed_until or until, until)

    def end(self) -> None:
        """End a run that has read all there is: windows that have events are closed."""
        if self._newest is not None:
            until = self.start(self._newest) + timedelta(seconds=self.rules.window_s)
            self.closed_until = max(self.closed_until or until, until)

    def start(self, time: datetime) -> datetime:
        seconds = int(time.timestamp()) // self.rules.window_s * self.rules.window_s
        return datetime.fromtimestamp(seconds, time.tzinfo)

    def _closed(self, kind: str) -> list[dict[str, Any]]:
        return [
            event
            for event in self._events.values()
            if event["kind"] == kind and self.closed_until and event["time"] < self.closed_until
        ]

    def counts(self, kind: str, name: str) -> set[tuple[Any, ...]]:
        """Return (window start, name, count, users)."""
        counted: Counter[tuple[Any, str]] = Counter()
        users = defaultdict(set)
        for event in self._closed(kind):
            key = (self.start(event["time"]), event[name])
            counted[key] += 1
            users[key].add(event["user"])
        return {(*key, count, len(users[key])) for key, count in counted.items()}

    def users(self) -> set[tuple[Any, ...]]:
        """Return (window start, user, views, searches)."""
        counted: Counter[tuple[Any, ...]] = Counter()
        for kind in ("view", "search"):
            for event in self._closed(kind):
                counted[self.start(event["time"]), event["user"], kind] += 1
        pairs = {(start, user) for start, user, _ in counted}
        return {(*pair, counted[*pair, "view"], counted[*pair, "search"]) for pair in pairs}

    def tops(self, kind: str, name: str) -> set[tuple[Any, ...]]:
        """Return (window start, rank, name)."""
        windows = defaultdict(list)
        for start, called, count, _ in self.counts(kind, name):
            windows[start].append((-count, called))
        return {
            (start, rank, called)
            for start, found in windows.items()
            for rank, (_, called) in enumerate(sorted(found)[: self.rules.top], 1)
        }

    def sessions(self) -> set[tuple[Any, ...]]:
        """Return (user, start, end, views, searches) of sessions that are over."""
        gap = timedelta(seconds=self.rules.gap_s)
        by_user = defaultdict(list)
        for event in self._closed("view") + self._closed("search"):
            by_user[event["user"]].append(event)
        found = set()
        for user, events in by_user.items():
            events.sort(key=lambda event: event["time"])
            session = [events[0]]
            for event in [*events[1:], None]:
                if event is not None and event["time"] - session[-1]["time"] < gap:
                    session.append(event)
                    continue
                if session[-1]["time"] + gap <= self.closed_until:
                    kinds = Counter(one["kind"] for one in session)
                    span = (session[0]["time"], session[-1]["time"])
                    found.add((user, *span, kinds["view"], kinds["search"]))
                session = [event]
        return found


def check_tables(
    out: Path, records: list[Record], rules: Rules, ends: Collection[int] = ()
) -> Expected:
    """Compare every table with what the records say it must hold.

    `ends` are the batches after which a run had read all there was; -1 is the last one.
    """
    filed = {name: rows_of(out, name) for name in ("events", "late", "dead_letters")}
    places = [
        (row["partition"], row["offset"], row["batch"]) for rows in filed.values() for row in rows
    ]
    batch_of = {(partition, offset): batch for partition, offset, batch in places}
    assert len(batch_of) == len(places), "a record was filed twice"
    assert set(batch_of) == {(record.partition, record.offset) for record in records}
    expected = Expected(rules)
    last = max(batch_of.values())
    for number in range(last + 1):
        expected.batch(one for one in records if batch_of[one.partition, one.offset] == number)
        if number in ends or (number == last and -1 in ends):
            expected.end()
    for name, rows in filed.items():
        assert {(row["partition"], row["offset"]) for row in rows} == expected.fates[name], name
    _check_rows(filed, records, expected)
    _check(out, "pages", ("window_start", "page", "pv", "uv"), expected.counts("view", "page"))
    _check(
        out,
        "searches",
        ("window_start", "query", "searches", "users"),
        expected.counts("search", "query"),
    )
    _check(out, "users", ("window_start", "user", "views", "searches"), expected.users())
    for row in rows_of(out, "pages"):
        assert is_near(row["uv_approx"], row["uv"])
    _check(out, "top_pages", ("window_start", "rank", "page"), expected.tops("view", "page"))
    tops = expected.tops("search", "query")
    _check(out, "top_searches", ("window_start", "rank", "query"), tops)
    columns = ("user", "start", "end", "views", "searches")
    _check(out, "sessions", columns, expected.sessions())
    return expected


def _check_rows(
    filed: dict[str, list[dict[str, Any]]], records: list[Record], expected: Expected
) -> None:
    """Compare every row of a record with the record."""
    value_of = {(record.partition, record.offset): record.value for record in records}
    for row in filed["dead_letters"]:
        assert row["value"] == value_of[row["partition"], row["offset"]]
        assert row["reason"]
    for name in ("events", "late"):
        for row in filed[name]:
            place = (row["partition"], row["offset"])
            event = parse(value_of[place]) or {}
            fields = ("event_id", "kind", "user", "page", "query", "time")
            assert [row[one] for one in fields] == [event.get(one) for one in fields], name
            assert row.get("closed_until") == expected.late_for.get(place), name


def is_near(approximate: int, exact: int) -> bool:
    """Tell whether a number of users may stand for the exact one, three deviations of 5 % away."""
    return abs(approximate - exact) <= max(1, 0.15 * exact)


def live_counts(records: list[Record], rules: Rules, rows: int) -> dict[str, tuple[int, int]]:
    """Return the last count and users of every key that is sent while windows are open.

    `rows` are those of a batch. Spark drops an event if its window ends before its watermark, which
    follows from the batches before the last one. Events that were sent twice count twice.
    """
    counted: Counter[str] = Counter()
    users = defaultdict(set)
    windows = Expected(rules)
    watermarks: list[datetime] = []
    for first in range(0, len(records), rows):
        events = list(filter(None, (parse(one.value) for one in records[first : first + rows])))
        for event in events:
            start = windows.start(event["time"])
            if len(watermarks) > 1 and start + timedelta(seconds=rules.window_s) <= watermarks[-2]:
                continue
            name = event["page"] if event["kind"] == "view" else event["query"]
            key = f"{start:%Y-%m-%dT%H:%M:%SZ} {event['kind']} {name}"
            counted[key] += 1
            users[key].add(event["user"])
        watermark = max(event["time"] for event in events) - timedelta(seconds=rules.delay_s)
        watermarks.append(max([watermark, *watermarks[-1:]]))
    return {key: (count, len(users[key])) for key, count in counted.items()}


LIVE_NAMES = {
    "view": ("page", "pv", "uv_approx"),
    "search": ("query", "searches", "users_approx"),
}


def check_live(
    sent: Iterable[tuple[bytes, bytes]], records: list[Record], rules: Rules, rows: int
) -> None:
    """Compare the last message of every key with the records."""
    expected = live_counts(records, rules, rows)
    last = {key.decode(): json.loads(value) for key, value in sent}
    assert last.keys() == expected.keys()
    for key, told in last.items():
        start, kind, name = key.split(" ", 2)
        assert told.keys() == {"window_start", "window_end", *LIVE_NAMES[kind]}
        called, count, users = (told[one] for one in LIVE_NAMES[kind])
        assert (told["window_start"], called, count) == (start, name, expected[key][0])
        span = [datetime.fromisoformat(told[one]) for one in ("window_start", "window_end")]
        assert span[1] - span[0] == timedelta(seconds=rules.window_s)
        assert is_near(users, expected[key][1])


def _check(out: Path, table: str, columns: tuple[str, ...], expected: set[Any]) -> None:
    rows = [tuple(row[column] for column in columns) for row in rows_of(out, table)]
    assert len(set(rows)) == len(rows), f"{table} has rows twice"
    assert set(rows) == expected, table
