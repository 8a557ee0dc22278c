"""Waits after failures grow, stay bounded, and spread."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from moldau.engine.backoff import JITTER, Backoff

WAITS = Backoff(100, 1_000)


class Middle:
    """Chance that never deviates."""

    def random(self):
        return 0.5


def test_waits_double_up_to_the_longest():
    waits = [WAITS.wait_s(count, Middle()) for count in range(7)]
    assert waits == [0.0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@given(st.integers(1, 10**9), st.integers(0, 2**32))
def test_no_wait_leaves_its_bounds_however_many_failures_there_were(count, seed):
    wait_s = WAITS.wait_s(count, random.Random(seed))
    assert 0.1 * (1 - JITTER) <= wait_s <= 1.0 * (1 + JITTER)


def test_clients_that_failed_together_return_apart():
    chance = random.Random(1)
    assert len({WAITS.wait_s(1, chance) for _ in range(20)}) == 20
