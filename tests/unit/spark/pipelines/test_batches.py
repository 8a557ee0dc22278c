"""The loop of batches: one that was done is not done again, and nothing is left out unsaid."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from moldau.base.errors import UserError
from moldau.spark.pipelines.stage import Report
from moldau.spark.pipelines.storage import LocalFiles
from moldau.spark.pipelines.windowed.batches import Batches


class Landings:
    """Notes which batches were landed."""

    def __init__(self):
        self.numbers = []

    def land(self, state, rows, number):
        self.numbers.append(number)
        return state


@pytest.fixture
def stage(tmp_path):
    return SimpleNamespace(
        files=LocalFiles(), place=lambda name: str(tmp_path / name), report=Report()
    )


def taking(stage, *numbers):
    """Take batches as a run that has just begun, and return which of them were landed."""
    landings = Landings()
    batches = Batches(stage, landings, None, window_ms=1, delay_ms=1)
    for number in numbers:
        batches.take(None, number)
    return landings.numbers


def test_the_last_batch_is_not_done_again(stage):
    assert taking(stage, 0, 1) == [0, 1]
    assert taking(stage, 1, 2) == [2]


def test_a_batch_is_not_taken_without_the_state_before_it(stage):
    assert taking(stage, 0) == [0]
    with pytest.raises(UserError, match="the state of batch 1 is missing"):
        taking(stage, 2)


def test_an_older_copy_of_a_checkpoint_is_refused(stage):
    assert taking(stage, 0, 1, 2) == [0, 1, 2]
    with pytest.raises(UserError, match="the checkpoint is an older copy"):
        taking(stage, 1)
