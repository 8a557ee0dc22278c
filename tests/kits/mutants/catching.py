"""Runs a mutant over seeds, one after the other, until a check finds it."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from kits.mutants.mutant import Mutant
from moldau.sim.history import Violation
from moldau.sim.loop import OutOfTime, Unhandled
from moldau.sim.scenarios import Failed


class Catch(NamedTuple):
    """How a mutant was found."""

    seeds: int
    """How many it took."""
    said: str
    """By the check that failed."""


class Accident(Exception):  # noqa: N818 - it names what happened
    """A run with a mutant has failed, but not by a check that is meant for it."""


def catch(mutant: Mutant, first_seed: int, limit: int) -> Catch | None:
    """Run so many seeds at most; None if no check finds the mutant in them."""
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        for number in range(limit):
            try:
                mutant.run(first_seed + number)
            except Failed as failure:
                said = str(failure.__cause__)
                is_meant = isinstance(failure.__cause__, Violation | OutOfTime | Unhandled)
                if not is_meant or not re.match(mutant.finding, said):
                    raise Accident(
                        f"seed {first_seed + number}: {failure.__cause__!r}"
                    ) from failure
                return Catch(number + 1, said)
    return None
