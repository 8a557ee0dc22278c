"""The tester tested: a cluster with a mistake in its rules is found within a few seeds.

`kits.mutants` has the mistakes. Here a few of them are run on one seed that finds them, and all of
them, as long tests, until a check finds them. `make mutants` counts the seeds from several starts.
"""

from __future__ import annotations

import pytest

from kits.mutants.catching import catch
from kits.mutants.search import MUTANTS

LIMIT = 60
"""How many seeds a mutant may live."""

SAMPLE = {
    "the high watermark ignores a follower": 0,
    "the high watermark moves below min ISR": 0,
    "acknowledged before the high watermark": 0,
    "any follower that fetches joins the ISR": 0,
    "a fenced broker joins": 0,
    "a broker keeps its ISR membership after an unclean stop": 0,
    "one batch of a producer is remembered, not five": 0,
}
"""Mutants that are found in a second or so, with a seed that finds them."""


@pytest.mark.parametrize("name", SAMPLE)
def test_a_mistake_is_found_by_the_seed_of_the_sample(name):
    assert catch(MUTANTS[name], SAMPLE[name], limit=1) is not None, "it lives"


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_found_within_some_seeds(name):
    assert catch(MUTANTS[name], 0, LIMIT) is not None, "it lives"


@pytest.mark.parametrize("name", ["the latest offset is reported after an election"])
def test_without_a_mistake_nothing_is_found(name):
    MUTANTS[name].run(0)
