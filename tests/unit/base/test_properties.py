"""Java's properties text: what java.util.Properties reads, read the same, and written back."""

import pytest

from moldau.base.properties import Property, format_properties, parse_entries, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t\f = \t1 ", {"a": "1 "}),
        ("a==1", {"a": "=1"}),
        ("a : = 1", {"a": "= 1"}),
        ("a", {"a": ""}),
        ("  a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("# a=1\n ! b=2\n\n \t\nc=#3", {"c": "#3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n   2,\\\r\n\t3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# no comment", {"a": "1# no comment"}),
        ("\\\n# a comment\na=1", {"a": "1"}),
        ("a=1\\", {"a": "1"}),
        (r"a\ b\=c\:d=e", {"a b=c:d": "e"}),
        (r"a=\t\n\r\f\q\\", {"a": "\t\n\r\fq\\"}),
        (r"a=\u00e9\u2603", {"a": "é☃"}),
        (r"a=\ud83d\ude00", {"a": "😀"}),
        ("a=é😀", {"a": "é😀"}),
        ("", {}),
    ],
)
def test_text_means_what_it_means_to_java(text, expected):
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a=1\nb=\\u12", "line 2: .u must be followed by four hexadecimal digits"),
        ("a=\\uzzzz", "line 1: .u must be followed"),
        ("\n\na=\\\n\\ud83d", "line 3: an escaped surrogate lacks its other half"),
    ],
)
def test_a_malformed_escape_is_refused_with_its_line(text, problem):
    with pytest.raises(ValueError, match=problem):
        parse_properties(text)


def test_entries_say_in_which_line_they_begin():
    assert list(parse_entries("# c\na=1\\\n2\n\nb=3")) == [
        Property("a", "12", 2),
        Property("b", "3", 5),
    ]


def test_what_is_written_is_read_back_and_is_ascii():
    properties = {
        "plain": "value",
        "with blank": " leading and trailing ",
        "a=b:c#d!e": "=:#!\\",
        "lines": "1\n2\r3\t4\f",
        "é😀": "☃",
        "empty": "",
    }
    text = format_properties(properties)
    assert text.isascii()
    assert text.count("\n") == len(properties)
    assert parse_properties(text) == properties
    assert list(parse_properties(text)) == list(properties)
