"""Trees and rows as lines: what they look like, and that they come one at a time."""

from __future__ import annotations

import json
from itertools import count, islice

import pytest

from moldau.cli.metadata.folder import LazyFolder
from moldau.cli.metadata.printing import json_array_lines, json_lines, short, tree_lines

NODE = {
    "a": {"b": 1, "empty": {}, "c": {"text": 'say "hi"\x9b', "none": None}},
    "list": [1, 2],
    "yes": True,
}


@pytest.mark.parametrize("node", [NODE, {}, {"one": {"two": {}}}, [1], "text", None, 0])
def test_lines_of_json_are_one_document(node):
    assert json.loads("\n".join(json_lines(node))) == node


def test_a_lazy_folder_is_printed_as_any_other():
    nothing = LazyFolder({}, str)
    folder = LazyFolder({"a": 1, "b": 2}, lambda number: {"is": number, "has": nothing})
    assert json.loads("\n".join(json_lines(folder))) == {
        "a": {"is": 1, "has": {}},
        "b": {"is": 2, "has": {}},
    }


def test_json_stands_as_in_other_commands():
    assert list(json_lines({"a": {"b": [1, 2]}, "c": {}})) == [
        "{",
        '  "a": {',
        '    "b": [1, 2]',
        "  },",
        '  "c": {}',
        "}",
    ]


@pytest.mark.parametrize("rows", [[], [{"a": 1}], [{"a": 1}, {"b": None}, {"c": [1]}]])
def test_an_array_has_a_row_in_a_line(rows):
    lines = list(json_array_lines(rows))
    assert json.loads("\n".join(lines)) == rows
    assert len(lines) == (len(rows) + 2 if rows else 1)


def test_a_tree_is_drawn():
    assert list(tree_lines("/", NODE)) == [
        "/",
        "├── a",
        "│   ├── b: 1",
        "│   ├── empty",
        "│   └── c",
        '│       ├── text: say "hi"\\x9b',
        "│       └── none: -",
        "├── list: 1,2",
        "└── yes: yes",
    ]


def test_below_the_last_level_only_the_number_of_entries_is_drawn():
    assert list(tree_lines("/", NODE, 1)) == [
        "/",
        "├── a (3 entries)",
        "├── list: 1,2",
        "└── yes: yes",
    ]
    assert short({"x": 1}) == "(1 entry)"


@pytest.mark.parametrize("lines", [tree_lines, lambda name, node: json_lines(node)])
def test_lines_come_before_the_entries_behind_them_are_made(lines):
    made = count()
    folder = LazyFolder({str(n): n for n in range(100_000)}, lambda n: {"is": n, "at": next(made)})
    assert len(list(islice(lines("/", folder), 10))) == 10
    assert next(made) < 10
