"""An asyncio event loop on virtual time whose order of execution is drawn from a seed.

Time stands still while anything can run and then jumps to the next timer, so an hour of sleeping
takes no time. Everything that could run in one turn (callbacks and timers that are due together)
runs in a shuffled order: asyncio's own order is one of many that a busy machine could produce,
and hides the bugs that show in the others. `fifo` keeps asyncio's order, to find out whether a
failure depends on it.

What would hang a real program ends a simulated one with a message: nothing left to run, no
progress in time, time over, an exception that nobody handled.

Four private names of asyncio are relied on, unchanged from 3.11 to 3.14: `_run_once`, `_ready`,
`_stopping`, and a handle's `_context`. Timers are kept here. What asyncio schedules for itself is
shuffled along: its `shield` has one callback more since 3.14, so a seed names one run on 3.11 to
3.13 and another on 3.14. A failure is looked for on the version that found it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import itertools
import math
import random
import weakref
from asyncio import AbstractEventLoop, Handle, TimerHandle
from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextvars import Context, ContextVar
from typing import Any, TypeVar, TypeVarTuple

from moldau.base.errors import MoldauError
from moldau.sim.crashes import Crashed
from moldau.sim.trace import Trace

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START_S = 1_000.0
"""Machines have been up for a while: code that takes 0 for "never" must not pass by luck."""

STEPS_PER_INSTANT_MAX = 50_000
"""Far more than a cluster does in one instant; a loop that spins without waiting gets here."""

TURNS_PER_COLLECTION = 20_000
"""Garbage with finalizers is collected at fixed turns: Python's own moments would differ from run
to run, and an abandoned generator or task acts when it is collected."""

FAREWELL_TURNS = 1_000
"""How often cancelled tasks get to run before they are dropped; a clean one needs a few."""

EXECUTOR_MEAN_S = 0.001
"""How long a call handed to a thread takes on average."""

PROCESS: ContextVar[str] = ContextVar("PROCESS", default="")
"""The simulated process whose code runs now; a task or timer belongs to the one that made it."""


class SimulationError(MoldauError):
    """The run cannot go on; the text says why and who was waiting."""


class Deadlock(SimulationError):  # noqa: N818 - it names the state
    """Nothing can run and no timer is set."""


class OutOfTime(SimulationError):  # noqa: N818 - it names the event
    """The run used up its virtual time, or spins without any passing."""


class Unhandled(SimulationError):  # noqa: N818 - it names the event
    """A callback or task failed and nobody was there to see it."""


class SimLoop(asyncio.BaseEventLoop):
    """One run's event loop."""

    _ready: deque[Handle]
    _stopping: bool

    def __init__(self, chance: random.Random, *, fifo: bool = False) -> None:
        super().__init__()
        self._now = START_S
        self._chance = chance
        self._fifo = fifo
        self._timers: list[tuple[float, int, TimerHandle, str]] = []
        self._timer_order = itertools.count()
        self._ended_processes: set[str] = set()
        self._paused: dict[str, list[Handle]] = {}
        """What paused processes would have run, in the order in which it was due."""
        self.after_turn: Callable[[AbstractSet[str]], None] | None = None
        """Called after each turn: checks that must hold at any time raise from here.

        It is given the processes that may have changed: those whose code has run, and those that
        were started or ended from outside. "" among them is the script of the run.
        """
        self._ran: set[str] = set()
        self._task_order = itertools.count(1)
        self._task_numbers: weakref.WeakKeyDictionary[asyncio.Task[Any], int] = (
            weakref.WeakKeyDictionary()
        )
        self._task_processes: weakref.WeakKeyDictionary[asyncio.Task[Any], str] = (
            weakref.WeakKeyDictionary()
        )
        self._steps_this_instant = 0
        self._turn_count = 0
        self._unhandled: Unhandled | None = None
        self.deadline_s = math.inf
        """The virtual time at which the run is given up."""
        self.trace = Trace(self.time)
        self.set_exception_handler(_keep_unhandled)

    # Time

    def time(self) -> float:
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        self._check_open()
        timer = TimerHandle(when, callback, args, self, context)
        owner = _owner(context)
        if owner not in self._ended_processes:
            heapq.heappush(self._timers, (when, next(self._timer_order), timer, owner))
        return timer

    def _check_open(self) -> None:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")

    def _advance(self) -> None:
        """Jump to the next timer."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(f"nothing can happen any more{self._waiting_text()}")
        when = timers[0][0]
        if when > self.deadline_s:
            raise OutOfTime(f"not finished at {self.deadline_s:.3f} s{self._waiting_text()}")
        if when > self._now:
            self._now = when
            self._steps_this_instant = 0

    def _collect_due(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            if not timer.cancelled():
                self._ready.append(timer)

    # Running

    def _run_once(self) -> None:
        ready = self._ready
        if not ready and not self._stopping:
            self._advance()
        self._collect_due()
        if self._paused:
            self._hold_back()
        count = len(ready)
        if count > 1 and not self._fifo:
            turn = list(ready)
            self._chance.shuffle(turn)
            ready.clear()
            ready.extend(turn)
        self.trace.mix(f"{self._now:.9f} {count}")
        self._count_steps(count)
        self._turn_count += 1
        if self._turn_count % TURNS_PER_COLLECTION == 0:
            gc.collect(1)
        for _ in range(count):
            handle = ready.popleft()
            if not handle.cancelled():
                self._ran.add(_owner(handle._context))  # type: ignore[attr-defined]  # noqa: SLF001
                handle._run()  # noqa: SLF001 - only asyncio's own loops may run handles
            if self._unhandled is not None:
                self.raise_unhandled()
        if self.after_turn is not None:
            self.after_turn(self._ran)
        self._ran.clear()

    def entered(self, process: str) -> None:
        """Take note that code of a process runs within what belongs to another one.

        So is a process that another one starts or ends.
        """
        self._ran.add(process)

    def _hold_back(self) -> None:
        """Keep what paused processes would run for the time when they go on."""
        turn = list(self._ready)
        self._ready.clear()
        for handle in turn:
            owner = _owner(handle._context)  # type: ignore[attr-defined]  # noqa: SLF001
            held = self._paused.get(owner) if owner else None
            (self._ready if held is None else held).append(handle)

    def _count_steps(self, count: int) -> None:
        self._steps_this_instant += count
        if self._steps_this_instant > STEPS_PER_INSTANT_MAX:
            raise OutOfTime(
                f"{self._steps_this_instant} steps without time passing{self._waiting_text()}"
            )

    def keep_unhandled(self, context: dict[str, Any]) -> None:
        """Remember the first failure nobody saw; the run ends with it.

        A crash is none: it ends a simulated process, and whoever planned it knows.
        """
        cause = context.get("exception")
        if isinstance(cause, Crashed):
            return
        if self._unhandled is None:
            self._unhandled = Unhandled(f"{context.get('message')}: {cause!r}")
            self._unhandled.__cause__ = cause

    def raise_unhandled(self) -> None:
        """Raise the failure nobody saw, if there was one."""
        failure, self._unhandled = self._unhandled, None
        if failure is not None:
            raise failure

    def drop_everything(self) -> None:
        """End all tasks, as far as they let themselves be ended, and forget the rest."""
        self.deadline_s = math.inf
        self.after_turn = None
        for process in list(self._paused):
            self.resume_process(process)
        for task in self.pending_tasks():
            task.cancel()
        self._timers.clear()
        for _ in range(FAREWELL_TURNS):
            if not self._ready:
                break
            self.call_soon(self.stop)
            with contextlib.suppress(SimulationError):
                self.run_forever()
        self._ready.clear()
        self._timers.clear()
        self._unhandled = None

    # Tasks

    def create_task(
        self,
        coro: Any,  # asyncio took generators, too, until 3.12: no one type suits all versions
        *,
        name: object = None,
        **options: Any,
    ) -> asyncio.Task[Any]:
        """Name tasks by their number in this run; asyncio's numbers count the whole process."""
        number = next(self._task_order)
        task = super().create_task(coro, name=name or f"task-{number}", **options)
        self._task_numbers[task] = number
        self._task_processes[task] = _owner(options.get("context"))
        return task

    def end_process(self, process: str) -> None:
        """Cancel the tasks of a process that has ended; no timer of it fires any more."""
        self._ended_processes.add(process)
        self.resume_process(process)
        self._timers = [one for one in self._timers if one[3] != process]
        heapq.heapify(self._timers)
        for task in self.pending_tasks(process):
            task.cancel()

    def pause_process(self, process: str) -> None:
        """Let nothing of a process run until `resume_process`, as SIGSTOP does."""
        self._paused.setdefault(process, [])

    def resume_process(self, process: str) -> None:
        """Let a process go on: all its timers that came due meanwhile fire at once."""
        self._ready.extend(self._paused.pop(process, ()))

    def is_paused(self, process: str) -> bool:
        """Whether nothing of a process runs at the moment."""
        return process in self._paused

    def pending_tasks(self, process: str | None = None) -> list[asyncio.Task[Any]]:
        """Tasks that are not done, of one process or of all, in the order in which they began."""
        return sorted(
            (
                task
                for task in asyncio.all_tasks(self)
                if process is None or self._task_processes.get(task) == process
            ),
            key=lambda task: self._task_numbers.get(task, 0),
        )

    def _waiting_text(self) -> str:
        lines = [f"  {task.get_name()} waits at {_place(task)}" for task in self.pending_tasks()]
        return "\n".join(["; waiting:", *lines]) if lines else "; no task is waiting"

    # Threads there are none

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector here, so nobody has to be woken."""

    def run_in_executor(
        self,
        executor: object,  # noqa: ARG002 - asyncio's signature
        func: Callable[[*Ts], T],
        *args: *Ts,
    ) -> asyncio.Future[T]:
        """Run the call later, in this thread. `sim.executor` is for code of ours."""
        future: asyncio.Future[T] = self.create_future()
        self.call_later(self.delay_s(EXECUTOR_MEAN_S), settle, future, lambda: func(*args))
        return future

    def delay_s(self, mean_s: float) -> float:
        """Draw a duration: mostly short, now and then long, as waiting for a machine is."""
        return self._chance.expovariate(1 / mean_s)


def _owner(context: Context | None) -> str:
    """Name the process whose code runs in a context; without one, in the present one."""
    return PROCESS.get() if context is None else context.get(PROCESS, "")


def _keep_unhandled(loop: AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimLoop)
    loop.keep_unhandled(context)


def settle(future: asyncio.Future[T], work: Callable[[], T]) -> None:
    """Do the work and tell the future, unless nobody waits any more."""
    if future.cancelled():
        return
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - whatever it is goes to whoever waits
        future.set_exception(error)


def _place(task: asyncio.Task[Any]) -> str:
    """Name the innermost line a suspended task stands at."""
    place = "?"
    current: object = task.get_coro()
    while current is not None:
        frame = getattr(current, "cr_frame", None)
        if frame is not None:
            place = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
        current = getattr(current, "cr_await", None)
    return place
