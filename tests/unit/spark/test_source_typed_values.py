"""Values in Avro and Protocol Buffers: their types, the good ones read, the bad ones told of."""

from __future__ import annotations

import base64
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.errors import ConfigError, UserError
from moldau.spark import shipping
from moldau.spark.settings import Options
from moldau.spark.source.payloads import parse_values, value_type
from moldau.spark.source.value_options import ValueFormat, ValueOptions

HEADER = b"\x00\x00\x00\x00\x07"


def options(**given):
    return ValueOptions.from_options(Options(given))


def parsed(values, **given):
    """Return what becomes of values, and by place why some are bad."""
    found = parse_values(pa.array(values, pa.binary()), options(**given))
    assert all(found.typed[place].as_py() is None for place in found.reasons)
    return found.typed.to_pylist(), found.reasons


# Avro

ORDER = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}},
        {"name": "other", "type": ["Colour", "null"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "price", "type":
            {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "key", "type": {"type": "fixed", "name": "Key", "size": 2}},
        {"name": "wide", "type": ["int", "long", "null"]},
        {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [
            {"name": "x", "type": "double"}]}},
    ],
}  # fmt: skip
ROW = {
    "id": 1, "name": "a", "tags": ["x", "y"], "counts": {"n": 3}, "colour": "RED", "other": None,
    "at": datetime(2026, 11, 16, 12, 0, 0, 5000, UTC), "day": date(2026, 11, 16), "time": 77,
    "price": Decimal("12.34"), "key": b"ab", "wide": 2**40, "inner": {"x": 0.5},
}  # fmt: skip
AVRO = {"valueFormat": "avro", "avroSchema": json.dumps(ORDER)}


def avro(row, schema=ORDER):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(_plain_times(schema)), row)
    return stream.getvalue()


def _plain_times(schema):
    """Return a schema by which times of day are written as numbers."""
    return json.loads(json.dumps(schema).replace(', "logicalType": "time-millis"', ""))


def as_told(row):
    return {**row, "counts": list(row["counts"].items())}


def test_types_of_avro_are_those_of_sparks_own_reader():
    assert value_type(options(**AVRO)).simpleString() == (
        "struct<id:bigint,name:string,tags:array<string>,counts:map<string,int>,colour:string,"
        "other:string,at:timestamp,day:date,time:int,price:decimal(6,2),key:binary,wide:bigint,"
        "inner:struct<x:double>>"
    )
    assert value_type(options(valueFormat="avro", avroSchema='"string"')).simpleString() == "string"


def test_avro_is_read_by_its_schema():
    sparse = {**ROW, "name": None, "tags": [], "counts": {}, "other": "BLUE", "wide": None}

    found, reasons = parsed([avro(ROW), None, avro(sparse)], **AVRO)

    assert found == [as_told(ROW), None, as_told(sparse)]
    assert reasons == {}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"", "ends before its last field"),
        (avro(ROW)[:-1], "ends before its last field"),
        (avro(ROW) + b"?", "1 bytes are left behind the last field"),
        (b'{"id": 1}', ""),
        (b"\xff" * 40, ""),
        (HEADER + avro(ROW), ""),
    ],
    ids=["empty", "short", "long", "json", "ones", "header"],
)
def test_one_bad_value_in_avro_has_a_reason_and_its_neighbours_are_read(bad, reason):
    found, reasons = parsed([avro(ROW), bad, avro(ROW)], **AVRO)

    assert found == [as_told(ROW), None, as_told(ROW)]
    assert reasons.keys() == {1}
    assert reasons[1]
    assert reason in reasons[1]


@settings(max_examples=200)
@given(st.lists(st.none() | st.binary(max_size=60), max_size=4))
def test_any_bytes_are_read_as_avro_or_refused_with_a_reason(values):
    found, reasons = parsed(values, **AVRO)

    for place, value in enumerate(values):
        if value is None:
            assert (found[place], place in reasons) == (None, False)
        else:
            assert (found[place] is None) == (place in reasons)


def test_numbers_that_spark_has_no_room_for_are_bad():
    schema = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}'
    wide = avro({"n": 2**40}, json.loads(schema.replace('"int"', '"long"')))

    found, reasons = parsed([b"\x02", wide, b"\x04"], valueFormat="avro", avroSchema=schema)

    assert found == [{"n": 1}, None, {"n": 2}]
    assert reasons.keys() == {1}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('{"type": "nope"}', "is no schema"),
        ("{", "is no schema"),
        ('{"type": "record", "name": "r", "fields": []}', "the value is of a type without content"),
        ('["null"]', "may be of several types"),
        ('["string", "long"]', "may be of several types"),
        (
            '{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}',
            "next is of a type that cannot be read: empty, or one that holds itself",
        ),
        ('{"type": "array", "items": "null"}', "an item of the value is of a type"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 39}', "has 39 digits"),
        ('{"type": "bytes", "logicalType": "decimal"}', "does not say how many digits"),
        (
            '{"type": "bytes", "logicalType": "decimal", "precision": 0}',
            "does not say how many digits",
        ),
    ],
)
def test_schemas_of_avro_without_a_column_are_refused(schema, said):
    with pytest.raises(ConfigError, match=f"avroSchema.*{said}"):
        value_type(options(valueFormat="avro", avroSchema=schema))


