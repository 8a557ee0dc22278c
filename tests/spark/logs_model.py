"""The log pipeline, worked out by hand: lines whose meaning is known, and what tables must hold.

Which records came in one batch is taken from the tables; all else is computed here, in plain Python
and without reading any line.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from spark.activity_model import committed_files, rows_of

FIRST = datetime(2026, 11, 15, 12, tzinfo=UTC)
WINDOW_S, DELAY_S = 10, 20
ALERT_RATE, ALERT_ERRORS = 0.3, 3
OPTIONS: Mapping[str, Any] = {
    "window": WINDOW_S * 1000,
    "delay": DELAY_S * 1000,
    "skew": 600_000,
    "idle": 300_000,
    "max-line": 1000,
    "alert-rate": ALERT_RATE,
    "alert-factor": 1000,
    "alert-errors": ALERT_ERRORS,
}
BATCH_ROWS = 60
"""A batch spans 20 s of lines: most of them close windows."""

LEVELS = {"DEBUG": 1, "INFO": 6, "WARN": 2, "ERROR": 3}
TRACE = 'Traceback (most recent call last):\n  File "shop.py", line 3\nNoPlums: none left'


class Sent(NamedTuple):
    """A record, and what its line means; None for one that is no line."""

    offset: int
    value: bytes
    host: str
    path: str
    sent: datetime
    meaning: dict[str, Any] | None


def made_up(count: int, seed: int = 7) -> list[Sent]:
    """Return records of all kinds, three a second; some are late, some are broken."""
    random = Random(seed)
    return [_record(random, offset) for offset in range(count)]


def _record(random: Random, offset: int) -> Sent:
    sent = FIRST + timedelta(milliseconds=333 * offset)
    host = f"web-{random.randrange(3)}"
    service = random.choice(["shop", "cart"])
    path = f"/var/log/{service}.log"
    if random.random() < 0.04:
        return Sent(offset, random.choice([b"\xff\xfe", b"x" * 2000]), host, path, sent, None)
    time = sent - timedelta(seconds=random.randrange(60) if random.random() < 0.1 else 0)
    level = random.choices(list(LEVELS), list(LEVELS.values()))[0]
    told = {
        "time": time,
        "level": level,
        "service": service,
        "message": f"line {offset} of {random.choice(['plums', 'pears', 'figs'])}",
        "stack": None,
        "fields": {},
    }
    form = random.choice(["json", "logfmt", "python", "java", "plain", "trace", "ancient"])
    text, more = _written(form, told, offset)
    return Sent(offset, text.encode(), host, path, sent, {**told, **more, "sent": sent})


def _written(form: str, told: dict[str, Any], offset: int) -> tuple[str, dict[str, Any]]:
    """Return a line, and what it means beside or instead of what it was to say."""
    iso = told["time"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
    plain = iso.replace("T", " ").removesuffix("Z").replace(".", ",")
    level, message = told["level"], told["message"]
    match form:
        case "json":
            line = {"time": iso, "level": level.lower(), "msg": message, "request": {"id": offset}}
            line["share"] = math.nan
            return json.dumps(line), {"fields": {"request.id": str(offset), "share": "NaN"}}
        case "logfmt":
            return f'ts={iso} level={level} msg="{message}" user=u-{offset % 5}', {
                "fields": {"user": f"u-{offset % 5}"}
            }
        case "python":
            return f"{plain} {level} shop.sale: {message}", {"fields": {"logger": "shop.sale"}}
        case "java":
            return f"{plain} [main] {level:5} com.example.Shop - {message}", {
                "fields": {"logger": "com.example.Shop", "thread": "main"}
            }
        case "trace":
            return f"{plain} {level} shop.sale: {message}\n{TRACE}", {
                "fields": {"logger": "shop.sale"},
                "stack": TRACE,
            }
        case "ancient":
            claimed = {"claimed_time_us": "-62135600400000000"}
            return f"0001-01-01 00:00:00 +01:00 {level} {message}", {
                "fields": claimed,
                "time": None,
            }
        case _:
            return message, {"time": None, "level": "NONE"}


def logged(out: Path) -> list[dict[str, Any]]:
    """Return the rows of the table `logs`, with what their folders are named for."""
    rows = []
    for path in committed_files(out / "logs"):
        keys = dict(folder.split("=") for folder in path.parts[-3:-1])
        table = pq.ParquetFile(path).read()
        rows += [{**row, **keys, "fields": dict(row["fields"])} for row in table.to_pylist()]
    return rows


def check_tables(out: Path, records: Sequence[Sent]) -> Counter[str]:
    """Compare every table with what the records say it must hold; return the fates of records."""
    rows, dead = logged(out), rows_of(out, "dead_letters")
    batch_of = {row["offset"]: row["batch"] for row in [*rows, *dead]}
    assert len(batch_of) == len(rows) + len(dead), "a record was filed twice"
    assert set(batch_of) == {record.offset for record in records}
    assert {row["offset"] for row in dead} == {one.offset for one in records if not one.meaning}
    by_offset = {row["offset"]: row for row in rows}
    for record in records:
        if record.meaning is not None:
            _check_row(by_offset[record.offset], record)
    return _check_windows(out, rows, batch_of)


def _check_row(row: dict[str, Any], record: Sent) -> None:
    assert record.meaning is not None
    time = record.meaning["time"] or record.meaning["sent"]
    expected = {
        "time": time.replace(microsecond=time.microsecond // 1000 * 1000),
        "date": time.date().isoformat(),
        "level": record.meaning["level"],
        "host": record.host,
        "service": record.meaning["service"],
        "path": record.path,
        "message": record.meaning["message"],
        "stack": record.meaning["stack"],
        "fields": record.meaning["fields"],
    }
    assert {name: row[name] for name in expected} == expected


def _check_windows(out: Path, rows: list[dict[str, Any]], batch_of: dict[int, int]) -> Counter[str]:
    """Go through the batches again: who is late, which windows are over, what they hold."""
    newest: datetime | None = None
    closed: datetime | None = None
    counts: dict[tuple[datetime, str], list[int]] = defaultdict(lambda: [0, 0])
    fates: Counter[str] = Counter()
    for number in range(max(batch_of.values()) + 1):
        for row in (one for one in rows if one["batch"] == number):
            late = closed is not None and row["time"] < closed
            assert row["late"] is late
            fates["late" if late else "on time"] += 1
            if late:
                continue
            newest = max(newest or row["time"], row["time"])
            count = counts[_start(row["time"]), row["service"]]
            count[0] += 1
            count[1] += row["level"] in ("ERROR", "FATAL")
        if newest is not None:
            until = _start(newest - timedelta(seconds=DELAY_S))
            if closed is not None or any(start < until for start, _ in counts):
                closed = max(closed or until, until)
    over = {key: tuple(count) for key, count in counts.items() if closed and key[0] < closed}
    rates = rows_of(out, "error_rates")
    assert len(rates) == len(over)
    assert {(row["window_start"], row["service"]): (row["rows"], row["errors"])
            for row in rates} == over  # fmt: skip
    for row in rates:
        assert row["rate"] == row["errors"] / row["rows"]
        assert row["window_end"] - row["window_start"] == timedelta(seconds=WINDOW_S)
    alerts = [(row["window_start"], row["service"], row["kind"]) for row in rows_of(out, "alerts")]
    assert sorted(alerts) == sorted(_alerts(over, closed))
    return fates


def _alerts(
    over: dict[tuple[datetime, str], tuple[int, ...]], closed: datetime | None
) -> list[tuple[datetime, str, str]]:
    found = []
    raised: set[str] = set()
    starts = {start for start, _ in over}
    after = {start + timedelta(seconds=WINDOW_S) for start in starts}  # perhaps without any line
    for start in sorted(starts | {one for one in after if closed and one < closed}):
        for service in ("cart", "shop"):
            rows, errors = over.get((start, service), (0, 0))
            rate = errors / rows if rows else 0
            if service in raised and rate <= ALERT_RATE / 2:
                raised.remove(service)
                found.append((start, service, "over"))
            elif service not in raised and errors >= ALERT_ERRORS and rate > ALERT_RATE:
                raised.add(service)
                found.append((start, service, "raised"))
    return found


def _start(time: datetime) -> datetime:
    seconds = int(time.timestamp()) // WINDOW_S * WINDOW_S
    return datetime.fromtimestamp(seconds, UTC)
