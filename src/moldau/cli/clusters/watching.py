"""Watches the processes of a cluster in the foreground.

Other commands may stop and start brokers meanwhile. So a process that another command has started
is found by its file, watched, and stopped in the end like the others.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from subprocess import Popen
from typing import Final

from moldau.cli.clusters.layout import LocalNode, Member
from moldau.cli.clusters.processes import find
from moldau.cli.clusters.starting import Say
from moldau.cli.clusters.stop_signals import StopSignals
from moldau.cli.operations.known_process import KnownProcess

RETURN_PERIOD_S: Final = 1.0
"""How often to look for members that are down; while all run, only their ends are waited for."""
TERMINATED: Final = 128 + signal.SIGTERM
"""The status of a Java that was asked to end."""


def watch_over(
    members: Sequence[Member],
    children: Mapping[Member, Popen[bytes]],
    running: dict[Member, KnownProcess],
    signals: StopSignals,
    say: Say,
) -> bool:
    """Report members that end or come back, until a signal comes or no broker is left.

    Keeps `running` up to date; `children` are those that this command has started. Returns whether
    all that ended did so in order.
    """
    own = dict(children)
    is_in_order = True
    while any(_is_broker(one) for one in running) and not signals.count:
        signals.wait(running.values(), None if len(running) == len(members) else RETURN_PERIOD_S)
        for member in [member for member, process in running.items() if process.has_ended()]:
            running.pop(member).close()
            status = _status(member, own.pop(member, None))
            is_in_order = is_in_order and not status
            say(f"{member.name} {_end_of(member, status)}")
        for member, process in _returned(members, running):
            running[member] = process
            say(f"{member.name} is running again (pid {process.process_id})")
    return is_in_order


def _is_broker(member: Member) -> bool:
    return isinstance(member, LocalNode) and member.is_broker


def _returned(
    members: Sequence[Member], running: dict[Member, KnownProcess]
) -> list[tuple[Member, KnownProcess]]:
    """Find members that another command has started."""
    found = ((member, find(member)) for member in members if member not in running)
    return [(member, process) for member, process in found if process is not None]


def _status(member: Member, child: Popen[bytes] | None) -> int | None:
    """Return the exit status of a process, 0 for an end in order; None if it is no child."""
    if child is None:
        return None
    status = child.wait()
    return 0 if status == TERMINATED and not isinstance(member, LocalNode) else status


def _end_of(member: Member, status: int | None) -> str:
    if status is None:
        return "has ended"
    if status == 0:
        return "has stopped"
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"exited with status {status}: see {member.log}"
