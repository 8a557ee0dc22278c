"""The executor port: work that must not hold up the event loop.

Two methods, because Python has one interpreter lock: `run` is for calls that release it (fsync,
reads, codecs), `compute` for Python work of any length, which goes to another process. Callers
wait for their own piece, so what queues up is as bounded as the callers are. In the simulation
both become delayed callbacks.

`compute` has lanes. Each has a process of its own, which does one piece at a time; no lane waits
for another. A caller with much to do asks for one short piece after the other, so that the pieces
of all callers take turns.

A process may be ended from outside, by the kernel when memory is short above all. The piece it
had in hand is `WorkerLost`; the next piece finds another process.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import ParamSpec, Protocol, TypeVar

from moldau.base.errors import MoldauError
from moldau.base.limits import COMPUTE_CPU_S

P = ParamSpec("P")
T = TypeVar("T")


class Lane(enum.Enum):
    """Work that waits for other work of its kind only."""

    WRITES = "writes"
    """Records that a producer sent."""
    READS = "reads"
    """Records that a consumer asks for."""
    CLEANING = "cleaning"
    """Compaction. It keeps its state in its process from one step to the next."""

    @property
    def cpu_limit_s(self) -> float | None:
        """CPU seconds that one piece may take; clients decide how long the pieces of theirs are."""
        return None if self is Lane.CLEANING else COMPUTE_CPU_S


class WorkerLost(MoldauError):  # noqa: N818 - it names the event
    """The process that computed ended before it was done; the same work may be asked for again.

    A client is told something that makes it retry. The loss was logged already, where it was seen.
    """


class WorkTooLong(MoldauError):  # noqa: N818 - it names the event
    """The work took more CPU time than its lane allows, and so it would if it was tried again.

    A client is told something that makes it give up, or send less at once.
    """


class Executor(Protocol):
    """Where blocking and heavy work goes."""

    def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run a call that blocks in the kernel or releases the interpreter lock."""
        ...

    def compute(
        self, lane: Lane, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """Run Python work in another process; function, arguments and result must pickle.

        Awaiting it raises what the work raised, or WorkerLost, or WorkTooLong. Cancelling it drops
        work that has not begun; the result of work that has begun is dropped when it is there.
        """
        ...

    async def close(self) -> None:
        """Wait for what runs and give the workers back."""
        ...
