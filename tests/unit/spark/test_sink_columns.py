"""Which columns rows may have, and what is made of them."""

import pyarrow as pa
import pytest

from moldau.base.errors import UserError
from moldau.spark.sink.columns import Strings, check_types, timestamps_ms

HEADERS = "array<struct<key:string,value:binary>>"
NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    "types",
    [
        {"value": "string"},
        {"value": "binary", "key": "binary"},
        {"value": "binary", "key": "string", "headers": HEADERS, "partition": "int"},
        {"value": "binary", "timestamp": "timestamp", "offset": "bigint", "timestampType": "int"},
        {"value": "void", "key": "void"},
        {"value": "string", "topic": "int"},
    ],
)
def test_the_columns_of_a_topic_are_taken(types):
    check_types(types, "t")


@pytest.mark.parametrize(
    ("types", "topic", "said"),
    [
        ({"key": "string"}, "t", "no column `value`"),
        ({"value": "string"}, None, "no topic to write to"),
        ({"value": "int"}, "t", "`value` is of type int, .* cast it to string or binary"),
        ({"value": "string", "key": "bigint"}, "t", "`key` is of type bigint"),
        ({"value": "string", "partition": "bigint"}, "t", "cast it to int"),
        ({"value": "string", "timestamp": "timestamp_ntz"}, "t", "cast it to timestamp"),
        ({"value": "string", "headers": "map<string,binary>"}, "t", "`headers`"),
        ({"value": "string", "topic": "void"}, None, "`topic` is of type void"),
        ({"value": "string", "topic": "int"}, None, "`topic` is of type int"),
    ],
)
def test_other_columns_are_refused_in_one_line(types, topic, said):
    with pytest.raises(UserError, match=said) as raised:
        check_types(types, topic)
    assert "\n" not in str(raised.value)


def test_a_column_of_topics_is_enough():
    check_types({"value": "string", "topic": "string"}, None)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()], ids=str
)
def test_strings_of_every_width_are_bytes(kind):
    texts = ["one", None, "", "drei", "ü"]
    given = pa.array([one if one is None else one.encode() for one in texts], pa.binary())
    strings = Strings.of(given.cast(kind))
    assert strings.sizes.tolist() == [3, -1, 0, 4, 2]
    assert strings.lengths.tolist() == [3, 0, 0, 4, 2]
    assert [
        None if size < 0 else strings.data[start : start + size].tobytes().decode()
        for start, size in zip(strings.starts.tolist(), strings.sizes.tolist(), strict=True)
    ] == texts


def test_microseconds_become_milliseconds_and_null_becomes_now():
    column = pa.array([1_500_999, None, 0], pa.timestamp("us", "UTC"))
    assert timestamps_ms(column, NOW_MS).tolist() == [1500, NOW_MS, 0]


def test_times_before_1970_are_refused():
    with pytest.raises(UserError, match="before 1970"):
        timestamps_ms(pa.array([-1], pa.timestamp("us", "UTC")), NOW_MS)


def test_a_record_that_was_read_without_a_time_is_written_now():
    column = pa.array([-1000, 5000], pa.timestamp("us", "UTC"))
    assert timestamps_ms(column, NOW_MS).tolist() == [NOW_MS, 5]
