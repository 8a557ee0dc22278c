"""A crash at every named point of coordination and compaction, with clients at work.

`test_coordinators` and `test_compaction_crashes` end one operation at each point; here groups,
transactions and writers of keys go on around the crash, and all promises are checked.
"""

from __future__ import annotations

import pytest

from kits.coordination_runs import COMPACTION, EVERYTHING, POINTS, TRANSACTIONS, run_coordinators
from moldau.sim.nemesis import COORDINATOR_POINTS

WORK = {"coordinator.": EVERYTHING, "compaction.": COMPACTION, "segment.abort.": TRANSACTIONS}

SEEDS = range(8)
"""One may end before the point is reached; of these at least one comes to it."""


@pytest.mark.parametrize("point", COORDINATOR_POINTS)
def test_every_promise_survives_a_crash(point):
    work = next(work for prefix, work in WORK.items() if point.startswith(prefix))
    for seed in SEEDS:
        if run_coordinators(seed, work, POINTS, 2.0, crash_points=(point,)).crashes[point]:
            return
    pytest.fail(f"{point} was not reached")
