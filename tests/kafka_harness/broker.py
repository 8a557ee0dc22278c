"""One broker in its own process, whichever kind it is: started, asked, stopped, killed.

The kinds differ in their command line and in what they must do once before the first start; the
rest is here. A broker keeps its port and folder over restarts. Its output goes to a file beside
the data, which is what an error shows.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from .ports import free_port
from .wire import wait_until_answered

START_TIMEOUT_S = 60
"""Kafka opens its port after 3-6 s on two idle cores, and 20 s after kill -9 with 5 GB of data."""
STOP_TIMEOUT_S = 60
CLUSTER_ID = "bW9sZGF1LW1vbGRhdS0wMA"
"""Twenty-two characters of base64: sixteen bytes, as Kafka wants a cluster id to be."""


class BrokerError(AssertionError):
    """A broker did not start or stop as it must; the text holds the end of its output."""


class HangingBrokerError(BrokerError):
    """A broker was asked to stop, and had to be killed."""


class BrokerProcess(ABC):
    """A broker on a loopback port; also a context manager that leaves no process behind."""

    kind: str

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.settings = dict(settings or {})
        self.host = "127.0.0.1"
        self.port = free_port()
        self.output = directory / "output.txt"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return what clients call `bootstrap.servers`."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Return the process id of the running broker."""
        if self._process is None:
            raise BrokerError(f"{self.kind} is not running")
        return self._process.pid

    @property
    def pids(self) -> list[int]:
        """Return its process id, as a cluster returns those of its brokers."""
        return [self.pid]

    @property
    def running(self) -> bool:
        """Tell whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @abstractmethod
    def version(self) -> str:
        """Return the version of the broker, for tables."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line that serves `data` on `address`."""

    def join(self, membership: Mapping[str, str]) -> None:
        """Take the settings that make it a broker of a cluster, before its first start."""
        self.settings = {**membership, **self.settings}

    def prepare(self) -> None:
        """Make ready what the command line names; called before every start."""
        self.directory.mkdir(parents=True, exist_ok=True)

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Start and return once a request has been answered."""
        self.launch()
        if not wait_until_answered(self.host, self.port, lambda: self.running, timeout_s):
            said = self.tail()
            self.kill()
            raise BrokerError(f"{self.kind} did not answer on {self.address}:\n{said}")
        return self

    def launch(self) -> None:
        """Start the process without waiting for it."""
        if self.running:
            raise BrokerError(f"{self.kind} is running already")
        self.prepare()
        with self.output.open("ab") as sink:
            self._process = self._spawn(sink)

    def stop(self) -> None:
        """Ask it to stop and wait; a broker that must be killed is an error."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise HangingBrokerError(f"{self.kind} did not stop:\n{self.tail()}") from None
        self._process = None
        if status not in self.clean_statuses:
            raise BrokerError(f"{self.kind} stopped with status {status}:\n{self.tail()}")

    def kill(self) -> None:
        """Kill it without a word (-9), as a crash would, and wait until it is gone."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)
        # A crash takes no children along; what they leave behind must not outlive the test.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process = None

    def restart(self) -> Self:
        """Stop in good order and start again."""
        self.stop()
        return self.start()

    def tail(self, size: int = 4000) -> str:
        """Return the end of what the broker has printed."""
        if not self.output.exists():
            return ""
        return self.output.read_bytes()[-size:].decode(errors="replace")

    @property
    def clean_statuses(self) -> tuple[int, ...]:
        """Return the exit statuses of an orderly stop."""
        return (0,)

    def write_properties(self, configs: Mapping[str, str]) -> Path:
        """Write its `server.properties`."""
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in configs.items()))
        return path

    def environment(self) -> Mapping[str, str]:
        """Return what its process finds in the environment beside what is there."""
        return {}

    def _spawn(self, sink: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment()},
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()
