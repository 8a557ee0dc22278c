"""Values read as text and as JSON: the good ones whole, the bad ones aside, none lost."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from moldau.base.errors import ConfigError
from moldau.spark.source.columns import spark_schema
from moldau.spark.source.finishing import finished
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.tasks import _finishing
from moldau.spark.source.value_schema import parse_value_schema

SCHEMA = "id BIGINT, name STRING, tags ARRAY<STRING>"


def read(values, **options):
    """Return what becomes of values: what is read, and what is kept aside."""
    needed = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
    batch = pa.RecordBatch.from_arrays(
        [pa.nulls(len(values), pa.binary()), pa.array(values, pa.binary())], ["key", "value"]
    )
    found = finished(batch, SourceOptions.for_batch({**needed, **options}))
    assert found.schema.names == ["key", "value", "_corrupt"]
    return found.column("value").to_pylist(), found.column("_corrupt").to_pylist()


def read_json(values, schema=SCHEMA):
    return read(values, valueFormat="json", valueSchema=schema)


def test_values_stay_bytes_unless_asked_for_otherwise():
    batch = pa.RecordBatch.from_arrays([pa.array([b"k"]), pa.array([b"\xff"])], ["key", "value"])
    options = SourceOptions.for_batch({"kafka.bootstrap.servers": "b:1", "subscribe": "t"})

    assert _finishing(options)(batch, options) is batch


@given(st.lists(st.none() | st.text(max_size=5).map(str.encode) | st.binary(max_size=3)))
def test_text_is_what_is_utf_8_and_the_rest_is_kept_aside(values):
    def text(value):
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            return None

    found, corrupt = read(values, valueFormat="string")

    assert found == [text(value) for value in values]
    assert corrupt == [value if text(value) is None else None for value in values]


def test_json_is_read_by_its_schema():
    values = [
        b'{"id": 1, "name": "a", "tags": ["x", "y"]}',
        b'{"name": "only", "other": {"is": "ignored"}}',
        b'{\n  "id": 3\n}',
        b"null",
        None,
    ]

    found, corrupt = read_json(values)

    nothing = {"id": None, "name": None, "tags": None}
    assert found == [
        {"id": 1, "name": "a", "tags": ["x", "y"]},
        {**nothing, "name": "only"},
        {**nothing, "id": 3},
        None,
        None,
    ]
    assert corrupt == [None] * 5


@pytest.mark.parametrize(
    "bad",
    [
        b"", b" ", b"{", b"}", b"5", b'"text"', b"[]", b'{"id": "one"}', b'{"id": 1} {"id": 2}',
        b'{"id": 1}}{"v":{"id": 2}', b'{"id": 1},"v":{"id": 2}', b"\xff\xfe", b'{"id": 1.5}',
        b'{"id": 1, "name": "\xff\xfe"}', b'{"id": 1, "other": "\xff\xfe"}', b'{"\xff": 1}',
        b'{"id": 1},"w":5', b'{"id": 1} , "w":{}', b'null,"w":5', b'{"id": 1}],"w":[5',
        b'{"id": 1},{"id": 2}', b'{"id": 1}}\0', b'{"id": 1}\0',
    ],
)  # fmt: skip
def test_one_bad_value_is_kept_aside_and_its_neighbours_are_read(bad):
    good = [b'{"id": %d}' % number for number in range(20)]

    found, corrupt = read_json([*good[:7], bad, *good[7:]], "id BIGINT, name STRING")

    read = [{"id": number, "name": None} for number in range(20)]
    assert found == [*read[:7], None, *read[7:]]
    assert corrupt == [*[None] * 7, bad, *[None] * 13]


fragments = st.sampled_from(
    [
        b'{"id":1}',
        b"{}",
        b"{",
        b"}",
        b" ",
        b"\n",
        b"null",
        b'"v":',
        b',"w":',
        b'{"id":2,"w":"\xc3\xa4"}',
        b"\xc3",
        b",",
        b"1",
        b'{"v":',
        b"",
        b'"',
        b"[",
        b"]",
        b":",
    ]
)


@settings(max_examples=100)
@given(st.lists(st.none() | st.lists(fragments, max_size=4).map(b"".join), max_size=6))
def test_no_value_is_read_as_another_whatever_its_neighbours_are(values):
    found, corrupt = read_json(values, "id BIGINT")

    for value, one, bad in zip(values, found, corrupt, strict=True):
        assert bad in (None, value)
        alone, alone_bad = read_json([value], "id BIGINT")
        assert ([one], [bad]) == (alone, alone_bad)
        if value is not None and bad is None:
            assert one == _as_read(json.loads(value))


def _as_read(parsed):
    return None if parsed is None else {"id": parsed.get("id")}


def test_a_schema_may_be_nested_or_in_sparks_json():
    nested = parse_value_schema("a: INT, `odd name` STRUCT<x: BIGINT, y ARRAY<STRING>>")

    assert nested == StructType(
        [
            StructField("a", IntegerType()),
            StructField(
                "odd name",
                StructType(
                    [StructField("x", LongType()), StructField("y", ArrayType(StringType()))]
                ),
            ),
        ]
    )
    assert parse_value_schema(nested.json()) == nested


@pytest.mark.parametrize(
    "schema",
    ["", "a", "a INT,", "a INT b INT", "a DECIMAL(3,2)", "a ARRAY<INT", "a ARRAY INT", ", a INT",
     "a MAP<STRING, INT>", "a INT NOT NULL", "{}", '{"type": "struct"}', "a TIMESTAMP",
     '{"type":"struct","fields":[{"name":"a","type":"date","nullable":true,"metadata":{}}]}'],
)  # fmt: skip
def test_a_schema_that_cannot_be_read_is_refused(schema):
    with pytest.raises(ConfigError, match="valueSchema"):
        parse_value_schema(schema)


def test_the_columns_are_those_of_sparks_own_source_and_those_asked_for():
    plain = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]

    assert spark_schema({}).names == plain
    assert spark_schema({"INCLUDEHEADERS": "true"}).names == [*plain, "headers"]
    assert spark_schema({"valueFormat": "string"}).names == [*plain, "_corrupt"]
    assert spark_schema({}).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int>"
    )
    typed = spark_schema({"valueFormat": "json", "valueSchema": "id BIGINT"})
    assert typed["value"].dataType.simpleString() == "struct<id:bigint>"