def test_a_schema_of_avro_may_stand_in_a_file(tmp_path):
    place = tmp_path / "order.avsc"
    place.write_text(AVRO["avroSchema"])

    assert options(valueFormat="avro", avroSchema=str(place)) == options(**AVRO)
    with pytest.raises(ConfigError, match="neither JSON nor a file that can be read"):
        options(valueFormat="avro", avroSchema=str(tmp_path / "none.avsc"))


# Protocol Buffers

FIELD = descriptor_pb2.FieldDescriptorProto
LIST = FIELD.LABEL_REPEATED


def described(syntax="proto3"):
    """Return a set of descriptors as protoc makes it, with what is imported."""
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="shop.proto", package="shop", syntax=syntax)
    file.dependency.append("google/protobuf/timestamp.proto")
    colours = file.enum_type.add(name="Colour")
    for number, name in enumerate(("NONE", "RED")):
        colours.value.add(name=name, number=number)
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="x", number=1, type=FIELD.TYPE_DOUBLE, label=1)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=FIELD.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=FIELD.TYPE_INT32, label=1)
    add = order.field.add
    add(name="id", number=1, type=FIELD.TYPE_INT64, label=1)
    add(name="tags", number=2, type=FIELD.TYPE_STRING, label=LIST)
    add(name="counts", number=3, type=FIELD.TYPE_MESSAGE, type_name=".shop.Order.CountsEntry",
        label=LIST)  # fmt: skip
    add(name="colour", number=4, type=FIELD.TYPE_ENUM, type_name=".shop.Colour", label=1)
    add(name="inner", number=5, type=FIELD.TYPE_MESSAGE, type_name=".shop.Inner", label=1)
    add(name="inners", number=6, type=FIELD.TYPE_MESSAGE, type_name=".shop.Inner", label=LIST)
    add(name="at", number=7, type=FIELD.TYPE_MESSAGE, label=1,
        type_name=".google.protobuf.Timestamp")  # fmt: skip
    add(name="big", number=8, type=FIELD.TYPE_UINT64, label=1)
    add(name="raw", number=9, type=FIELD.TYPE_BYTES, label=1)
    if syntax == "proto3":
        order.oneof_decl.add(name="_note")
        add(name="note", number=10, type=FIELD.TYPE_STRING, label=1, oneof_index=0,
            proto3_optional=True)  # fmt: skip
    else:
        add(name="note", number=10, type=FIELD.TYPE_STRING, label=FIELD.LABEL_REQUIRED)
    loop = file.message_type.add(name="Loop")
    loop.field.add(name="next", number=1, type=FIELD.TYPE_MESSAGE, type_name=".shop.Loop", label=1)
    file.message_type.add(name="Empty")
    return files


def protobuf(message="shop.Order", files=None):
    given = base64.b64encode((files or described()).SerializeToString()).decode()
    return {
        "valueFormat": "protobuf", "protobufDescriptors": given, "protobufMessage": message,
    }  # fmt: skip


def order(syntax="proto3", **fields):
    pool = descriptor_pool.DescriptorPool()
    for file in described(syntax).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(**fields)


EMPTY_ORDER = {
    "id": 0, "tags": [], "counts": [], "colour": "NONE", "inner": None, "inners": [], "at": None,
    "big": 0, "raw": b"", "note": None,
}  # fmt: skip


def test_types_of_a_message_are_those_of_its_fields():
    assert value_type(options(**protobuf())).simpleString() == (
        "struct<id:bigint,tags:array<string>,counts:map<string,int>,colour:string,"
        "inner:struct<x:double>,inners:array<struct<x:double>>,at:timestamp,big:decimal(20,0),"
        "raw:binary,note:string>"
    )
    assert options(**protobuf(".shop.Order")).message == "shop.Order"


