"""Checks of the operating system: its limits, its memory and its clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from moldau.base.limits import OPEN_FILES_CACHED
from moldau.cli.doctor.findings import Finding, Result, ok
from moldau.cli.doctor.machine import Machine
from moldau.cli.doctor.plan import BrokerPlan
from moldau.cli.frame.texts import size_text

OWN_FILES: Final = OPEN_FILES_CACHED + 64
"""Descriptors of a broker without clients: open segments, however many partitions there are, and
some for its listeners and workers."""
CONNECTIONS_MIN: Final = 100
CONNECTIONS_ADVISED: Final = 10_000
FILES_ADVISED: Final = 1_048_576
"""What to set: as much as Linux grants a process, `fs.nr_open`."""

MEMORY_PART: Final = 2
"""Requests may take one part in this many of the memory: the page cache needs the rest."""


def check_system(machine: Machine, plan: BrokerPlan) -> Iterator[Finding]:
    """Check what the operating system grants."""
    yield _system(machine)
    yield _open_files(machine)
    yield _memory(machine, plan)
    yield _backlog(machine, plan)
    yield _clock(machine)


def _system(machine: Machine) -> Finding:
    if (system := machine.system()) != "linux":
        return Finding("system", Result.ADVICE, system, "Run brokers on Linux, which is tested")
    if not machine.has_process_handles():
        advice = "Use Linux 5.3 or newer: commands that stop servers need it"
        return Finding("system", Result.ADVICE, "linux without pidfd_open", advice)
    return ok("system", system)


def _open_files(machine: Machine) -> Finding:
    limit = machine.open_files_max()
    connections = max(0, limit - OWN_FILES)
    found = f"{limit}: enough for {connections} connections"
    advice = f"Raise the hard limit: LimitNOFILE={FILES_ADVISED} in a unit, or ulimit -Hn"
    if connections < CONNECTIONS_MIN:
        return Finding("open files", Result.PROBLEM, found, advice)
    if connections < CONNECTIONS_ADVISED:
        return Finding("open files", Result.ADVICE, found, advice)
    return ok("open files", found)


def _memory(machine: Machine, plan: BrokerPlan) -> Finding:
    memory, wanted = machine.memory_bytes(), plan.request_memory_bytes
    if memory is None:
        return ok("memory", "not known")
    found = size_text(memory)
    if 0 < wanted <= memory // MEMORY_PART:
        return ok("memory", found)
    asked = f"up to {size_text(wanted)}" if wanted > 0 else "without limit"
    advice = f"Requests may take memory {asked}: set queued.max.request.bytes to half or less"
    return Finding("memory", Result.ADVICE, found, advice)


def _backlog(machine: Machine, plan: BrokerPlan) -> Finding:
    granted = machine.backlog_max()
    if granted is None:
        return ok("backlog", "not known")
    if granted >= plan.backlog:
        return ok("backlog", str(granted))
    advice = f"socket.listen.backlog.size is {plan.backlog}: sysctl net.core.somaxconn as high"
    return Finding("backlog", Result.ADVICE, str(granted), advice)


def _clock(machine: Machine) -> Finding:
    clock = machine.clock()
    found = f"{datetime.fromtimestamp(clock.now_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
    if clock.now_s < clock.installed_s:
        advice = "Set the clock: it is behind the time at which Moldau was installed"
        return Finding("clock", Result.PROBLEM, found, advice)
    if clock.is_synchronized is False:
        advice = "Follow a time server (chrony, systemd-timesyncd): retention goes by the clock"
        return Finding("clock", Result.ADVICE, f"{found}, not synchronized", advice)
    return ok("clock", f"{found}, synchronized" if clock.is_synchronized else found)
