"""Lines become rows in Spark's tasks: an Arrow batch of records in, one of rows out.

Parsers are Python's anyway, so a task hands them a batch at a time, and neither pandas nor a row
object of Spark's comes in between. Headers are taken from the columns as they lie in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.arrow_functions import arrow_function
from moldau.spark.pipelines.logs.forms.line import Line
from moldau.spark.pipelines.logs.parsing import DEAD_SIZE_MAX, Origin, Rules, parse, text_of

OWN_COLUMNS: Final = {
    "time": "TIMESTAMP",
    "level": "STRING",
    "host": "STRING",
    "service": "STRING",
    "path": "STRING",
    "message": "STRING",
    "fields": "MAP<STRING, STRING>",
    "stack": "STRING",
    "format": "STRING",
}
"""What a line says, by the names of the table's columns."""

SIZE: Final = "size"
"""A column with the bytes of a record, so that nobody takes more into memory than it holds."""

_READ_COLUMNS: Final = {**OWN_COLUMNS, "reason": "STRING", "value": "BINARY", SIZE: "BIGINT"}
_TIME: Final = pa.timestamp("us", "UTC")


def read_lines(records: DataFrame, rules: Rules) -> DataFrame:
    """Return a row for each record: its line's columns, or `reason`, where it comes from, `now`.

    The value of a record is kept only if it is a dead letter, cut if it is too long.
    """

    def read(
        values: pa.Array, sizes: pa.Array, headers: pa.Array, sent: pa.Array, now_us: pa.Array
    ) -> pa.Array:
        return lines_of(Records(values, sizes, headers, sent, now_us), rules)

    returned = ", ".join(f"{name}: {kind}" for name, kind in _READ_COLUMNS.items())
    now_us = F.unix_micros(F.col("now").cast("timestamp"))
    inputs = ("value", "size", "headers", "timestamp", now_us)
    line = arrow_function(read, f"STRUCT<{returned}>")(*inputs)
    kept = ("key", "topic", "partition", "offset", "timestamp", "now")
    return records.select(*kept, line.alias("line")).select(*kept, "line.*")


class Records(NamedTuple):
    """The columns of a batch of records from which lines are read."""

    values: pa.Array
    """Cut, if the record is too large."""
    sizes: pa.Array
    """What records were before that, in bytes."""
    headers: pa.Array
    sent: pa.Array
    now_us: pa.Array


def lines_of(records: Records, rules: Rules) -> pa.Array:
    """Read the lines of a batch of records."""
    values, sizes, headers, sent, now_us = records
    paths = header(headers, "path")
    sent_us = pc.coalesce(sent.cast(_TIME).cast(pa.int64()), pa.scalar(-1, pa.int64()))
    origins = (header(headers, "host"), paths, header(headers, "service"))
    inputs = (values, sizes, *origins, sent_us, now_us)
    rows = [
        _row(value, size, Origin(host, path, service), sent_at, now, rules)
        for value, size, host, path, service, sent_at, now in zip(
            *map(_objects, inputs), strict=True
        )
    ]
    columns = {
        **_columns(rows),
        "path": paths,
        SIZE: pc.coalesce(pc.binary_length(values).cast(pa.int64()), pa.scalar(0, pa.int64())),
    }
    return pa.StructArray.from_arrays(
        [columns[name] for name in _READ_COLUMNS], list(_READ_COLUMNS)
    )


class _Row(NamedTuple):
    """What a record has become: a line, or a dead letter."""

    line: Line
    reason: str | None = None
    value: bytes | None = None


def _row(
    value: bytes | None, size: int, origin: Origin, sent_us: int, now_us: int, rules: Rules
) -> _Row:
    text, reason = text_of(value, size, rules)
    if text is not None:
        return _Row(parse(text, origin, sent_us, now_us, rules))
    time_us = min(sent_us, now_us) if sent_us >= 0 else now_us
    nothing = Line("", "", time_us, host=origin.host, service=origin.service)
    return _Row(nothing, reason, value if value is None else value[:DEAD_SIZE_MAX])


def _columns(rows: Sequence[_Row]) -> dict[str, pa.Array]:
    """Turn rows into columns, by name."""
    lines, reasons, values = zip(*rows, strict=True) if rows else ((), (), ())
    told = dict(zip(Line._fields, zip(*lines, strict=True) if lines else [()] * 8, strict=True))
    fields: tuple[Mapping[str, str], ...] = told["fields"]
    ends = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum([len(one) for one in fields], out=ends[1:])
    keys = pa.array([name for one in fields for name in one], pa.string())
    items = pa.array([value for one in fields for value in one.values()], pa.string())
    texts = ("level", "host", "service", "message", "stack", "format")
    return {
        "time": pa.array(told["time_us"], _TIME),
        **{name: pa.array(told[name], pa.string()) for name in texts},
        "fields": pa.MapArray.from_arrays(pa.array(ends), keys, items),
        "reason": pa.array(reasons, pa.string()),
        "value": pa.array(values, pa.binary()),
    }


def _objects(column: pa.Array) -> list[Any]:
    """Return the values of a column, several times quicker than one by one."""
    return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


def header(headers: pa.Array, name: str) -> pa.Array:
    """Return the text of a header of each record, the last of that name; null without one."""
    found = np.full(len(headers), -1, dtype=np.int64)
    lists = headers.flatten()
    places = np.flatnonzero(
        pc.fill_null(pc.equal(lists.field("key"), name), False).to_numpy(zero_copy_only=False)
    )
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    found[np.repeat(np.arange(len(headers)), lengths)[places]] = places
    values = lists.field("value").take(pa.array(found, mask=found < 0))
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [
            None if one is None else one.decode(errors="replace") for one in values.to_pylist()
        ]
        return pa.array(texts, pa.string())
