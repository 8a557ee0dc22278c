"""What occurs in a column is never called absent, however the file was written."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.spark.pipelines.logs.search.pages import absent
from moldau.spark.pipelines.logs.search.patterns import Probe

TEXTS = [f"request {number} of user {number % 7} was accepted" for number in range(500)]
PLAIN = {"use_dictionary": False}


def literally(text):
    return Probe(re.escape(text), text)


PLUMS = literally("plums")


def written(texts=TEXTS, **options):
    """Return a file of one column and one row group, and what its footer says of the column."""
    sink = pa.BufferOutputStream()
    table = pa.table({"message": pa.array(texts, pa.string())})
    pq.write_table(table, sink, **{"data_page_size": 4096, "store_schema": False, **options})
    data = sink.getvalue()
    return data, pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(0)


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZSTD", "SNAPPY", "GZIP", "BROTLI"])
@pytest.mark.parametrize(
    "options",
    [
        PLAIN,
        {"use_dictionary": True},
        {"use_dictionary": True, "dictionary_pagesize_limit": 2048},
        {**PLAIN, "data_page_version": "2.0"},
        {**PLAIN, "column_encoding": "DELTA_BYTE_ARRAY"},
        {**PLAIN, "column_encoding": "DELTA_LENGTH_BYTE_ARRAY"},
        {**PLAIN, "write_page_checksum": True},
        {**PLAIN, "write_statistics": True, "write_page_index": True},
    ],
)
def test_what_occurs_is_not_absent(compression, options):
    data, column = written([*TEXTS, None], compression=compression, **options)
    probes = {literally(text) for text in TEXTS} | {Probe("user [67] was", "user ")}
    assert absent(data, column, probes) == set()


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZSTD", "SNAPPY", "GZIP"])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_what_does_not_occur_is_absent_from_columns_as_we_and_spark_write_them(
    compression, use_dictionary
):
    data, column = written(compression=compression, use_dictionary=use_dictionary)
    strange = {PLUMS, literally("user 8"), Probe("user [89] was", "user ")}
    assert absent(data, column, {*strange, literally("request 7 ")}) == strange


def test_other_encodings_hold_perhaps_everything():
    data, column = written(**PLAIN, column_encoding="DELTA_BYTE_ARRAY")
    assert absent(data, column, {PLUMS}) == set()
    data, column = written(**PLAIN, data_page_version="2.0")
    assert absent(data, column, {PLUMS}) == set()


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=8))
def test_a_damaged_file_is_no_error_of_this_look(place, damage):
    data, column = written(compression="LZ4", **PLAIN)
    damaged = bytearray(data)
    start = column.data_page_offset + place % column.total_compressed_size
    damaged[start : start + len(damage)] = damage
    assert absent(pa.py_buffer(bytes(damaged)), column, {PLUMS}) <= {PLUMS}
    assert absent(data.slice(0, start), column, {PLUMS}) <= {PLUMS}
