"""Lines as records, by Kafka's properties."""

from __future__ import annotations

import io

import pytest

from moldau.cli.kafka.line_reader import Line, LineReader
from moldau.cli.kafka.running import CommandFailed


def read(data: bytes, **properties: str) -> list[Line]:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return list(LineReader(named).read(io.BytesIO(data)))


def test_a_line_is_a_value_whatever_ends_it():
    assert read(b"a\nb\r\nc\rd") == [Line(None, value, []) for value in (b"a", b"b", b"c", b"d")]


def test_bytes_that_are_no_text_stay_as_they_are():
    assert read(b"\xff\x00\xfe\n") == [Line(None, b"\xff\x00\xfe", [])]


def test_headers_and_key_stand_before_the_value():
    assert read(b"a:1,b:2\tk\tv\tw\n", parse_key="true", parse_headers="TRUE") == [
        Line(b"k", b"v\tw", [("a", b"1"), ("b", b"2")])
    ]


def test_the_null_marker_stands_for_nothing():
    assert read(b"N\tN\tN\na:N\t\t\n", parse_key="true", parse_headers="true", null_marker="N") == [
        Line(None, None, []),
        Line(b"", b"", [("a", None)]),
    ]


def test_other_separators_are_taken():
    assert read(b"k|v\n", parse_key="true", key_separator="|") == [Line(b"k", b"v", [])]


def test_errors_may_be_ignored():
    assert read(b"only a value\n", parse_key="true", ignore_error="true") == [
        Line(None, b"only a value", [])
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a:1\tno key\n", "No key separator found on line number 1: 'no key'"),
        (b"nothing\n", "No headers delimiter found on line number 1: 'nothing'"),
        (b"x\tk\tv\n", "No header key separator found in pair 'x' on line number 1"),
    ],
)
def test_a_line_that_lacks_a_part_is_refused(data, said):
    with pytest.raises(CommandFailed) as caught:
        read(data, parse_key="true", parse_headers="true")
    assert str(caught.value) == said


def test_separators_must_differ():
    with pytest.raises(CommandFailed, match=r"null\.marker and key\.separator may not be equal"):
        LineReader({"null.marker": "x", "key.separator": "x"})
    with pytest.raises(CommandFailed, match=r"headers\.delimiter and headers\.separator"):
        LineReader({"headers.delimiter": ","})
