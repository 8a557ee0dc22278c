"""Watches the brokers of a cluster in the foreground.

Other commands may stop and start brokers meanwhile. So a broker that another command has started is
found by its file, watched, and stopped in the end like the others.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from subprocess import Popen
from typing import Final

from moldau.cli.clusters.layout import LocalBroker
from moldau.cli.clusters.processes import find
from moldau.cli.clusters.starting import Say
from moldau.cli.clusters.stop_signals import StopSignals
from moldau.cli.operations.known_process import KnownProcess

RETURN_PERIOD_S: Final = 1.0
"""How often to look for brokers that are down; while all run, only their ends are waited for."""


def watch_over(
    brokers: Sequence[LocalBroker],
    children: Mapping[LocalBroker, Popen[bytes]],
    running: dict[LocalBroker, KnownProcess],
    signals: StopSignals,
    say: Say,
) -> bool:
    """Report brokers that end or come back, until a signal comes or none is left.

    Keeps `running` up to date; `children` are those that this command has started. Returns whether
    all that ended did so in order.
    """
    own = dict(children)
    is_in_order = True
    while running and not signals.count:
        signals.wait(running.values(), None if len(running) == len(brokers) else RETURN_PERIOD_S)
        for broker in [broker for broker, process in running.items() if process.has_ended()]:
            running.pop(broker).close()
            status = _status(own.pop(broker, None))
            is_in_order = is_in_order and not status
            say(f"broker {broker.broker_id} {_end_of(broker, status)}")
        for broker, process in _returned(brokers, running):
            running[broker] = process
            say(f"broker {broker.broker_id} runs again (pid {process.process_id})")
    return is_in_order


def _returned(
    brokers: Sequence[LocalBroker], running: dict[LocalBroker, KnownProcess]
) -> list[tuple[LocalBroker, KnownProcess]]:
    """Find brokers that another command has started."""
    found = ((broker, find(broker)) for broker in brokers if broker not in running)
    return [(broker, process) for broker, process in found if process is not None]


def _status(child: Popen[bytes] | None) -> int | None:
    """Return the exit status of a process; None if another command started it."""
    return None if child is None else child.wait()


def _end_of(broker: LocalBroker, status: int | None) -> str:
    if status is None:
        return "has ended"
    if status == 0:
        return "has stopped"
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"failed with status {status}: see {broker.log}"
