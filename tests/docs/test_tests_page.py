"""The page that says which test proves what names only tests and targets that are there."""

import re
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "tests.md").read_text()


def found(pattern, text):
    return set(re.findall(pattern, text, re.MULTILINE))


def test_every_test_that_the_page_names_is_there():
    named = found(r"`(tests/[\w/]+(?:\.py)?)`", PAGE)
    assert named
    assert sorted(name for name in named if not (CHECKOUT / name).exists()) == []


def test_every_target_that_the_page_names_is_there():
    targets = found(r"^([a-z][a-z-]*):", (CHECKOUT / "Makefile").read_text())
    named = found(r"`make ([a-z-]+)[` ]", PAGE)
    assert named
    assert named - targets == set()


def test_the_page_has_a_row_for_every_promise():
    row = r"^\| (P\d) \|"
    promises = found(row, (CHECKOUT / "docs" / "guarantees.md").read_text())
    assert promises
    assert promises == found(row, PAGE)
