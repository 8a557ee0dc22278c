"""The changelog pipeline, worked out by hand: changes, and what its tables must hold after them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from moldau.spark.pipelines.changelog.reading import Snapshot, current
from spark.activity_model import rows_of

Change = tuple[bytes | None, bytes | None]
"""The key and the value of a record."""

BROKEN: dict[Change, str] = {
    (None, b"{}"): "no key",
    (b"\xff", b"{}"): "key is not UTF-8",
    (b"k-1", b"\xff"): "not UTF-8",
    (b"k-2", b"{"): "not JSON",
    (b"k-3", b"[]"): "not a JSON object",
    (b"k-4", b'{"a":' * 300 + b"1" + b"}" * 300): "JSON nested too deeply",
}

SAME_TO_SPARK = ("\u0131d", "\u0130x", "i\u0307x", "\u00b5", "\u03bc")
"""Names that Spark takes for `id`, and for each other."""


def made_up_records(count: int, keys: int = 40) -> list[Change]:
    """Return records of a topic: types change, fields come and go, rows too."""
    chance = random.Random(5)
    records: list[Change] = []
    for number in range(count - len(BROKEN)):
        late = number > count // 2
        value = {"id": number, "Name": f"n {number}", "price": number / 2 if late else number}
        value |= dict.fromkeys(SAME_TO_SPARK, number)
        if number % 3 == 0:
            value["PRICE"] = value.pop("price")
        if late:
            value |= {"id": str(number), "tags": [number], "new": True}
            del value["Name"]
        is_delete = chance.random() < 0.2
        key = b"k-%d" % chance.randrange(keys)
        records.append((key, None if is_delete else json.dumps(value).encode()))
    for at, record in enumerate(BROKEN):
        records.insert(at * count // len(BROKEN), record)
    return records


def last_values(records: Iterable[Change]) -> dict[str, Any]:
    """Return the last good value of each key."""
    return {key: json.loads(value) for key, (_, value) in _last(records).items()}


def _last(records: Iterable[Change]) -> dict[str, tuple[int, bytes]]:
    """Return offset and value of the last change of each key that is not deleted."""
    last: dict[str, tuple[int, bytes | None]] = {}
    for offset, (key, value) in enumerate(records):
        if (key, value) not in BROKEN:
            last[(key or b"").decode()] = (offset, value)
    return {key: (at, value) for key, (at, value) in last.items() if value is not None}


def by_key(rows: Iterable[Any]) -> dict[str, Any]:
    """Return the values of rows as they were sent."""
    return {row["_key"]: json.loads(row["_raw"]) for row in rows}


def price_of(value: dict[str, Any]) -> float:
    """Return the price of a row, which has one of two spellings."""
    return float(value["price"] if "price" in value else value["PRICE"])


def check_rows(rows: Sequence[Any], expected: dict[str, Any]) -> None:
    """Compare the columns of rows with what is expected of their keys."""
    assert by_key(rows) == expected
    assert len(rows) == len(expected)
    for row in rows:
        value = expected[row["_key"]]
        tags = value.get("tags")
        assert row["id"] == str(value["id"])
        assert (row["Name"], row["price"]) == (value.get("Name"), price_of(value))
        assert (row["tags"], row["new"]) == (tags and json.dumps(tags), value.get("new"))


def check_tables(out: Path, records: Sequence[Change]) -> None:
    """Compare both tables with what the records, by their offsets, say they must hold."""
    rows = current(str(out)).to_pylist()
    check_rows(rows, last_values(records))
    offsets = {key: offset for key, (offset, _) in _last(records).items()}
    assert {row["_key"]: row["_offset"] for row in rows} == offsets
    dead = [(row["offset"], row["reason"]) for row in rows_of(out, "dead_letters")]
    assert sorted(dead) == [
        (offset, BROKEN[record]) for offset, record in enumerate(records) if record in BROKEN
    ]
    deletes = sum(value is None for _, value in records)
    totals = Snapshot.of(str(out)).version.totals
    assert totals == (len(records) - deletes - len(dead), deletes, len(dead))