def test_messages_are_read_by_their_descriptor():
    moment = datetime(2026, 11, 16, 12, 0, 0, 5000, UTC)
    full = order(
        id=-1, tags=["a", "b"], counts={"n": 3}, colour=1, inner={"x": 0.5}, inners=[{"x": 1}],
        big=2**64 - 1, raw=b"\xff", note="",
    )  # fmt: skip
    full.at.FromDatetime(moment)

    found, reasons = parsed(
        [full.SerializeToString(), b"", None, order(colour=9).SerializeToString()], **protobuf()
    )

    assert found == [
        {"id": -1, "tags": ["a", "b"], "counts": [("n", 3)], "colour": "RED", "inner": {"x": 0.5},
         "inners": [{"x": 1.0}], "at": moment, "big": 2**64 - 1, "raw": b"\xff", "note": ""},
        EMPTY_ORDER, None, {**EMPTY_ORDER, "colour": "9"},
    ]  # fmt: skip
    assert reasons == {}


def test_a_message_without_a_required_field_is_bad():
    files = described("proto2")
    good = order("proto2", note="here").SerializeToString()

    found, reasons = parsed([good, b"", b"\x08"], **protobuf(files=files))

    assert found[0]["note"] == "here"
    assert reasons.keys() == {1, 2}
    assert "note" in reasons[1]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("shop.Nobody", "is not described by protobufDescriptors, which has .*shop.Order"),
        ("shop.Loop", "shop.Loop holds itself"),
        ("shop.Empty", "shop.Empty has no fields"),
    ],
)
def test_messages_without_a_column_are_refused(message, said):
    with pytest.raises(ConfigError, match=f"protobufMessage.*{said}"):
        value_type(options(**protobuf(message)))


def test_descriptors_may_stand_in_a_file_and_have_to_be_whole(tmp_path):
    place = tmp_path / "shop.desc"
    place.write_bytes(described().SerializeToString())
    named = {**protobuf(), "protobufDescriptors": str(place)}
    assert options(**named) == options(**protobuf())

    with pytest.raises(ConfigError, match="neither base64 nor a file that can be read"):
        options(**{**protobuf(), "protobufDescriptors": str(tmp_path / "none.desc")})
    partial = described()
    del partial.file[0]
    with pytest.raises(ConfigError, match="protoc --include_imports"):
        value_type(options(**protobuf(files=partial)))


# Both, with a header, without a library, and wrongly asked for


def test_the_header_of_a_registry_is_passed_over():
    values = [HEADER + avro(ROW), avro(ROW), b"\x00\x00", None]

    found, reasons = parsed(values, **AVRO, valueHeader="confluent")

    assert found == [as_told(ROW), None, None, None]
    assert reasons.keys() == {1, 2}
    assert "as valueHeader says" in reasons[1]
    found, reasons = parsed([HEADER + b"text"], valueFormat="string", valueHeader="confluent")
    assert (found, reasons) == (["text"], {})


def test_the_numbers_of_a_message_in_its_file_are_passed_over():
    message = order(id=5).SerializeToString()
    numbers = [b"\x00", b"\x02\x02", b"\x04\x02\x00"]

    found, reasons = parsed(
        [*(HEADER + one + message for one in numbers), HEADER, HEADER + b"\xff" * 9],
        **protobuf(),
        valueHeader="confluent",
    )

    assert [row and row["id"] for row in found] == [5, 5, 5, None, None]
    assert reasons.keys() == {3, 4}


@pytest.mark.parametrize(
    ("given", "library"),
    [(AVRO, "fastavro"), (protobuf(), "google.protobuf")],
    ids=["avro", "protobuf"],
)
def test_a_library_that_is_not_there_is_named_with_what_to_install(monkeypatch, given, library):
    def import_module(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(shipping, "import_module", import_module)

    with pytest.raises(UserError, match=rf"needs {library}.*install moldau\[") as failure:
        value_type(options(**given))
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"valueFormat": "xml"}, "not one of binary, string, json, avro, protobuf"),
        ({"valueFormat": "avro"}, "valueFormat=avro and avroSchema go together"),
        ({"valueFormat": "json"}, "valueFormat=json and valueSchema go together"),
        ({"avroSchema": "{}"}, "valueFormat=avro and avroSchema go together"),
        ({"valueFormat": "protobuf"}, "protobuf and protobufDescriptors go together"),
        (
            {"valueFormat": "protobuf", "protobufDescriptors": "aa"},
            "protobuf and protobufMessage go together",
        ),
        ({"valueHeader": "confluent"}, "valueHeader has no effect"),
        ({"valueFormat": "string", "valueHeader": "other"}, "not one of none, confluent"),
        ({"deadLetterTopic": "bad"}, "deadLetterTopic has no effect"),
        ({"valueFormat": "string", "deadLetterTopic": " "}, "deadLetterTopic is empty"),
    ],
)
def test_options_of_values_that_cannot_be_are_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        options(**given)


def test_options_of_values_are_what_travels():
    assert options() == ValueOptions(ValueFormat.BINARY)
    assert options(valueFormat="string", deadLetterTopic="bad") == ValueOptions(
        ValueFormat.STRING, dead_letter_topic="bad"
    )
