"""What a mutant is: a change of the running code, where it is run, and the checks that find it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

Apply = Callable[[pytest.MonkeyPatch], None]
"""Puts the mistake into the code."""

RunSeed = Callable[[int], object]
"""Runs one seed of a simulation; `moldau.sim.scenarios.Failed` if a check fails."""


class Mutant(NamedTuple):
    """One rule that is broken."""

    apply: Apply
    run: RunSeed
    """A simulation in which the rule matters."""
    finding: str
    """A pattern of what the checks say. Another failure would be an accident of the mutant."""
