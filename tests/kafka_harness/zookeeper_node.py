"""A ZooKeeper server in its own process, started by the module that the commands use too.

One server is an ensemble; sessions expire within its ticks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from moldau.base.errors import UserError
from moldau.cli.zookeeper.installation import find_installation
from moldau.cli.zookeeper.server_process import StartedServer, start_server, wait_until_answers
from moldau.cli.zookeeper.server_properties import read_server_properties

from .java import QUICK_START
from .ports import free_port

TICK_MS = 500
"""Sessions may have a time-out of two to twenty ticks, and expire within one."""
_QUICK = (*QUICK_START, "-Dzookeeper.forceSync=no")
_SHIPPED_TICK_MS = 1_000
"""Of the ZooKeeper that `moldau cluster up` starts."""
_STOP_TIMEOUT_S = 30
_CONFIG = """\
tickTime={tick_ms}
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
"""


def require_zookeeper() -> None:
    """Skip a test that cannot start a server here, or fail it where nothing may be skipped."""
    try:
        find_installation(os.environ)
    except UserError as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true allows no skip: {reason}", pytrace=False)
        pytest.skip(str(reason))


class ZooKeeperNode:
    """A server on a loopback port; also a context manager that leaves no process behind."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        tick_ms: int = TICK_MS,
        machine: tuple[str, ...] = _QUICK,
    ) -> None:
        """`settings` are added to its file."""
        self._tick_ms = tick_ms
        self._machine = machine
        self.directory = directory
        self.settings = dict(settings or {})
        self.port = free_port()
        self.output = directory / "output.txt"
        self._started: StartedServer | None = None

    @classmethod
    def as_shipped(cls, directory: Path) -> Self:
        """Return one for measurements: it syncs its log, and its JVM compiles as usual."""
        return cls(directory, tick_ms=_SHIPPED_TICK_MS, machine=())

    @property
    def pid(self) -> int:
        """Return the process id of the running server."""
        assert self._started is not None
        return self._started.child.pid

    @property
    def address(self) -> str:
        """Return what Kafka calls `zookeeper.connect`."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start, and return once it answers; what an earlier process stored is there."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "zoo.cfg"
        own = _CONFIG.format(tick_ms=self._tick_ms, data=self.directory / "data", port=self.port)
        config.write_text(own + "".join(f"{key}={one}\n" for key, one in self.settings.items()))
        with self.output.open("ab") as sink:
            self._started = start_server(
                read_server_properties(config, {}),
                os.environ,
                sink,
                self._machine,
            )
        try:
            wait_until_answers(self._started)
        except UserError as error:
            self.kill()
            raise AssertionError(f"{error}:\n{self.output.read_text()[-4000:]}") from None
        return self

    def kill(self) -> None:
        """Kill it (-9), and wait until it is gone; it has nothing to tidy up."""
        if self._started is not None:
            self._started.child.kill()
            self._started.child.wait(_STOP_TIMEOUT_S)
            self._started.process.close()
            self._started = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
