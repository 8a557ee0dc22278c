"""Patterns mean what Python's own mean, and never take longer than the text allows."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.patterns import DEPTH_MAX, LENGTH_MAX, InvalidPattern, Pattern

LEAVES = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\w", "[a-b_]", r"\.", "-"])
PATTERNS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda x: f"(?:{x})*", inner),
        st.builds(lambda x: f"({x})+", inner),
        st.builds(lambda x: f"(?:{x})?", inner),
        st.builds(lambda x: f"(?:{x}){{1,2}}", inner),
        st.builds(lambda x: f"(?:{x}){{2}}", inner),
        st.builds(lambda x: f"(?:{x}){{1,}}?", inner),
        st.builds(lambda x, y: f"{x}{y}", inner, inner),
        st.builds(lambda x, y: f"(?:{x}|{y})", inner, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=200)
@given(PATTERNS, st.text("abc1_.-\n", max_size=8))
def test_a_pattern_matches_as_pythons_engine_does(pattern, text):
    assert Pattern(pattern).matches(text) == (re.fullmatch(pattern, text, re.ASCII) is not None)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("", [""], ["a"]),
        ("^copier-[0-9]+$", ["copier-1", "copier-42"], ["copier-", "xcopier-1"]),
        ("a|b|", ["a", "b", ""], ["ab", "c"]),
        (r"\w+\s\S\D\W", ["ab 1x-"], ["ab 1xx", "ab12x-"]),
        (r"[\w.]+", ["a.b_1"], ["a-b"]),
        (r"[]a]+", ["]a"], ["b"]),
        (r"[a-]", ["a", "-"], ["b"]),
        (r"[\-x]\t", ["-\t", "x\t"], ["-t"]),
        ("a{0}b{2,}", ["bb", "bbb"], ["abb", "b"]),
        ("é.ß", ["éxß"], ["e.ß"]),
    ],
)
def test_the_notation(pattern, yes, no):
    compiled = Pattern(pattern)
    assert [text for text in yes if not compiled.matches(text)] == []
    assert [text for text in no if compiled.matches(text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "(a", "a)", "[a", "[]", "*a", "a**", "a+{2}", "{2}", "a{", "a{x}", "a{2,1}",
        "a{9999}", "a{,2}", "a\\", r"(a)\1", r"\p{L}", r"\Qa\E", "(?=a)", "(?<n>a)", "(?i)a", "a++",
        "a^b", "a$b", "[b-a]", r"[a-\d]", r"[\D]", "[a[b]]", "[a&&b]",
        "((a{50}){50}){50}", "(" * (DEPTH_MAX + 1) + "a" + ")" * (DEPTH_MAX + 1),
        "a" * (LENGTH_MAX + 1),
    ],
)  # fmt: skip
def test_what_is_not_taken_is_refused(pattern):
    with pytest.raises(InvalidPattern):
        Pattern(pattern)


def test_a_pattern_that_keeps_others_busy_for_years_is_matched_at_once():
    assert not Pattern("(a+)+(a|aa)+b").matches("a" * 5000)
    assert Pattern("(.*)(.*)(.*)(.*)(.*)x").matches("a" * 5000 + "x")


def test_what_is_remembered_of_a_pattern_is_bounded(monkeypatch):
    monkeypatch.setattr("moldau.base.patterns.STEPS_REMEMBERED", 3)
    pattern = Pattern("[a-z]*")
    assert pattern.matches("abcdefghijkl")
    assert len(pattern._steps) <= 3
