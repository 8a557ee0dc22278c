"""One report in every form: for people, for programs, and for pipes in between."""

from __future__ import annotations

import csv
import io
import json

import pytest

from moldau.cli.frame.output import rendered
from moldau.cli.frame.report import Column, Report, View, cell, listing

COLUMNS = (
    Column("name", "NAME"),
    Column("count", "COUNT"),
    Column("good", "GOOD"),
    Column("parts", "PARTS", wide=True),
)
ROWS = [
    {"name": "orders", "count": 3, "good": True, "parts": [0, 1, 2]},
    {"name": "a", "count": 12000, "good": False, "parts": []},
    {"name": "none", "count": None, "good": None, "parts": None},
]
REPORT = listing(COLUMNS, ROWS)


def test_a_table_aligns_text_left_and_numbers_right_and_hides_wide_columns():
    assert rendered(REPORT, "table").splitlines() == [
        "NAME    COUNT  GOOD",
        "orders      3  yes",
        "a       12000  no",
        "none        -  -",
    ]


def test_wide_shows_every_column():
    first, *_ = rendered(REPORT, "wide").splitlines()[1:]
    assert first.split() == ["orders", "3", "yes", "0,1,2"]


def test_json_is_the_data_itself():
    assert json.loads(rendered(REPORT, "json")) == ROWS


def test_csv_names_columns_by_their_keys_and_leaves_nothing_empty():
    lines = list(csv.reader(io.StringIO(rendered(REPORT, "csv"))))
    assert lines == [
        ["name", "count", "good", "parts"],
        ["orders", "3", "true", "0,1,2"],
        ["a", "12000", "false", "-"],
        ["none", "", "", ""],
    ]


def test_name_prints_each_name_once():
    twice = listing(COLUMNS, [*ROWS, ROWS[0]])
    assert rendered(twice, "name").splitlines() == ["orders", "a", "none"]


def test_views_are_for_people_and_the_main_table_for_csv():
    main = View(COLUMNS[:1], [{"name": "x"}])
    other = View((Column("y", "Y"),), [{"y": 1}], caption="beside")
    report = Report({}, main, "name", (main, other))
    assert rendered(report, "table") == "NAME\nx\n\nbeside\nY\n1\n"
    assert rendered(report, "csv") == "name\nx\n"


def test_an_empty_list_is_its_heading_and_empty_data():
    empty = listing(COLUMNS, [])
    assert rendered(empty, "table") == "NAME  COUNT  GOOD\n"
    assert rendered(empty, "json") == "[]\n"
    assert rendered(empty, "yaml") == "[]\n"
    assert rendered(empty, "name") == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("two\nlines", "two\\nlines"),
        ("\u202eleft", "\\u202eleft"),
        ("\x9b31mred", "\\x9b31mred"),
        ("žluť", "žluť"),
        ("", "-"),
        ({"a": 1}, "a=1"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_instead(value, shown):
    assert cell(value) == shown
    as_json = rendered(listing(COLUMNS[:1], [{"name": value}]), "json")
    assert json.loads(as_json) == [{"name": value}]
    assert not set(as_json) & {"\x1b", "\x9b", "\u202e"}
    assert rendered(listing(COLUMNS[:1], [{"name": value}]), "table").splitlines()[1] == shown
