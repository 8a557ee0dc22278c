"""What tests of many simulated runs have in common: their seeds, what runs saw, and repetition."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from moldau.sim.scenarios import ScenarioOutcome


def seed_cases(seeds: Iterable[int], more_seeds: Iterable[int]) -> list[Any]:
    """Return seeds to be run always, and more that `make test-long` runs."""
    return [*seeds, *(pytest.param(seed, marks=pytest.mark.long) for seed in more_seeds)]


def never_seen(wanted: set[str], outcomes: Iterable[ScenarioOutcome]) -> set[str]:
    """Return what none of the runs has seen: faults that never happened were not survived."""
    return wanted.difference(*(+outcome.seen for outcome in outcomes))  # not what was counted as 0


def said_in_another_process(seed: int, *options: str, hash_seed: int) -> str:
    """Run a seed where Python hashes differently, and return what the command said."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-m", "moldau.sim.run", *options, "--seed", str(seed)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout
