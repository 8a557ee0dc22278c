"""Crashes of single brokers of a cluster at named points, whatever the others do there.

`sim.crashes` has one plan for one broker. Here each machine may have one: a visit of a point counts
for the machine whose process makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moldau.sim.crashes import CrashControl, Crashed
from moldau.sim.loop import PROCESS
from moldau.sim.trace import Trace

ANY_POINT = ""


@dataclass
class _Armed:
    """What is planned for one machine."""

    point: str
    visits_left: int
    end: Callable[[], object]


class ClusterCrashes(CrashControl):
    """The plans of all machines of a run."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace
        self._armed: dict[str, _Armed] = {}

    def arm(self, machine: str, point: str, hit: int, end: Callable[[], object]) -> None:
        """Plan for the n-th visit from now, of one point or of any: `end` ends the process."""
        self._armed[machine] = _Armed(point, hit, end)

    def disarm(self, machine: str) -> None:
        self._armed.pop(machine, None)

    def disarm_all(self) -> None:
        self._armed.clear()

    def _at(self, name: str) -> None:
        machine = PROCESS.get().partition("#")[0]
        armed = self._armed.get(machine)
        if armed is None or armed.point not in (ANY_POINT, name):
            return
        armed.visits_left -= 1
        if armed.visits_left == 0:
            del self._armed[machine]
            self.ended[name] += 1
            self._trace.note("crash at", name, machine)
            armed.end()
            raise Crashed(f"{machine} at {name}")
