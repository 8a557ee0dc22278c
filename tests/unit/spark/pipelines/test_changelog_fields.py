"""Columns of changelog tables: what values need, and nothing of them lost."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.spark.pipelines.changelog.fields import (
    BIGINT,
    BOOLEAN,
    COLUMN_COUNT_MAX,
    DEPTH_MAX,
    DOUBLE,
    NOT_JSON,
    NOT_OBJECT,
    STRING,
    TOO_DEEP,
    Unreadable,
    columns_of,
    joined,
    noted,
    parsed,
    widened,
)
from moldau.spark.pipelines.changelog.rows import (
    CHANGE_SCHEMA,
    KEY,
    RAW,
    newest_by_key,
    sorted_out,
    typed,
)

KINDS = st.sampled_from([BOOLEAN, BIGINT, DOUBLE, STRING])
NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.text())
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.text(), SCALARS, max_size=2)
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def seen_in(rows):
    seen = {}
    for row in rows:
        noted(row, seen)
    return seen


@given(KINDS, KINDS, KINDS)
def test_types_widen_the_same_in_any_order(one, two, three):
    assert joined(one, two) == joined(two, one)
    assert joined(joined(one, two), three) == joined(one, joined(two, three))
    assert joined(one, one) == one


@given(st.lists(OBJECTS, max_size=8), st.integers(0, 8))
def test_every_value_fits_its_column_however_rows_fell_into_batches(rows, cut):
    fields = widened(widened({}, seen_in(rows[:cut])), seen_in(rows[cut:]))
    assert fields == {name: fields[name] for name in widened({}, seen_in(rows))}
    texts = [json.dumps(row) for row in rows]
    columns = typed(pa.array(texts, pa.string()), fields)
    for name, kind in fields.items():
        for row, value in zip(rows, columns[name].to_pylist(), strict=True):
            assert same(row.get(name), value, kind)


def same(given, found, kind):
    if given is None:
        return found is None
    if kind == DOUBLE:
        return found == float(given)
    if kind == STRING and isinstance(given, str):
        return found == given.encode(errors="replace").decode()
    return json.loads(found) == given if kind == STRING else found == given


def test_names_that_cannot_be_columns_stay_in_the_text():
    assert widened({}, dict.fromkeys(["_x", "", "a\nb", "\ud800"], BIGINT)) == {}
    many = widened({}, {f"c{number}": BIGINT for number in range(COLUMN_COUNT_MAX + 1)})
    assert len(many) == COLUMN_COUNT_MAX


@pytest.mark.parametrize(
    "names",
    [("id", "\u0131d"), ("s", "\u017f"), ("\u03bc", "\u00b5"), ("\u03c3", "\u03c2"),
     ("k", "\u212a"), ("ß", "ẞ"), ("ᾀ", "ᾈ"), ("i", "İ"), ("i\u0307", "İ"), ("a", "A")],
)  # fmt: skip
def test_names_that_spark_does_not_tell_apart_are_one_column(names):
    one, other = names
    rows = [{other: 1}, {one: "x"}, {other: 2, one: 3}]
    fields = widened({}, seen_in(rows))
    assert fields == {one: STRING}
    assert columns_of([json.dumps(row) for row in rows], fields) == {one: ["1", "x", "3"]}
    assert widened({other: BIGINT}, {one: DOUBLE}) == {other: DOUBLE}


def test_one_record_in_capitals_leaves_the_columns_of_the_others():
    rows = [{"ID": 1, "Name": "x"}, *({"id": one, "name": "y"} for one in range(2, 5))]
    fields = widened({}, seen_in(rows))
    assert fields == {"id": BIGINT, "name": STRING}
    columns = columns_of([json.dumps(row) for row in rows], fields)
    assert columns == {"id": [1, 2, 3, 4], "name": ["x", "y", "y", "y"]}


def test_a_value_of_another_spelling_that_was_never_noted_is_left_out():
    """As in tables from before spellings were one column."""
    texts = ['{"id": "a"}', '{"id": 7}', '{"ID": 8}']
    assert columns_of(texts, {"ID": BIGINT}) == {"ID": [None, 7, 8]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", NOT_JSON), ("{", NOT_JSON), ('{"a": NaN}', NOT_JSON), ("[1]", NOT_OBJECT),
     ("null", NOT_OBJECT), ('{"a":' * 100_000, TOO_DEEP)],
)  # fmt: skip
def test_what_is_no_row_is_refused_with_a_reason(text, reason):
    with pytest.raises(Unreadable, match=reason):
        parsed(text)


def nested(depth):
    """Return a row of so many objects and arrays within one another."""
    return '{"b": 1, "a": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


def test_rows_are_nested_so_deeply_and_no_further_whoever_reads_them():
    brackets = json.dumps({"a": "[" * 1000, "b": [[]] * 1000})
    for text in (nested(DEPTH_MAX), brackets):
        assert parsed(text) == json.loads(text)
    with pytest.raises(Unreadable, match=TOO_DEEP):
        parsed(nested(DEPTH_MAX + 1))


def test_a_row_that_cannot_be_read_again_is_null_and_leaves_the_others():
    """It may have been taken where more nesting could be read than here."""
    fields = {"a": STRING, "b": BIGINT}
    assert columns_of([nested(100_000), nested(2), "", "[1]"], fields) == {
        "a": [None, "[]", None, None],
        "b": [None, 1, None, None],
    }
    limit = sys.getrecursionlimit()
    texts = [nested(depth) for depth in range(limit - 300, limit + 10)]
    found = columns_of(texts, fields)
    assert [len(column) for column in found.values()] == [len(texts)] * 2


def test_half_a_character_of_json_does_not_break_a_column():
    text = '{"a": "x\\ud800", "b": ["\\ud800"]}'
    found = columns_of([text], {"a": STRING, "b": STRING})
    assert found == {"a": ["x?"], "b": ['["?"]']}


def test_records_become_changes_deletes_and_dead_letters():
    records = [
        (b"a", b'{"n": 1}'),
        (b"b", None),
        (None, b"{}"),
        (b"\xff", b"{}"),
        (b"c", b"\xff"),
        (b"d", b"7"),
    ]
    keys, values = zip(*records, strict=True)
    rows = sorted_out(pa.array(keys, pa.binary()), pa.array(values, pa.binary())).to_pylist()
    assert [row["reason"] for row in rows] == [
        None, None, "no key", "key is not UTF-8", "not UTF-8", NOT_OBJECT
    ]  # fmt: skip
    assert [(row["key"], row["raw"]) for row in rows[:2]] == [("a", '{"n": 1}'), ("b", None)]
    assert json.loads(rows[0]["seen"]) == {"n": BIGINT}
    assert sorted_out(pa.array([], pa.binary()), pa.array([], pa.binary())).to_pylist() == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=20))
def test_the_last_change_of_a_key_is_the_one_of_the_last_batch_and_offset(changes):
    rows = [
        {KEY: key, RAW: str(offset), "_partition": 0, "_offset": offset, "_batch": batch}
        for offset, (key, batch) in enumerate(changes)
    ]
    last = {}
    for row in sorted(rows, key=lambda row: (row["_batch"], row["_offset"])):
        last[row[KEY]] = row[RAW]
    found = newest_by_key(pa.Table.from_pylist(rows, CHANGE_SCHEMA)).sort_by(KEY)
    assert list(zip(found[KEY].to_pylist(), found[RAW].to_pylist(), strict=True)) == sorted(
        last.items()
    )
