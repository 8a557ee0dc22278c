"""A ZooKeeper server in its own process, from the jars that PySpark brings.

So tests need no download of their own. One server is an ensemble; sessions expire within its ticks.
"""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from .distribution import KafkaUnavailableError, require
from .java import QUICK_START
from .ports import free_port
from .waiting import eventually

TICK_MS = 500
"""Sessions may have a time-out of two to twenty ticks, and expire within one."""
_START_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 30
_CONFIG = """\
tickTime={tick_ms}
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=srvr
"""


class ZooKeeperNode:
    """A server on a loopback port; also a context manager that leaves no process behind."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.output = directory / "output.txt"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return what Kafka calls `zookeeper.connect`."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start, and return once it answers; what an earlier process stored is there."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "zoo.cfg"
        config.write_text(
            _CONFIG.format(tick_ms=TICK_MS, data=self.directory / "data", port=self.port)
        )
        with self.output.open("ab") as sink:
            self._process = subprocess.Popen(
                [
                    require("java"), *QUICK_START, "-Dzookeeper.forceSync=no",
                    "-cp", str(_jars() / "*"),
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config),
                ],
                stdout=sink,
                stderr=sink,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        try:
            eventually(self._answers, "ZooKeeper answers", _START_TIMEOUT_S)
        except AssertionError as late:
            self.kill()
            raise AssertionError(f"{late}:\n{self.output.read_text()[-4000:]}") from None
        return self

    def _answers(self) -> bool:
        """Ask for its state with one of ZooKeeper's four letter words."""
        assert self._process is not None
        assert self._process.poll() is None, f"ZooKeeper ended:\n{self.output.read_text()[-4000:]}"
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=1) as asked,
        ):
            asked.sendall(b"srvr")
            return b"Mode:" in asked.recv(4096)
        return False

    def kill(self) -> None:
        """Kill it (-9), and wait until it is gone; it has nothing to tidy up."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_TIMEOUT_S)
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def _jars() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise KafkaUnavailableError("PySpark is not installed (its jars have ZooKeeper)")
    return Path(found.origin).parent / "jars"
