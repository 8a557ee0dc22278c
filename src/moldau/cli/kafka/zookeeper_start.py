"""`zookeeper-server-start`: a ZooKeeper from a properties file, in the foreground or as a daemon.

Unlike Kafka's, a daemon that does not come up is reported: the command waits until it answers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from moldau.base.errors import UserError
from moldau.cli.clusters.processes import SHOWN_LINES, last_lines
from moldau.cli.clusters.stop_signals import StopSignals
from moldau.cli.frame.arguments import parse_pairs
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.running import CommandFailed, version_line
from moldau.cli.kafka.running_zookeepers import forget, note
from moldau.cli.kafka.server_start import open_daemon_output
from moldau.cli.zookeeper.server_process import (
    StartedServer,
    start_server,
    wait_until_answers,
)
from moldau.cli.zookeeper.server_properties import ServerProperties, read_server_properties

USAGE: Final = (
    "USAGE: zookeeper-server-start.sh [-daemon] zookeeper.properties [--override property=value]*"
)
OUTPUT: Final = "zookeeper.out"
SEARCHED_LINES: Final = 200
TERMINATED: Final = 128 + signal.SIGTERM
"""How a Java process ends that was asked to."""


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    words = list(arguments)
    if words[:1] in (["--version"], ["-version"]):
        console.say(version_line())
        return 0
    as_daemon = words[:1] == ["-daemon"]
    if as_daemon:
        words.pop(0)
    if not words or words[0] in ("-h", "--help"):
        raise CommandFailed(USAGE)
    properties = read_server_properties(Path(words[0]), _overrides(words[1:]))
    note(properties.data)
    if not as_daemon:
        return _run(properties)
    _start_daemon(properties, console)
    return 0


def _overrides(words: Sequence[str]) -> dict[str, str]:
    """Read `--override key=value`, also as `--override=key=value`."""
    given, rest = [], list(words)
    while rest:
        option, equals, value = rest.pop(0).partition("=")
        if option != "--override" or not (equals or rest):
            raise CommandFailed(USAGE)
        given.append(value if equals else rest.pop(0))
    return dict(parse_pairs(given, "--override"))


def _run(properties: ServerProperties) -> int:
    """Run a server until it ends; the first signal asks it to stop, the second one kills it."""
    with StopSignals() as signals:
        started = start_server(properties, os.environ)
        with started.process:
            while not started.process.has_ended():
                signals.wait([started.process], None)
                if signals.count:
                    started.process.signal(signal.SIGTERM if signals.count == 1 else signal.SIGKILL)
        status = started.child.wait()
    _forget(started)
    if status < 0:
        raise CommandFailed(f"ZooKeeper was killed by signal {-status}")
    return 0 if status == TERMINATED else status


def _start_daemon(properties: ServerProperties, console: Console) -> None:
    """Start a server away from the terminal, its output in a file as Kafka's is."""
    with open_daemon_output(OUTPUT) as output:
        log, position = Path(output.name), output.tell()
        started = start_server(properties, os.environ, output)
    with started.process:
        try:
            wait_until_answers(started)
        except UserError as error:
            started.child.kill()
            started.child.wait()
            _forget(started)
            for line in _last_lines(log, position):
                console.warn(f"  {line}")
            raise CommandFailed(f"{error}; the end of {log} is above") from None


def _last_lines(log: Path, since: int) -> list[str]:
    """Return the end of a log without the places in Java's code, of which there are many."""
    lines = last_lines(log, since, SEARCHED_LINES)
    return [line for line in lines if not line.startswith("\tat ")][-SHOWN_LINES:]


def _forget(started: StartedServer) -> None:
    started.forget()
    forget(started.properties.data)
