"""What many runs together must have exercised, and whether they have.

Runs in which nothing happened hold every promise. So a run of many seeds says how often the cases
occurred that replication is for, beside how often they have to, by the number of seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

SEEDS = 600
WANTED = {
    "election": 1500,
    "truncation": 300,
    "election during a pending ISR change": 150,
    "zombie leader resumed": 60,
    "election of an eligible leader replica": 60,
    "transaction over a coordinator move": 30,
}
"""How often each case has to occur in so many seeds."""


def coverage_lines(seen: Counter[str], seed_count: int) -> Iterator[str]:
    """Compare what was seen in some seeds with what is wanted of so many."""
    for case, wanted in WANTED.items():
        scaled = wanted * seed_count / SEEDS
        state = "reached" if seen[case] >= scaled else "MISSED"
        yield f"{state:>10} {case}: {seen[case]} of {scaled:g}"
