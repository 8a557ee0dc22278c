"""Ending the brokers of a cluster: in order, or at once as a crash does.

The voter stops last: the others tell it that they leave, so that it moves their leaderships.
"""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, TypeAlias

from moldau.base.errors import UserError
from moldau.cli.clusters.layout import LocalBroker, start_order
from moldau.cli.clusters.processes import find
from moldau.cli.clusters.stop_signals import Interrupted, StopSignals
from moldau.cli.operations.known_process import KnownProcess

STOP_TIMEOUT_S: Final = 60.0

Processes: TypeAlias = Mapping[LocalBroker, KnownProcess]


def stop(brokers: Sequence[LocalBroker]) -> list[LocalBroker]:
    """Stop brokers in order and return those that ran; UserError if one takes too long."""
    return _stop(brokers, {}, _wait_bounded)


def stop_until_signal(
    brokers: Sequence[LocalBroker], held: Processes, signals: StopSignals
) -> None:
    """Stop brokers in order; the second signal kills those that are left, and is raised.

    `held` are the processes that this command knows itself: if their folder was deleted, no file
    identifies them any more.
    """

    def wait(running: Processes) -> None:
        while left := [process for process in running.values() if not process.has_ended()]:
            if signals.count > 1:
                raise Interrupted
            signals.wait(left, None)

    try:
        _stop(brokers, held, wait)
    except Interrupted:
        _end(brokers, held, signal.SIGKILL, _wait_bounded)
        raise


def kill(brokers: Iterable[LocalBroker]) -> list[LocalBroker]:
    """End brokers at once; return those that ran."""
    return _end(brokers, {}, signal.SIGKILL, _wait_bounded)


def _stop(
    brokers: Sequence[LocalBroker], held: Processes, wait: Callable[[Processes], None]
) -> list[LocalBroker]:
    stopped = []
    for wave in reversed(start_order(brokers)):
        stopped += _end(wave, held, signal.SIGTERM, wait)
    return stopped


def _end(
    brokers: Iterable[LocalBroker], held: Processes, number: int, wait: Callable[[Processes], None]
) -> list[LocalBroker]:
    """Signal brokers and wait for their end; return those that ran."""
    with ExitStack() as opened:
        running: dict[LocalBroker, KnownProcess] = {}
        for broker in brokers:
            process = held.get(broker)
            if process is None or process.has_ended():
                process = find(broker)
                if process is None:
                    continue
                opened.enter_context(process)
            running[broker] = process
            process.signal(number)
        wait(running)
        return list(running)


def _wait_bounded(running: Processes) -> None:
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    while left := {one: process for one, process in running.items() if not process.has_ended()}:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            numbers = ", ".join(str(broker.broker_id) for broker in left)
            raise UserError(
                f"not ended within {STOP_TIMEOUT_S:g} s: broker {numbers};"
                " `moldau cluster kill` ends a broker at once"
            )
        select.select(list(left.values()), [], [], left_s)
