"""The process of a ZooKeeper server: starting it, waiting for it, finding it again, stopping it.

    DATA/moldau-zookeeper.pid          number, start time and command line of the process
    DATA/moldau-zookeeper.properties   its settings, if some of those in its file were overridden

The file in the data directory identifies the process. No other process is ever signalled.
"""

from __future__ import annotations

import select
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from moldau.base.errors import UserError
from moldau.cli.frame.failures import reason_of
from moldau.cli.operations.known_process import KnownProcess
from moldau.cli.operations.pid_file import find_process, write_pid_file
from moldau.cli.zookeeper.installation import find_installation
from moldau.cli.zookeeper.server_properties import ServerProperties

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JVM_VARIABLES: Final = {
    "KAFKA_HEAP_OPTS": "-Xmx256m",
    "KAFKA_LOG4J_OPTS": "-Dlog4j2.level=INFO",
    "KAFKA_OPTS": "",
}
"""The variables that Kafka's scripts take options of the virtual machine from, and our defaults."""
JVM_DEFAULTS: Final = ("-Dzookeeper.admin.enableServer=false",)
"""The admin server would take port 8080. A file with admin.enableServer overrides this."""

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
_LOOK_PERIOD_S: Final = 0.05
_ANSWER_TIMEOUT_S: Final = 1.0
_NOT_SERVING: Final = b"not currently serving"


@dataclass(frozen=True, slots=True)
class StartedServer:
    """A server whose process was just started by this command."""

    properties: ServerProperties
    child: subprocess.Popen[bytes]
    process: KnownProcess

    def forget(self) -> None:
        """Remove the file that identifies the process, once it has ended."""
        pid_file(self.properties.data).unlink(missing_ok=True)


def pid_file(data: Path) -> Path:
    """Return the file that identifies the server of a data directory."""
    return data / "moldau-zookeeper.pid"


def find_server(data: Path) -> KnownProcess | None:
    """Find the server of a data directory; None if none of ours runs there."""
    return find_process(pid_file(data))


def start_server(
    properties: ServerProperties,
    environ: Mapping[str, str],
    output: IO[bytes] | None = None,
    jvm_options: Sequence[str] = (),
) -> StartedServer:
    """Start a server; it may not answer yet. UserError if it cannot be started.

    Its output is that of this process unless `output` says otherwise.
    """
    installation = find_installation(environ)
    _refuse_running(properties.data)
    _refuse_taken_port(properties)
    variables = [environ.get(name) or default for name, default in JVM_VARIABLES.items()]
    told = [word for variable in variables for word in shlex.split(variable)]
    try:
        properties.data.mkdir(parents=True, exist_ok=True)
        child = subprocess.Popen(  # noqa: S603 - the user's own Java
            [
                installation.java, *JVM_DEFAULTS, *told, *jvm_options,
                "-cp", installation.class_path, MAIN_CLASS, str(_settings_file(properties)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            # Ctrl-C reaches every process of a terminal's group. The command passes it on instead.
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise _cannot_start(error) from None
    try:
        write_pid_file(pid_file(properties.data), child.pid)
    except OSError as error:
        child.kill()  # no command would find it
        child.wait()
        raise _cannot_start(error) from None
    process = KnownProcess.find(child.pid, lambda: True)
    assert process is not None  # nobody has waited for it yet, so the number is still its own
    return StartedServer(properties, child, process)


def _cannot_start(error: OSError) -> UserError:
    name = f"{error.filename}: " if error.filename else ""
    return UserError(f"cannot start ZooKeeper: {name}{reason_of(error)}")


def _settings_file(properties: ServerProperties) -> Path:
    """Return the user's own file, or a copy with the overrides in it."""
    if not properties.overrides:
        return properties.file
    copy = properties.data / "moldau-zookeeper.properties"
    copy.write_text(properties.text, encoding="latin-1")
    return copy


def _refuse_running(data: Path) -> None:
    process = find_server(data)
    if process is not None:
        with process:
            raise UserError(
                f"ZooKeeper is already running with the data in {data} (pid {process.process_id})"
            )


def _refuse_taken_port(properties: ServerProperties) -> None:
    """Raise UserError if the port is in use.

    Another server there would answer in the place of ours, which ends a moment later.
    """
    if properties.address is None:
        return
    host, port = properties.address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # As Java does, so that connections that have just ended do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(
                f"ZooKeeper cannot listen on {host}:{port}: {reason_of(error)}"
            ) from None


def wait_until_answers(started: StartedServer, timeout_s: float = START_TIMEOUT_S) -> None:
    """Return once the server answers; UserError if it ends before, or the time is over.

    The first members of an ensemble answer that they do not serve yet, which is enough.
    """
    deadline_s = time.monotonic() + timeout_s
    while not is_answering(started):
        if started.process.has_ended():
            raise UserError("ZooKeeper did not start: it ended")
        if time.monotonic() > deadline_s:
            raise UserError(f"ZooKeeper did not start: no answer within {timeout_s:g} s")
        select.select([started.process], [], [], _LOOK_PERIOD_S)


def is_answering(started: StartedServer) -> bool:
    """Ask for the state with one of ZooKeeper's four letter words, if the address is known."""
    properties = started.properties
    if properties.address is None:
        return True
    with (
        suppress(OSError),
        socket.create_connection(properties.address, timeout=_ANSWER_TIMEOUT_S) as asked,
    ):
        asked.sendall(b"srvr")
        answer = asked.recv(4096)
        return bool(answer) and (properties.is_ensemble_member or _NOT_SERVING not in answer)
    return False


def stop_server(data: Path) -> bool:
    """Stop the server of a data directory; return whether it ran. UserError if it takes long."""
    process = find_server(data)
    if process is None:
        return False
    with process:
        process.signal(signal.SIGTERM)
        if not select.select([process], [], [], STOP_TIMEOUT_S)[0]:
            raise UserError(
                f"ZooKeeper is still running after {STOP_TIMEOUT_S:g} s (pid {process.process_id})"
            )
    pid_file(data).unlink(missing_ok=True)
    return True
