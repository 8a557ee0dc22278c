"""An ensemble of ZooKeeper servers, each in its own process; a minority of them may be killed."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from .ports import free_port
from .waiting import eventually
from .zookeeper_node import ZooKeeperNode

_TIMEOUT_S = 5
_LIMITS = {"initLimit": "20", "syncLimit": "10"}
"""In ticks. What a busy machine needs until servers have found each other."""


class ZooKeeperEnsemble:
    """Servers on loopback ports; also a context manager that leaves no process behind."""

    def __init__(self, directory: Path, size: int = 3) -> None:
        servers = {
            f"server.{number}": f"127.0.0.1:{free_port()}:{free_port()}"
            for number in range(1, size + 1)
        }
        self.nodes = [
            ZooKeeperNode(directory / f"zookeeper-{number}", {**_LIMITS, **servers})
            for number in range(1, size + 1)
        ]
        for number, node in enumerate(self.nodes, 1):
            data = node.directory / "data"
            data.mkdir(parents=True)
            (data / "myid").write_text(f"{number}\n")

    @property
    def address(self) -> str:
        """Return what Kafka calls `zookeeper.connect`."""
        return ",".join(node.address for node in self.nodes)

    def wait_for_leader(self) -> ZooKeeperNode:
        """Wait until a server leads; return it."""
        return eventually(lambda: self._in_mode("leader"), "a server of ZooKeeper leads")

    def wait_for_follower(self) -> ZooKeeperNode:
        """Wait until a server follows; return it."""
        return eventually(lambda: self._in_mode("follower"), "a server of ZooKeeper follows")

    def _in_mode(self, mode: str) -> ZooKeeperNode | None:
        return next((node for node in self.nodes if _mode(node) == mode), None)

    def wait_until_whole(self) -> None:
        """Wait until every server leads or follows."""
        for node in self.nodes:
            eventually(lambda one=node: _mode(one) in ("leader", "follower"), "a server serves")

    def __enter__(self) -> Self:
        try:
            for node in self.nodes:
                node.start()
            self.wait_until_whole()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self.nodes:
            node.kill()


def _mode(node: ZooKeeperNode) -> str:
    """Return what a server says that it is; '' if it does not serve."""
    said = b""
    with (
        suppress(OSError),
        socket.create_connection(("127.0.0.1", node.port), timeout=_TIMEOUT_S) as asked,
    ):
        asked.sendall(b"srvr")
        while chunk := asked.recv(4096):
            said += chunk
    _, _, rest = said.decode(errors="replace").partition("Mode: ")
    return rest.split("\n", 1)[0]
