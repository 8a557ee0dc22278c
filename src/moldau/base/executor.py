"""The executor port: work that must not hold up the event loop.

Two doors, because Python has one interpreter lock: `run` is for calls that release it (fsync,
reads, codecs), `compute` for Python work of any length, which goes to another process. Both are
bounded; callers wait rather than pile up. In the simulation both become delayed callbacks.

The other process may be ended from outside, by the kernel when memory is short above all. Work it
had in hand is `WorkerLost`: nothing came of it, and the next work finds another process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, Protocol, TypeVar

from moldau.base.errors import MoldauError

P = ParamSpec("P")
T = TypeVar("T")


class WorkerLost(MoldauError):  # noqa: N818 - it names the event
    """The process that computed ended before it was done; the same work may be asked for again.

    A client is told something that makes it retry. The loss was logged already, where it was seen.
    """


class Executor(Protocol):
    """Where blocking and heavy work goes."""

    def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run a call that blocks in the kernel or releases the interpreter lock."""
        ...

    def compute(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run Python work in another process; function, arguments and result must pickle.

        Awaiting it raises what the work raised, or WorkerLost.
        """
        ...

    async def close(self) -> None:
        """Wait for what runs and give the workers back."""
        ...
