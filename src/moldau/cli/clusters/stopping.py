"""Ending the processes of a cluster: in order, or at once as a crash does.

ZooKeeper or the voters stop last: the other brokers tell that they leave, so that the controller
moves their leaderships.
"""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, TypeAlias

from moldau.base.errors import UserError
from moldau.cli.clusters.layout import Member, start_order
from moldau.cli.clusters.processes import find
from moldau.cli.clusters.stop_signals import Interrupted, StopSignals
from moldau.cli.operations.known_process import KnownProcess

STOP_TIMEOUT_S: Final = 60.0

Processes: TypeAlias = Mapping[Member, KnownProcess]


def stop(members: Sequence[Member]) -> list[Member]:
    """Stop members in order and return those that ran; UserError if one takes too long."""
    return _stop(members, {}, _wait_bounded)


def stop_until_signal(members: Sequence[Member], held: Processes, signals: StopSignals) -> None:
    """Stop members in order; the second signal kills those that are left, and is raised.

    `held` are the processes that this command knows itself: if their folder was deleted, no file
    identifies them any more.
    """

    def wait(running: Processes) -> None:
        while left := [process for process in running.values() if not process.has_ended()]:
            if signals.count > 1:
                raise Interrupted
            signals.wait(left, None)

    try:
        _stop(members, held, wait)
    except Interrupted:
        _end(members, held, signal.SIGKILL, _wait_bounded)
        raise


def kill(members: Iterable[Member]) -> list[Member]:
    """End members at once; return those that ran."""
    return _end(members, {}, signal.SIGKILL, _wait_bounded)


def _stop(
    members: Sequence[Member], held: Processes, wait: Callable[[Processes], None]
) -> list[Member]:
    stopped = []
    for wave in reversed(start_order(members)):
        stopped += _end(wave, held, signal.SIGTERM, wait)
    return stopped


def _end(
    members: Iterable[Member], held: Processes, number: int, wait: Callable[[Processes], None]
) -> list[Member]:
    """Signal members and wait for their end; return those that ran."""
    with ExitStack() as opened:
        running: dict[Member, KnownProcess] = {}
        for member in members:
            process = held.get(member)
            if process is None or process.has_ended():
                process = find(member)
                if process is None:
                    continue
                opened.enter_context(process)
            running[member] = process
            process.signal(number)
        wait(running)
        return list(running)


def _wait_bounded(running: Processes) -> None:
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    while left := {one: process for one, process in running.items() if not process.has_ended()}:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            names = ", ".join(member.name for member in left)
            raise UserError(
                f"still running after {STOP_TIMEOUT_S:g} s: {names};"
                " `moldau cluster kill` kills a process"
            )
        select.select(list(left.values()), [], [], left_s)
