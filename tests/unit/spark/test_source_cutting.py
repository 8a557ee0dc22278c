"""Records that are too large are cut, and nothing else is."""

from __future__ import annotations

import pyarrow as pa

from moldau.engine.arrow_batches import ArrowForm
from moldau.spark.source.columns import SIZE, spark_schema
from moldau.spark.source.cutting import KEPT_SIZE, with_size
from moldau.spark.source.finishing import finished
from moldau.spark.source.options import SourceOptions

FORM = ArrowForm(headers=True, dictionary_topics=False)
MOST = 100_000
LARGE = b"x" * (MOST + 1)


def batch(*records):
    """Return a record batch of (key, value, headers)."""
    rows = [
        {"key": key, "value": value, "headers": headers, "topic": "t", "offset": offset}
        for offset, (key, value, headers) in enumerate(records)
    ]
    return pa.RecordBatch.from_pylist(rows, FORM.schema)


def header(value, key="k"):
    return {"key": key, "value": value}


def test_a_record_is_as_large_as_its_parts():
    found = with_size(
        batch(
            (b"abc", b"de", None),
            (None, None, []),
            (b"", b"f", [header(b"12"), header(None, "name")]),
            (None, b"g", [header(b"345")]),
        ),
        MOST,
    )
    assert found.column(SIZE).to_pylist() == [5, 0, 1 + 3 + 4, 1 + 4]


def test_only_records_that_are_too_large_are_cut():
    told = [header(b"h")]
    most = b"y" * (MOST - 2)
    found = with_size(
        batch(
            (b"before", b"v", told),
            (b"k", LARGE, told),
            (LARGE, None, told),
            (b"k", b"v", [header(LARGE)]),
            (None, most, told),
            (b"after", b"v", told),
        ),
        MOST,
    ).to_pylist()
    cut = LARGE[:KEPT_SIZE]
    assert [(row["key"], row["value"], row["headers"]) for row in found] == [
        (b"before", b"v", told),
        (b"k", cut, None),
        (cut, None, None),
        (b"k", b"v", None),
        (None, most, told),
        (b"after", b"v", told),
    ]
    assert [row[SIZE] > MOST for row in found] == [False, True, True, True, False, False]
    assert [row["offset"] for row in found] == list(range(6))


def test_part_of_a_batch_is_measured_in_its_place():
    whole = batch((b"a", b"1", [header(b"x")]), (b"bc", b"2", None), (b"d", b"34", [header(b"yz")]))
    assert with_size(whole.slice(1), MOST).column(SIZE).to_pylist() == [3, 6]


def test_columns_come_in_the_order_of_the_schema_and_none_is_lost():
    found = with_size(batch((b"k", LARGE, [])), 1)
    assert found.schema.names == [*FORM.schema.names, SIZE]
    assert found.schema.field("headers").type == FORM.schema.field("headers").type
    assert with_size(batch(), MOST).num_rows == 0


def test_the_size_is_a_column_where_records_are_cut_and_values_are_read_after_that():
    given = {
        "kafka.bootstrap.servers": "b:1", "subscribe": "t", "maxRecordBytes": str(MOST),
        "valueFormat": "string", "includeHeaders": "true",
    }  # fmt: skip
    names = spark_schema(given).names
    assert names[-3:] == ["headers", SIZE, "_corrupt"]
    assert SIZE not in spark_schema({"subscribe": "t"}).names
    found = finished(batch((None, LARGE, [])), SourceOptions.for_batch(given))
    assert found.schema.names == names
    assert found.column("value").to_pylist() == ["x" * KEPT_SIZE]
