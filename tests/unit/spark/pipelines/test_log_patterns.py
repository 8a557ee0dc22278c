"""What is certain of a text or an expression holds wherever it matches, as RE2 sees it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from moldau.spark.pipelines.logs.search.patterns import wanted_expression, wanted_text
from moldau.spark.pipelines.logs.sketches.texts import text_bits, text_marks

ATOMS = ["a", "bc", "B", "é", " ", "1", r"\.", r"\d", ".", "[ab]", "[^]x]", "[[:alpha:]]",
         r"[\]b]", "(a|b)", "(?:bc)+", "(?P<n>a1)", "(b)?", "(a(b)|c)", "{", "a{,2}", "b{1", "]",
         "k", "Ks", "ß", "{0|", r"\x61", r"\pL", r"\Qa.b\E", "(?i)", "(?i:b)"]  # fmt: skip
AFTER = ["", "", "", "*", "+", "?", "??", "{0,2}", "{0}", "{2}", "{1,}"]
EDGES = ["^", "$", r"\b", r"\B", r"\A", r"\z", "|", ""]
PARTS = st.tuples(st.sampled_from(EDGES), st.sampled_from(ATOMS), st.sampled_from(AFTER)).map(
    "".join
)
EXPRESSIONS = st.lists(PARTS, min_size=1, max_size=4).map("".join)
TEXTS = st.text("aAbBcéÉ1.]{,2} \nkK\u212as\u017fß\u1e9e0|", max_size=12)


def ascii_lower(text):
    """Lower what sketches do."""
    return text.encode().lower().decode()


def matches(text, pattern):
    return pc.match_substring_regex(text, pattern).as_py()


@settings(max_examples=300)
@given(EXPRESSIONS, st.lists(TEXTS, min_size=1, max_size=8), TEXTS, TEXTS, st.booleans())
def test_what_is_certain_of_an_expression_holds_wherever_it_matches(
    expression, texts, before, after, ignore_case
):
    wanted = wanted_expression(expression, ignore_case=ignore_case)
    try:
        matching = [text for text in texts if matches(text, wanted.pattern)]
    except pa.ArrowInvalid:
        assume(False)
    for text in matching:
        kept = text_bits([pa.array([text])])
        assert kept.may_hold(text_marks(wanted.certain))
        assert all(ascii_lower(one) in ascii_lower(text) for one in wanted.certain)
        if not ignore_case:
            assert all(one in text for one in wanted.certain)
        for probe in wanted.probes:
            assert matches(before + text + after, probe.pattern)
            assert probe.literal in text


def holds_in_either_case(other, text):
    """Tell whether a text is part of another, its letters in lower or in upper case.

    The sign of Kelvin is k in lower case, but no k is that sign in upper case.
    """
    return any(
        all(
            found in (one, one.lower(), one.upper())
            for one, found in zip(text, other[at : at + len(text)], strict=True)
        )
        for at in range(len(other) - len(text) + 1)
    )


@settings(max_examples=100)
@example("K", "\u212a", True)
@example("\u212a", "k", True)
@given(TEXTS, TEXTS, st.booleans())
def test_a_text_is_found_where_it_is_part_of_another(text, other, ignore_case):
    wanted = wanted_text(text, ignore_case=ignore_case)
    inside = holds_in_either_case(other, text) if ignore_case else text in other
    assert matches(other, wanted.pattern) == inside
    (probe,) = wanted.probes
    assert probe.pattern == wanted.pattern
    if inside:
        assert probe.literal in other
        assert all(ascii_lower(one) in ascii_lower(other) for one in wanted.certain)


@pytest.mark.parametrize(
    ("expression", "certain"),
    [
        (r"took 9\d{3} ms", ("took 9", " ms")),
        (r"^GET /plums(/\d+)? 50[234]$", ("GET /plums", " 50")),
        (r"user=\w+\.shop", ("user=", ".shop")),
        ("colou?r", ("colo", "r")),
        ("no+pe", ("no", "pe")),
        ("ab{2}c", ("ab", "c")),
        ("ab{0,2}c", ("a", "c")),
        ("plums|pears", ()),
        ("(plums|pears) are gone", (" are gone",)),
        ("[[:digit:]]+ plums", (" plums",)),
        (r"\x41bc", ()),
        ("(?i)plums", ()),
        (r"\Qa.b\E", ()),
    ],
)
def test_literals_outside_of_groups_are_certain(expression, certain):
    assert wanted_expression(expression, ignore_case=False).certain == certain


@pytest.mark.parametrize(
    ("expression", "probes"),
    [
        (r"a\d", [(r"a\d", "a")]),
        (r"\d+", [(r"\d+", "")]),
        (r"^a.b+$", [("a", "a"), ("b", "b")]),
        (r"\b\d+$", []),
        (r"\x61", []),
    ],
)
def test_expressions_are_tried_on_many_texts_at_once_unless_they_look_at_edges(expression, probes):
    assert [*wanted_expression(expression, ignore_case=False).probes] == probes


def test_the_literal_of_a_text_in_either_case_has_no_letters():
    (probe,) = wanted_text("Id-777.5x", ignore_case=True).probes
    assert probe.literal == "-777.5"
