"""Crash points of single processes: a plan for one machine does not end another."""

from __future__ import annotations

import contextvars

import pytest

from moldau.base.checks import crash_point
from moldau.sim.cluster.crash_plans import ANY_POINT, ClusterCrashes
from moldau.sim.crashes import Crashed
from moldau.sim.loop import PROCESS
from moldau.sim.trace import Trace


def passes(process, point):
    """Pass a crash point as a process does."""
    context = contextvars.copy_context()
    context.run(PROCESS.set, process)
    context.run(crash_point, point)


def test_a_machine_ends_at_the_planned_visit_and_others_pass():
    ended = []
    with ClusterCrashes(Trace()) as crashes:
        crashes.arm("broker-1", "log.roll", 2, lambda: ended.append("broker-1"))
        passes("broker-2#1", "log.roll")
        passes("broker-1#1", "log.roll")
        passes("broker-1#1", "log.close")
        with pytest.raises(Crashed):
            passes("broker-1#2", "log.roll")
        passes("broker-1#3", "log.roll")
    assert ended == ["broker-1"]
    assert crashes.ended == {"log.roll": 1}


def test_a_plan_may_be_for_any_point_and_be_given_up():
    with ClusterCrashes(Trace()) as crashes:
        crashes.arm("broker-1", ANY_POINT, 1, lambda: None)
        crashes.arm("broker-2", ANY_POINT, 1, lambda: None)
        crashes.disarm("broker-2")
        passes("broker-2#1", "log.roll")
        with pytest.raises(Crashed):
            passes("broker-1#1", "log.close")
