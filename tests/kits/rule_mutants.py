"""How many random walks over a model it takes to notice that one of its rules is switched off."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import pytest

Patch = Callable[[object, str, Any], None]
"""As `MonkeyPatch.setattr`."""


def replaced(module: object, name: str, mutant: object) -> Callable[[Patch], None]:
    """Return what puts a mutant in the place of a rule."""
    return lambda patch: patch(module, name, mutant)


def walks_to_notice(
    apply: Callable[[Patch], None],
    walk: Callable[[int], object],
    broken: tuple[type[Exception], ...],
    seeds: int,
    times: int,
) -> list[int]:
    """Walk until a mutant was noticed so many times; return how many walks each took."""
    found: list[int] = []
    walks = 0
    with pytest.MonkeyPatch.context() as patch:
        apply(patch.setattr)
        for seed in range(seeds):
            walks += 1
            try:
                walk(seed)
            except broken:
                found.append(walks)
                walks = 0
            if len(found) == times:
                break
    return found


def print_median(name: str, found: list[int], *, has_story: bool) -> None:
    """Print a line about one mutant."""
    how = f"{median(found):6g}" if found else "  none"
    print(f"{how} of {len(found):2}  {name}{' (has a story)' if has_story else ''}")
