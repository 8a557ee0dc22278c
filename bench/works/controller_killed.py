"""A leader that is the controller too is killed: how long writers wait for the next one."""

from __future__ import annotations

from bench.outage import controller, longest_waits
from bench.stage import Stage
from bench.works.leader_killed import kill


def run(stage: Stage) -> dict[str, float]:
    return longest_waits(stage, controller, kill)
