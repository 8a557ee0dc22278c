"""Crashes at named points: the simulated `kill -9` between two durable steps.

`base.checks.crash_point` marks the places; a plan decides at which of them the process ends. The
crash is no Exception, so that no handler that was written for failures can survive it by accident.
"""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Self

from moldau.base.checks import install_crash_hook
from moldau.sim.trace import Trace


class Crashed(BaseException):
    """The simulated process ended here."""


class CrashPlan:
    """Counts the crash points passed and ends the process at one of them.

    Without a name it only counts, which tells a test what points its workload reaches. The hook is
    one for the whole process: plans do not nest.
    """

    def __init__(
        self, name: str | None = None, *, hit: int = 1, trace: Trace | None = None
    ) -> None:
        self._name = name
        self._hit = hit
        self._trace = trace or Trace()
        self.passed: Counter[str] = Counter()
        """How often each point was reached."""

    def _at(self, name: str) -> None:
        self.passed[name] += 1
        self._trace.note("crash point", name, self.passed[name])
        if name == self._name and self.passed[name] == self._hit:
            raise Crashed(f"{name}, hit {self._hit}")

    def __enter__(self) -> Self:
        install_crash_hook(self._at)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        install_crash_hook(None)
