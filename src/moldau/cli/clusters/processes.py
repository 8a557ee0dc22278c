"""Starts the process of a broker, finds it again in later commands, and reads its log.

A file beside the broker's log identifies the process. Commands find the process by it and signal
no other.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from moldau.base.errors import UserError
from moldau.cli.clusters.layout import LocalBroker
from moldau.cli.clusters.properties import environment
from moldau.cli.frame.failures import reason_of
from moldau.cli.operations.known_process import KnownProcess
from moldau.cli.operations.pid_file import find_process, write_pid_file

READY: Final = re.compile(rb"^ready \S+$", re.MULTILINE)
"""What `moldau serve` says once it accepts requests."""
SHOWN_LINES: Final = 10
TAIL_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class StartedBroker:
    """A broker whose process was just started by this command."""

    broker: LocalBroker
    child: subprocess.Popen[bytes]
    process: KnownProcess
    log_position: int
    """Where this run begins in the log."""

    def is_ready(self) -> bool:
        """Tell whether it has said that it accepts requests."""
        with _opened(self.broker.log) as log:
            log.seek(self.log_position)
            return READY.search(log.read()) is not None


def start(broker: LocalBroker) -> StartedBroker:
    """Start a broker, and write the file that identifies its process."""
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
    return StartedBroker(broker, child, process, position)


def _cannot_start(broker: LocalBroker, error: OSError) -> UserError:
    return UserError(f"cannot start broker {broker.broker_id}: {reason_of(error)}")


def command_of(broker: LocalBroker) -> list[str]:
    """Return the command line that runs a broker."""
    return [sys.executable, "-m", "moldau", "serve", "--config", str(broker.properties)]


def find(broker: LocalBroker) -> KnownProcess | None:
    """Find the process of a broker; None if it does not run."""
    return find_process(broker.pid_file)


def refuse_running(brokers: Iterable[LocalBroker]) -> None:
    """Raise UserError if one of the brokers runs."""
    for broker in brokers:
        if (process_id := running_id(broker)) is not None:
            raise UserError(f"broker {broker.broker_id} runs already (pid {process_id})")


def running_id(broker: LocalBroker) -> int | None:
    """Return the process id of a broker; None if it does not run."""
    process = find(broker)
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
