"""Starts the process of a broker or a ZooKeeper, finds it again later, and reads its log.

A file identifies the process. Commands find the process by it and signal no other.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from moldau.base.errors import UserError
from moldau.cli.clusters.layout import LocalNode, LocalZooKeeper, Member
from moldau.cli.clusters.properties import environment
from moldau.cli.frame.failures import reason_of
from moldau.cli.operations.known_process import KnownProcess
from moldau.cli.operations.pid_file import find_process, write_pid_file
from moldau.cli.zookeeper.server_process import is_answering, start_server
from moldau.cli.zookeeper.server_properties import read_server_properties

READY: Final = re.compile(rb"^ready \S+$", re.MULTILINE)
"""What `moldau serve` says once it accepts requests."""
ZOOKEEPER_JVM_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A quick start matters more on one machine than what a server can do at most."""
SHOWN_LINES: Final = 10
TAIL_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class StartedMember:
    """A broker or a ZooKeeper whose process was just started by this command."""

    member: Member
    child: subprocess.Popen[bytes]
    process: KnownProcess
    log_position: int
    """Where this run begins in the log."""
    is_ready: Callable[[], bool]
    """Tells whether it accepts requests."""


def start(member: Member) -> StartedMember:
    """Start a process, and write the file that identifies it."""
    return _start_broker(member) if isinstance(member, LocalNode) else _start_zookeeper(member)


def _start_broker(broker: LocalNode) -> StartedMember:
    try:
        with broker.log.open("ab") as log:
            position = log.tell()
            child = subprocess.Popen(  # noqa: S603 - our own command
                command_of(broker),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(os.environ),
                # Ctrl-C reaches every process of a terminal's group. Brokers stop in order instead.
                start_new_session=True,
            )
    except OSError as error:
        raise _cannot_start(broker, error) from None
    try:
        write_pid_file(broker.pid_file, child.pid)
    except OSError as error:
        child.kill()  # no command would find it
        child.wait()
        raise _cannot_start(broker, error) from None
    process = KnownProcess.find(child.pid, lambda: True)
    assert process is not None  # nobody has waited for it yet, so the number is still its own
    return StartedMember(broker, child, process, position, lambda: _is_serving(broker, position))


def _start_zookeeper(zookeeper: LocalZooKeeper) -> StartedMember:
    try:
        with zookeeper.log.open("ab") as log:
            position = log.tell()
            settings = read_server_properties(zookeeper.properties, {})
            server = start_server(settings, os.environ, log, ZOOKEEPER_JVM_OPTIONS)
    except OSError as error:
        raise _cannot_start(zookeeper, error) from None
    return StartedMember(
        zookeeper, server.child, server.process, position, lambda: is_answering(server)
    )


def _cannot_start(member: Member, error: OSError) -> UserError:
    return UserError(f"cannot start {member.name}: {reason_of(error)}")


def _is_serving(broker: LocalNode, since: int) -> bool:
    """Tell whether a broker has said that it accepts requests."""
    with _opened(broker.log) as log:
        log.seek(since)
        return READY.search(log.read()) is not None


def command_of(broker: LocalNode) -> list[str]:
    """Return the command line that runs a broker."""
    return [sys.executable, "-m", "moldau", "serve", "--config", str(broker.properties)]


def find(member: Member) -> KnownProcess | None:
    """Find the process of a member; None if it does not run."""
    return find_process(member.pid_file)


def refuse_running(members: Iterable[Member], advice: str = "") -> None:
    """Raise UserError, which ends with the advice, if one of them runs."""
    for member in members:
        if (process_id := running_id(member)) is not None:
            raise UserError(f"{member.name} is already running (pid {process_id}){advice}")


def running_id(member: Member) -> int | None:
    """Return the process id of a member; None if it does not run."""
    process = find(member)
    if process is None:
        return None
    with process:
        return process.process_id


def last_lines(log: Path, since: int = 0, count: int = SHOWN_LINES) -> list[str]:
    """Return the end of a log, from a position on."""
    with _opened(log) as file:
        file.seek(max(since, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()[-count:]


def _opened(log: Path) -> BinaryIO:
    """Open a log; UserError if it is gone, perhaps with the whole folder."""
    try:
        return log.open("rb")
    except OSError as error:
        raise UserError(f"cannot read {log}: {reason_of(error)}") from None
