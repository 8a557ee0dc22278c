"""How the large files of the table `logs` are laid out, so that a search reads little of them.

Rows are in the order of time and row groups small, so that their least and greatest times say which
of them a span of time needs. Messages, which a search for a text has to go through, are compressed
with LZ4, twice as quick to read as ZSTD and some half larger; what is only shown takes ZSTD. Beside
the file lies what its row groups do not hold, see `sketches`.

`date` and `level` are not in the files: they are the names of the folders.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from moldau.spark.pipelines.logs.sketches import FieldPairs, Sketch, packed_sketches, sketch_of

SCHEMA: Final = pa.schema([
    ("time", pa.timestamp("us", "UTC")),
    ("host", pa.string()),
    ("service", pa.string()),
    ("path", pa.string()),
    ("message", pa.string()),
    ("fields", pa.map_(pa.string(), pa.string())),
    ("stack", pa.string()),
    ("format", pa.string()),
    ("late", pa.bool_()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("batch", pa.int64()),
])  # fmt: skip

PARTITIONED_BY: Final = ("date", "level")

GROUP_ROWS: Final = 8192
"""Rows of a row group: some milliseconds to read whole, and enough for columns to compress. Who
looks for a few rows reads a group for each. With half as many, the values of fewer fields would
occur often enough in a group to have their rows listed."""
GROUP_SIZE: Final = 32 * 1024 * 1024
"""Bytes of a row group at most, as messages may be long."""

SKETCHED_ROWS_MIN: Final = 4096
"""Files with fewer rows are read as quickly as their sketches."""

TEXT_COLUMNS: Final = ("message", "stack")
"""Columns in which texts are looked for."""
PAIR_COLUMNS: Final = ("host", "service", "path")
"""Columns whose values are looked for as those of fields are."""

_ORDER: Final = [("time", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
_STATISTICS: Final = ["time", "host", "service", "path", "stack", "partition", "offset", "batch"]
"""What is passed over by least and greatest values, or for having none: most stacks."""
FEW_VALUES: Final = ["host", "service", "path", "format", "topic",
                     "fields.key_value.key"]  # fmt: skip
"""What is written with a dictionary, and read as numbers of its entries. Not the values of fields:
ids among them fill any dictionary, and then their columns are larger by a fifth and read half as
fast."""
_COMPRESSION: Final = {
    "message": "LZ4",
    **{name: "ZSTD" for name in SCHEMA.names if name not in ("message", "fields")},
    "fields.key_value.key": "ZSTD",
    "fields.key_value.value": "ZSTD",
}


def write_rows(rows: pa.Table, sink: Any) -> bytes | None:
    """Write a file of rows; return the sketches of its row groups, None if it needs none."""
    rows = rows.select(SCHEMA.names).cast(SCHEMA).sort_by(_ORDER)
    sketches: list[Sketch] = []
    with pq.ParquetWriter(
        sink,
        SCHEMA,
        compression=_COMPRESSION,
        use_dictionary=FEW_VALUES,
        write_statistics=_STATISTICS,
        store_schema=False,
    ) as writer:
        for group in groups_of(rows):
            writer.write_table(group, row_group_size=group.num_rows)
            if rows.num_rows >= SKETCHED_ROWS_MIN:
                sketches.append(_sketch(group))
    return packed_sketches(sketches, rows.num_rows) if sketches else None


def groups_of(rows: pa.Table) -> Iterator[pa.Table]:
    """Cut rows into row groups."""
    start = 0
    while start < rows.num_rows:
        count = GROUP_ROWS
        while (group := rows.slice(start, count)).nbytes > GROUP_SIZE and count > 1:
            count //= 2
        yield group
        start += group.num_rows


def _sketch(group: pa.Table) -> Sketch:
    texts = [chunk for name in TEXT_COLUMNS for chunk in group.column(name).chunks]
    values = [
        pc.binary_join_element_wise(pa.scalar(name), pc.unique(group.column(name)), "=")
        for name in PAIR_COLUMNS
    ]
    return sketch_of(texts, pa.concat_arrays(values), _fields(group))


def _fields(group: pa.Table) -> FieldPairs:
    """Return the fields of all rows as pairs."""
    maps = group.column("fields").combine_chunks()  # which begin at the first field then
    rows = np.repeat(np.arange(len(maps)), np.diff(maps.offsets.to_numpy()))
    names = maps.keys.dictionary_encode().indices.to_numpy()
    pairs = pc.binary_join_element_wise(maps.keys, maps.items, "=")
    return FieldPairs(pairs, names, rows, len(maps))
