"""Records that are too large, cut in the task that reads them.

A record of a hundred megabytes, which compressed may be no more than a hundred kilobytes, is copied
several times on its way through Spark: from Arrow into a row, from row to row, into a cache. A
query that has no use for such records says so, and Spark sees the beginning of them only, with
their size.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.engine.arrow_batches import RecordBatch
from moldau.spark.source.columns import SIZE
from moldau.spark.source.options import SourceOptions

KEPT_SIZE: Final = 64 * 1024
"""Bytes of the key, and of the value, that stay of a record which is too large: enough to see what
it is."""

_CUT: Final = ("key", "value")
_HEADERS: Final = "headers"


def cut(batch: RecordBatch, options: SourceOptions) -> RecordBatch:
    """Return a record batch without what the options say is too large."""
    size_max = options.max_record_size
    return batch if size_max is None else with_size(batch, size_max)


def with_size(batch: RecordBatch, size_max: int) -> RecordBatch:
    """Add a column with the sizes of records, and cut those that are larger than that.

    A size is that of key, value and headers, as far as these are read. Of headers nothing stays.
    """
    columns, names = batch.columns, batch.schema.names
    sizes = _sizes(batch)
    if sizes.max(initial=0) > size_max:
        is_large = pa.array(sizes > size_max)
        for place, name in enumerate(names):
            if name in _CUT:
                beginning = pc.binary_slice(columns[place], 0, KEPT_SIZE)
                columns[place] = pc.if_else(is_large, beginning, columns[place])
            elif name == _HEADERS:
                none = pa.scalar(None, columns[place].type)
                columns[place] = pc.if_else(is_large, none, columns[place])
    return pa.RecordBatch.from_arrays([*columns, pa.array(sizes)], [*names, SIZE])


def _sizes(batch: RecordBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
    sizes = np.zeros(batch.num_rows, np.int64)
    for name in _CUT:
        sizes += _lengths(batch.column(name))
    if _HEADERS in batch.schema.names:
        headers = batch.column(_HEADERS)
        parts = headers.flatten()
        ends = np.zeros(len(parts) + 1, np.int64)
        np.cumsum(_lengths(parts.field("key")) + _lengths(parts.field("value")), out=ends[1:])
        counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
        borders = np.zeros(batch.num_rows + 1, np.int64)
        np.cumsum(counts, out=borders[1:])
        sizes += np.diff(ends[borders])
    return sizes


def _lengths(column: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    found = pc.fill_null(pc.binary_length(column), 0)
    return found.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]
