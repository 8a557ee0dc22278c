"""Crashes at named points: the simulated `kill -9` between two durable steps.

`base.checks.crash_point` marks the places; a plan decides at which of them the process ends. The
crash is no Exception, so that no handler that was written for failures can survive it by accident.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

from moldau.base.checks import install_crash_hook
from moldau.sim.trace import Trace


class Crashed(BaseException):
    """The simulated process ended here."""


class CrashControl(ABC):
    """Decides at every crash point whether a process ends there. Use it in a `with` statement.

    There is one hook for the whole interpreter: `with` statements do not nest.
    """

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        """How often a process ended at each point."""

    @abstractmethod
    def _at(self, name: str) -> None:
        """Let the process go on, or end it and raise Crashed."""

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


class CrashPlan(CrashControl):
    """Counts the crash points passed and ends the process at one of them.

    Without a name it only counts, which tells a test what points its workload reaches.
    """

    def __init__(
        self, name: str | None = None, *, hit: int = 1, trace: Trace | None = None
    ) -> None:
        super().__init__()
        self._name = name
        self._visits_left = hit
        self._end: Callable[[], object] | None = None
        self._trace = trace or Trace()
        self.passed: Counter[str] = Counter()
        """How often each point was reached."""

    def arm(self, name: str, hit: int, end: Callable[[], object]) -> None:
        """Plan for the n-th visit from now: `end` ends the process, and nothing of it runs on."""
        self._name, self._visits_left, self._end = name, hit, end

    def disarm(self) -> None:
        """Plan nothing; visits are still counted."""
        self._name = self._end = None

    def _at(self, name: str) -> None:
        self.passed[name] += 1
        self._trace.note("crash point", name, self.passed[name])
        if name != self._name:
            return
        self._visits_left -= 1
        if self._visits_left == 0:
            end = self._end
            self.ended[name] += 1
            self.disarm()
            if end is not None:
                end()
            raise Crashed(f"{name}, visit {self.passed[name]}")
