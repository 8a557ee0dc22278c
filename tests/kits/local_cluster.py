"""A cluster that `moldau cluster up` starts on this machine: its ports, commands, certain end."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_harness.ports import free_port
from kits.cli_kit import moldau
from moldau.cli.clusters.layout import CONTROLLER_OFFSET, ZOOKEEPER_OFFSET, find_cluster
from moldau.cli.clusters.stopping import kill

MOLDAU = str(Path(sys.executable).with_name("moldau"))
PATIENCE_S = 120


def free_base_port(broker_count: int) -> int:
    """Return a port that is free, as are those of other brokers, controllers and ZooKeeper."""
    controllers = range(CONTROLLER_OFFSET, CONTROLLER_OFFSET + broker_count)
    offsets = (*range(1, broker_count), *controllers, ZOOKEEPER_OFFSET)
    while True:
        port = free_port()
        if all(_is_free(port + offset) for offset in offsets):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def ended_with_block(folder: Path) -> Iterator[Path]:
    """Kill the processes of a folder's cluster at the end, whatever happens."""
    try:
        yield folder
    finally:
        if folder.is_dir() and (cluster := find_cluster(folder)) is not None:
            kill(cluster.members)


@contextmanager
def foreground(folder: Path, *options: object) -> Iterator[Foreground]:
    """Run a cluster in the foreground; its brokers are to be ended by `ended_with_block`."""
    with subprocess.Popen(
        [MOLDAU, "cluster", "up", "--data", str(folder), *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            yield Foreground(process)
        finally:
            process.kill()


class Foreground:
    """A cluster that runs in the foreground, and what it says."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        line, self.zookeeper = self._line(process.stdout), None
        if line.startswith("ZooKeeper at "):
            self.zookeeper = line.removeprefix("ZooKeeper at ")
            line = self._line(process.stdout)
        self.bootstrap = line.removeprefix("BOOTSTRAP=")

    def said(self) -> str:
        """Return the next line that it says beside the output."""
        return self._line(self.process.stderr)

    def ended(self) -> int:
        """Return its status once it has ended."""
        return self.process.wait(PATIENCE_S)

    def _line(self, pipe: Any) -> str:
        line = b""
        while not line.endswith(b"\n"):
            assert select.select([pipe], [], [], PATIENCE_S)[0], "it says nothing"
            byte = os.read(pipe.fileno(), 1)
            assert byte, f"it has ended and said {line!r}"
            line += byte
        return line.decode().rstrip("\n")


def run(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a command of a cluster to its end. Its brokers must not be children of the test."""
    return subprocess.run(
        [MOLDAU, "cluster", *map(str, words), "--data", str(folder)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def status(folder: Path) -> dict[str, Any]:
    """Return what `moldau cluster status` tells."""
    ran = moldau("cluster", "status", "--data", folder, "-o", "json")
    assert ran.status == 0, ran.err
    found: dict[str, Any] = ran.data
    return found


def brokers(folder: Path) -> list[dict[str, Any]]:
    """Return what the status tells of each broker."""
    found: list[dict[str, Any]] = status(folder)["brokers"]
    return found


def states(folder: Path) -> list[str]:
    """Return the state of each broker's process."""
    return [one["state"] for one in brokers(folder)]
