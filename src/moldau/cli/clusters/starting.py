"""Starting a cluster, ZooKeeper or the voters first: the other brokers register with them.

Voters start together. Each is ready only once more than half of them have elected a leader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias

from moldau.base.errors import UserError
from moldau.cli.clusters.layout import ClusterFolder, Member, start_order
from moldau.cli.clusters.processes import StartedMember, last_lines, running_id, start
from moldau.cli.clusters.stop_signals import Interrupted, StopSignals
from moldau.cli.clusters.stopping import stop_until_signal

START_TIMEOUT_S: Final = 60.0
LOG_PERIOD_S: Final = 0.05
"""How often to look whether a process that starts is ready."""

Say: TypeAlias = Callable[[str], None]


def bring_up(members: Sequence[Member], signals: StopSignals, say: Say) -> list[StartedMember]:
    """Start members and return once all accept requests; if one does not, none is left running."""
    started: list[StartedMember] = []
    try:
        for wave in start_order(members):
            for member in wave:
                # One by one: if a start fails, those before it are stopped.
                started.append(start(member))  # noqa: PERF401
            _await_ready(started[-len(wave) :], signals, say)
    except BaseException:
        held = {one.member: one.process for one in started}
        stop_until_signal(list(held), held, signals)
        for one in started:
            one.child.wait()
        raise
    return started


def refuse_too_few_controllers(cluster: ClusterFolder, members: Collection[Member]) -> None:
    """Raise UserError if members that start would wait for controllers that do not run."""
    voters = cluster.voters
    away = [one for one in voters if one not in members and running_id(one) is None]
    there, majority = len(voters) - len(away), len(voters) // 2 + 1
    if not voters or there >= majority:
        return
    if len(voters) == 1:
        raise UserError(f"the controller {away[0].name} is not running: start it first")
    nodes = {one for one in cluster.nodes if one in members} | {*away[: majority - there]}
    numbers = " ".join(str(number) for number in sorted(one.node_id for one in nodes))
    raise UserError(
        f"{there} of {len(voters)} controllers would run, but {majority} are needed: start them"
        f" together with `moldau cluster start {numbers} --data {cluster.path}`"
    )


def _await_ready(started: Sequence[StartedMember], signals: StopSignals, say: Say) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    waiting = list(started)
    while waiting:
        # Before the log is read, so that the last line of a process that has ended is in it.
        ended = [one for one in waiting if one.process.has_ended()]
        for one in [one for one in waiting if one.is_ready()]:
            say(f"{one.member.name} is up at {one.member.address} (pid {one.child.pid})")
            waiting.remove(one)
        if ended:
            raise _did_not_come_up(ended[0], "it ended", say)
        if signals.count:
            raise Interrupted
        if waiting and time.monotonic() > deadline_s:
            late = f"it was not ready within {START_TIMEOUT_S:g} s"
            raise _did_not_come_up(waiting[0], late, say)
        if waiting:
            signals.wait([one.process for one in waiting], LOG_PERIOD_S)


def _did_not_come_up(one: StartedMember, reason: str, say: Say) -> UserError:
    member = one.member
    for line in last_lines(member.log, one.log_position):
        say(f"  {line}")
    return UserError(f"{member.name} did not start: {reason}; the end of {member.log} is above")
