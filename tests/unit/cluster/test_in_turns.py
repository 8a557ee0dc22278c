"""Work on many elements lets others have their turn in between."""

from __future__ import annotations

import asyncio
import random

import pytest

from kits.slicing import count_turns
from moldau.cluster.in_turns import PASSED_PER_TURN, paused, sorted_in_turns

MANY = 10 * PASSED_PER_TURN + 1


@pytest.mark.parametrize("count", [0, 1, PASSED_PER_TURN, PASSED_PER_TURN + 1, MANY])
def test_texts_are_sorted(count):
    texts = [str(random.Random(number).random()) for number in range(count)]
    assert asyncio.run(sorted_in_turns(texts)) == sorted(texts)


def test_many_texts_are_sorted_in_turns():
    texts = [str(number) for number in range(MANY)]
    assert asyncio.run(count_turns(sorted_in_turns(texts))) >= 20


def test_a_walk_pauses():
    async def walk():
        assert [one async for one in paused(range(MANY))] == list(range(MANY))

    assert asyncio.run(count_turns(walk())) >= 10
