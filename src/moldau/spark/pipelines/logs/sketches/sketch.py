"""All that is known of a row group."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.spark.pipelines.logs.sketches.bits import Packed, all_set, folded
from moldau.spark.pipelines.logs.sketches.pairs import (
    PairMarks,
    hashes_of,
    pair_bits,
    short_hashes,
)
from moldau.spark.pipelines.logs.sketches.rows import (
    FieldPairs,
    RowMask,
    are_repeated,
    listed_rows,
    rows_of,
)
from moldau.spark.pipelines.logs.sketches.texts import TextBits, TextMarks, text_bits


class Sketch(NamedTuple):
    """What is known of a row group."""

    texts: TextBits
    pairs: Packed
    listed: Packed

    def may_hold_text(self, marks: TextMarks) -> bool:
        """Tell whether texts may occur."""
        return self.texts.may_hold(marks)

    def may_hold_pair(self, marks: PairMarks) -> bool:
        """Tell whether a row may have a value under a name."""
        return all_set(self.pairs, marks.places)

    def rows_with(self, fields: Iterable[PairMarks], row_count: int) -> RowMask | None:
        """Tell which rows may have all these fields; None if it may be any."""
        found = (rows_of(self.listed, one.short, row_count) for one in fields)
        known = [rows for rows in found if rows is not None]
        return reduce(np.logical_and, known) if known else None


def sketch_of(texts: Iterable[pa.Array], values: pa.Array, fields: FieldPairs) -> Sketch:
    """Return the sketch of a row group: of its texts, and of `name=value` pairs.

    Pairs of `values` are kept by themselves, those of `fields` with their rows.
    """
    encoded = fields.pairs.dictionary_encode()
    is_valid = encoded.indices.is_valid().to_numpy(zero_copy_only=False)
    codes = encoded.indices.drop_null().to_numpy()
    hashes = hashes_of(encoded.dictionary)
    repeated = are_repeated(codes, fields.names[is_valid])
    bits = pair_bits(hashes) | pair_bits(hashes_of(pc.unique(values).drop_null()))
    return Sketch(
        text_bits(texts),
        folded(bits),
        listed_rows(short_hashes(hashes)[codes], fields.rows[is_valid], repeated, fields.row_count),
    )
