"""Stories that a quorum has to survive, for several seeds and shapes each (`kits.raft_scenarios`).

They are those of Kafka's simulation of its quorum, and some more.
"""

from __future__ import annotations

from random import Random

import pytest

from kits import raft_scenarios
from kits.raft_model import Model

SEEDS = range(6)


def shape(seed: int, fewest: int) -> dict:
    random = Random(seed)
    return {
        "voter_count": random.randint(fewest, 5),
        "observer_count": random.randint(0, 3),
        "seed": seed,
    }


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("story", raft_scenarios.OF_ANY, ids=lambda story: story.__name__)
def test_any_quorum(story, seed):
    story(Model(**shape(seed, 1), is_static=bool(seed % 2)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("story", raft_scenarios.OF_SEVERAL, ids=lambda story: story.__name__)
def test_three_voters_and_more(story, seed):
    story(Model(**shape(seed, 3), is_static=bool(seed % 2)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("story", raft_scenarios.OF_DYNAMIC, ids=lambda story: story.__name__)
def test_voters_that_the_log_names(story, seed):
    story(Model(**shape(seed, 3)))


@pytest.mark.parametrize("seed", SEEDS)
def test_one_of_two_voters_is_removed(seed):
    raft_scenarios.one_of_two_removes_itself_and_dies(Model(2, 0, seed=seed))
