"""Records as text and back: percent formats, JSON, lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.errors import UserError
from moldau.cli.stream.lines import line_lists
from moldau.cli.stream.reading import (
    Line,
    given_header,
    json_reader,
    key_reader,
    parse_header,
    percent_reader,
    tombstone_reader,
    value_reader,
)
from moldau.cli.stream.writing import harmless, percent_writer, write_json
from moldau.client.records import Record, TimestampType


def record(key=b"k", value=b"v", headers=(), timestamp_ms=0):
    return Record("orders", 2, 17, timestamp_ms, TimestampType.CREATE_TIME, key, value, headers, 1)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (r"%v\n", b"v\n"),
        ("%s", b"v"),
        (r"%t:%p:%o %k=%v\t%%\\", b"orders:2:17 k=v\t%\\"),
        ("%T", b"0"),
        ("%K/%S", b"1/1"),
        ("%k{hex} %v{base64}", b"6b dg=="),
        (r"\x00\xff\0", b"\x00\xff\x00"),
        ("%h", b"a=1,b="),
        ("%d{strftime[%Y]}!", b"2001!"),
    ],
)
def test_a_format_writes_the_fields_it_names(text, written):
    shown = record(
        headers=(("a", b"1"), ("b", None)),
        timestamp_ms=0 if "%d" not in text else 1_000_000_000_000,
    )
    assert percent_writer(text)(shown) == written


def test_null_is_written_as_told_and_has_a_size_of_its_own():
    nothing = record(None, None)
    assert percent_writer("[%k|%v|%K|%S]", null=b"NULL")(nothing) == b"[NULL|NULL|-1|-1]"
    assert percent_writer("%k")(nothing) == b""


def test_a_time_beyond_all_calendars_is_no_error():
    assert percent_writer("%d{strftime[%Y]}")(record(timestamp_ms=2**62)) == b"1970"


def test_values_are_harmless_on_a_terminal_and_untouched_in_a_pipe():
    evil = record(b"\x1b[2J", b"\xff\n\x07")
    assert percent_writer("%k %v")(evil) == b"\x1b[2J \xff\n\x07"
    assert percent_writer("%k %v", escape=harmless)(evil) == rb"\x1b[2J \xff\n\x07"


@pytest.mark.parametrize("text", ["%q", "%", "\\q", "%v{rot13}", "%p{hex}", "%d{hex}", "%v{"])
def test_a_format_that_cannot_be_is_refused(text):
    with pytest.raises(UserError):
        percent_writer(text)


@pytest.mark.parametrize("text", ["%k%v", "%v %v", "%v %s", "%o", "%d"])
def test_a_format_that_cannot_be_read_is_refused(text):
    with pytest.raises(UserError):
        percent_reader(text, None)


def test_a_format_reads_fields_up_to_what_follows_them():
    read = percent_reader(r"%p %T %h %k=%v{hex}\n", b"-")
    assert read(b"3 5 a=1,b ke y=6869") == Line(b"hi", b"ke y", 3, 5, (("a", b"1"), ("b", None)))
    assert read(b"3 5  -=-") == Line(None, None, 3, 5, ())


@pytest.mark.parametrize("line", [b"no fields", b"x k=6869", b"1 k=6", b"9" * 19 + b" k=68"])
def test_a_line_that_is_not_as_the_format_says_is_refused(line):
    with pytest.raises(UserError):
        percent_reader("%p %k=%v{hex}", None)(line)


def test_keys_are_cut_at_the_first_delimiter_and_the_marker_is_null():
    read = key_reader(b"::", b"NULL")
    assert read(b"a::b::c") == Line(b"b::c", b"a")
    assert read(b"NULL::NULL") == Line(None, None)
    with pytest.raises(UserError, match="has no '::'"):
        read(b"a:b")


def test_plain_lines_are_values_and_tombstones_keys():
    assert value_reader(None)(b"\xff") == Line(b"\xff")
    assert value_reader(b"-")(b"-") == Line(None)
    assert tombstone_reader(b"k") == Line(None, b"k")


def test_headers_may_have_no_value():
    assert parse_header("a=b=c") == ("a", b"b=c")
    assert parse_header("a=") == ("a", b"")
    assert parse_header("a") == ("a", None)
    with pytest.raises(UserError):
        parse_header("=b")


@pytest.mark.parametrize("text", ["a", "", "=b"])
def test_an_option_that_is_no_header_is_refused(text):
    with pytest.raises(UserError, match="is not a header: expected NAME=VALUE"):
        given_header(text)


def test_an_option_that_is_a_header_is_taken():
    assert given_header("a=") == ("a", b"")
    assert given_header("a=b") == ("a", b"b")


def test_json_takes_text_base64_null_and_other_json():
    assert json_reader(b'{"value": "v", "key_base64": "/w=="}') == Line(b"v", b"\xff")
    assert json_reader(b'{"value": {"a": [1, "\xc3\xa9"]}}') == Line(b'{"a":[1,"\\u00e9"]}')
    assert json_reader(b"{}") == Line(None)
    assert json_reader(b'{"headers": {"a": "1"}, "partition": 1, "timestamp": 2}') == Line(
        None, None, 1, 2, (("a", b"1"),)
    )


@pytest.mark.parametrize(
    "line",
    [
        b"", b"[]", b"{", b'{"valeu": "v"}', b'{"partition": -1}', b'{"partition": true}',
        b'{"timestamp": 1e3}', b'{"timestamp": 9999999999999999999}', b'{"headers": 3}',
        b'{"headers": [1]}', b'{"value": "a", "value_base64": "YQ=="}', b'{"value_base64": "?"}',
        b'{"value_base64": 3}', b'{"value": "\\ud800"}', b"[" * 100_000, b"\xff",
    ],
)  # fmt: skip
def test_json_that_is_no_record_is_refused(line):
    with pytest.raises(UserError):
        json_reader(line)


parts = st.none() | st.binary(max_size=20)


@given(parts, parts, st.lists(st.tuples(st.text(max_size=5), parts), max_size=3))
def test_json_that_was_consumed_can_be_produced(key, value, headers):
    line = write_json(record(key, value, tuple(headers), 5))
    assert line.endswith(b"\n")
    assert line.isascii()
    assert json.loads(line)["offset"] == 17
    assert json_reader(line) == Line(value, key, 2, 5, tuple(headers))


@given(st.binary(max_size=200), st.lists(st.integers(1, 20), min_size=1))
def test_lines_are_the_same_however_they_arrive(text, sizes):
    chunks = []
    rest, number = text, 0
    while rest:
        size = sizes[number % len(sizes)]
        chunks.append(rest[:size])
        rest = rest[size:]
        number += 1
    chunks.append(b"")
    found = [line for lines in line_lists(iter(chunks).__next__) for line in lines]
    expected = text.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert found == expected


def test_a_line_is_there_as_soon_as_it_is_whole():
    chunks = iter([b"a", b"b\nc\nd"])
    assert next(line_lists(chunks.__next__)) == [b"ab", b"c"]
