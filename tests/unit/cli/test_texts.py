"""YAML that every reader takes for what it was."""

from __future__ import annotations

import json

import pytest

from moldau.cli.frame.texts import yaml_text


def test_mappings_and_lists_nest():
    data = [
        {"name": "a", "parts": [1, 2], "more": {"x": None}, "none": [], "empty": {}},
        {"name": "b"},
        [["deep"]],
    ]
    assert yaml_text(data).splitlines() == [
        "- name: a",
        "  parts:",
        "    - 1",
        "    - 2",
        "  more:",
        "    x: null",
        "  none: []",
        "  empty: {}",
        "- name: b",
        "- - - deep",
    ]


@pytest.mark.parametrize(
    "text",
    ["", "yes", "No", "null", "~", "1", "1e5", "0x1f", "1:30", "2026-01-01", "a: b", "- x", "a #b",
     "two\nlines", "\x1b[31m", "é", "'", '"', ".inf", "on"],
)  # fmt: skip
def test_text_that_could_be_something_else_is_quoted(text):
    assert yaml_text({"key": text}) == f"key: {json.dumps(text)}\n"
    assert json.loads(yaml_text({text: 1}).removesuffix(": 1\n")) == text


@pytest.mark.parametrize("text", ["orders", "cleanup.policy", "a/b", "under_scored", "no-1"])
def test_plain_words_stay_plain(text):
    assert yaml_text([text]) == f"- {text}\n"
