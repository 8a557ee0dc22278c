"""Records and changes as Arrow columns: what Spark's workers run, and who reads without Spark.

It knows Arrow, and neither Spark nor files.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.spark.pipelines.changelog.fields import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    STRING,
    Fields,
    Unreadable,
    columns_of,
    noted,
    parsed,
)

KEY: Final = "_key"
RAW: Final = "_raw"
BATCH: Final = "_batch"
ORIGIN: Final = ("_partition", "_offset", "_timestamp")
CHANGE: Final = (KEY, RAW, *ORIGIN, BATCH)
"""The columns of changes."""

NO_KEY: Final = "no key"
KEY_NOT_TEXT: Final = "key is not UTF-8"
NOT_TEXT: Final = "not UTF-8"

TYPES: Final = {
    BOOLEAN: pa.bool_(),
    BIGINT: pa.int64(),
    DOUBLE: pa.float64(),
    STRING: pa.string(),
}
CHANGE_SCHEMA: Final = pa.schema([
    (KEY, pa.string()),
    (RAW, pa.string()),
    ("_partition", pa.int32()),
    ("_offset", pa.int64()),
    ("_timestamp", pa.timestamp("us", "UTC")),
    (BATCH, pa.int64()),
])  # fmt: skip

SORTED_OUT: Final = pa.struct([
    ("key", pa.string()),
    ("raw", pa.string()),
    ("reason", pa.string()),
    ("seen", pa.string()),
])  # fmt: skip
"""What becomes of a record: a change, or a dead letter with its reason. `seen` holds, in the first
row of some, the types of the fields of all of them, as JSON."""


def sorted_out(keys: pa.Array, values: pa.Array) -> pa.Array:
    """Say what becomes of records."""
    seen: dict[str, str] = {}
    pairs = zip(keys.to_pylist(), values.to_pylist(), strict=True)
    rows: list[dict[str, Any]] = [_row(key, value, seen) for key, value in pairs]
    if rows:
        rows[0]["seen"] = json.dumps(seen)
    return pa.array(rows, SORTED_OUT)


def _row(key: bytes | None, value: bytes | None, seen: dict[str, str]) -> dict[str, Any]:
    if key is None:
        return {"reason": NO_KEY}
    try:
        name = bytes(key).decode()
    except UnicodeDecodeError:
        return {"reason": KEY_NOT_TEXT}
    if value is None:
        return {"key": name}
    try:
        text = bytes(value).decode()
        noted(parsed(text), seen)
    except UnicodeDecodeError:
        return {"reason": NOT_TEXT}
    except Unreadable as error:
        return {"reason": str(error)}
    return {"key": name, "raw": text}


def typed(texts: pa.Array | pa.ChunkedArray, fields: Fields) -> dict[str, pa.Array]:
    """Return the columns of rows given as their JSON."""
    columns = columns_of(texts.to_pylist(), fields)
    return {name: pa.array(columns[name], TYPES[kind]) for name, kind in fields.items()}


def newest_by_key(changes: pa.Table) -> pa.Table:
    """Return the last change of each key.

    Texts stay where they are: Arrow can sort no more than two gigabytes of them.
    """
    if changes.num_rows == 0:
        return changes
    order = [(name, "ascending") for name in (KEY, BATCH, "_partition", "_offset")]
    places = pc.sort_indices(changes.select([name for name, _ in order]), order)
    keys = changes.column(KEY).take(places)
    is_last = np.append(pc.not_equal(keys.slice(0, len(keys) - 1), keys.slice(1)), True)
    mask = np.zeros(len(keys), np.bool_)
    mask[places.to_numpy()[is_last]] = True
    return changes.filter(pa.array(mask))
