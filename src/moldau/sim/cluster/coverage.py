"""How often many runs together must have seen each important case, and whether they have.

A run in which nothing happens keeps every promise. So `sim-cluster-many` prints how often there was
an election, a truncation and the like, beside how often there has to be one in so many seeds.
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

WANTED_ON_ZOOKEEPER = {
    "controller change": 1500,
    "session expiry": 1500,
    "zombie controller resumed": 60,
    "deletion with a broker away": 60,
    "false suspicion": 30,
    "topic id erased": 200,
    "topic back before a late deletion": 60,
    "late ISR proposal": 10,
    "late join": 10,
    "update of a former controller": 60,
}
"""And these in a cluster on ZooKeeper."""

WANTED_IN_QUORUM = {
    "quorum election": 300,
    "truncation of the metadata log": 100,
    "zombie controller resumed": 60,
    "voter replaced": 30,
    "snapshot fetched half way": 30,
    "leader without room replaced": 30,
    "request of an earlier epoch": 60,
}
"""And these in a cluster on a quorum."""


def coverage_lines(
    seen: Counter[str], seed_count: int, *, zookeeper: bool = False, quorum: bool = False
) -> Iterator[str]:
    """Compare what was seen with what so many seeds have to see."""
    more = WANTED_ON_ZOOKEEPER if zookeeper else WANTED_IN_QUORUM if quorum else {}
    for case, wanted in (WANTED | more).items():
        scaled = wanted * seed_count / SEEDS
        state = "reached" if seen[case] >= scaled else "MISSED"
        yield f"{state:>10} {case}: {seen[case]} of {scaled:g}"
