"""Results of many items: each has its own, and what passes is tried again."""

from __future__ import annotations

import pytest

from moldau.client.errors import (
    ConnectionLost,
    CorruptAnswer,
    NotController,
    PolicyViolation,
    RequestTimedOut,
    TopicAlreadyExists,
)
from moldau.engine.results import Results, Tally


def test_an_item_gives_its_result_or_raises_its_error():
    error = TopicAlreadyExists("b is there")
    results = Results({"a": 1}, {"b": error})
    assert results["a"] == 1
    with pytest.raises(TopicAlreadyExists) as raised:
        results["b"]
    assert raised.value is error
    with pytest.raises(KeyError):
        results["c"]
    assert list(results) == ["a", "b"]
    assert len(results) == 2
    assert "b" in results
    assert "c" not in results


def test_all_results_are_had_only_where_nothing_failed():
    assert Results({"a": 1}, {}).or_raise() == {"a": 1}
    with pytest.raises(PolicyViolation):
        Results({"a": 1}, {"b": PolicyViolation()}).or_raise()


def test_what_can_pass_waits_and_the_rest_is_settled():
    tally: Tally[str, int] = Tally(["a", "b", "c", "a"])
    tally.begin_round()
    tally.done("a", 1)
    tally.fail("b", NotController())
    tally.fail("c", PolicyViolation())
    with pytest.raises(NotController):
        tally.end_round()
    assert list(tally.waiting) == ["b"]
    tally.begin_round()
    tally.done("b", 2)
    tally.end_round()
    assert tally.results().ok == {"a": 1, "b": 2}
    assert list(tally.results().errors) == ["c"]


def test_an_item_that_no_answer_spoke_of_is_an_error():
    tally: Tally[str, int] = Tally(["a"])
    tally.begin_round()
    tally.end_round()
    assert isinstance(tally.results().errors["a"], CorruptAnswer)


def test_an_item_that_was_not_asked_for_or_is_settled_is_left_alone():
    tally: Tally[str, int] = Tally(["a"])
    tally.done("a", 1)
    tally.done("a", 2)
    tally.refuse("a", PolicyViolation())
    tally.fail("b", PolicyViolation())
    tally.done("b", 3)
    assert tally.results().ok == {"a": 1}
    assert tally.results().errors == {}


@pytest.mark.parametrize("error", [ConnectionLost("gone"), RequestTimedOut()])
def test_a_lost_answer_makes_an_item_uncertain(error):
    tally: Tally[str, int] = Tally(["a", "b"])
    tally.fail("a", error)
    tally.fail("b", NotController())
    assert tally.uncertain == {"a"}


def test_at_the_deadline_each_item_fails_with_what_went_wrong_last():
    tally: Tally[str, int] = Tally(["a", "b"])
    tally.fail("a", NotController())
    tally.give_up(RequestTimedOut())
    errors = tally.results().errors
    assert isinstance(errors["a"], NotController)
    assert isinstance(errors["b"], RequestTimedOut)
