"""Runs of the simulation that do not depend on each other, in several processes at a time."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

TASKS_PER_PROCESS: Final = 20
"""A process grows by some tens of megabytes with each run, and starts within a second."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_parallel(
    run: Callable[[Task], Result], tasks: Iterable[Task], jobs: int
) -> Iterator[Result]:
    """Do tasks in so many processes, and yield what they came to in their order."""
    if jobs == 1:
        yield from map(run, tasks)
        return
    spawned = multiprocessing.get_context("spawn")
    with spawned.Pool(
        jobs,
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),  # Ctrl-C is for whoever takes the results
        maxtasksperchild=TASKS_PER_PROCESS,
    ) as pool:
        yield from pool.imap(run, tasks)
