"""What a group of rows certainly does not hold: small sets, asked before rows are read.

A search for a text that occurs nowhere would have to read everything. So beside a large file lies a
sketch of each of its row groups, made of

    triples  every three bytes in a row of the messages and stacks, of 37 kinds
    grams    every four bytes in a row of them
    pieces   of words of ten letters and digits or more: some pieces of six
    numbers  every five digits in a row
    pairs    every `name=value` of the fields, and of the columns that are searched by value
    listed   the rows of the `name=value` of fields, but for those that are rare

The first five are sets of bits, which say "perhaps" or "certainly not". A text can only occur where
all its triples, grams, pieces and numbers do. The last is there for fields that occur everywhere
and seldom together. Rows that are passed over cannot match, and those that are read are compared as
without sketches. Letters of ASCII are in lower case, so that a search in either case can use them
too.

Pure: bytes in, bytes out.

    bits    sets of bits
    texts   what is kept of texts
    pairs   what is kept of values under names
    rows    which rows have a pair
    sketch  all of it, for one row group
    files   the sketches of the row groups of a file, as bytes
"""

from __future__ import annotations

from moldau.spark.pipelines.logs.sketches.files import (
    packed_sketches,
    sketch_place,
    unpacked_sketches,
)
from moldau.spark.pipelines.logs.sketches.pairs import pair_marks
from moldau.spark.pipelines.logs.sketches.rows import FieldPairs, RowMask
from moldau.spark.pipelines.logs.sketches.sketch import Sketch, sketch_of
from moldau.spark.pipelines.logs.sketches.texts import text_marks

__all__ = [
    "FieldPairs",
    "RowMask",
    "Sketch",
    "packed_sketches",
    "pair_marks",
    "sketch_of",
    "sketch_place",
    "text_marks",
    "unpacked_sketches",
]
