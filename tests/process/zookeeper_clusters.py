"""Several `moldau serve` processes that form one cluster on ZooKeeper, with ids from 0 on.

Any of them may be the controller. What a test asks ZooKeeper itself, it asks by a client of its
own. Several clusters share a server, each below a chroot of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kafka_harness.waiting import eventually
from kafka_harness.zookeeper_ensemble import ZooKeeperEnsemble
from kafka_harness.zookeeper_node import ZooKeeperNode
from process.clusters import Cluster
from process.links import ZOOKEEPER, Links, broker

SHORT_ZOOKEEPER_SESSION: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "2000",
}
"""A broker that is gone is missed after three seconds and not after eighteen."""


class ZooKeeperCluster(Cluster):
    """Brokers 0 to `size` - 1, whose metadata is in ZooKeeper; a context manager."""

    first_id = 0

    def __init__(
        self,
        directory: Path,
        zookeeper: ZooKeeperNode | ZooKeeperEnsemble,
        chroot: str,
        *,
        size: int = 3,
        settings: Mapping[str, str] = SHORT_ZOOKEEPER_SESSION,
        links: Links | None = None,
    ) -> None:
        """`links` stand between brokers, and between each broker and ZooKeeper."""
        self._zookeeper = zookeeper
        self._chroot = chroot
        self.expected_errors: list[str] = []
        """Texts of the errors in the logs that tests have caused."""
        super().__init__(directory, size=size, settings=settings, links=links)
        self.tree = KazooClient(
            zookeeper.address, connection_retry={"max_tries": -1, "max_delay": 0.5}
        )
        self.tree.start()
        self.tree.ensure_path(chroot)
        self.tree.chroot = chroot

    @property
    def connect(self) -> str:
        """What Kafka's tools call `--zookeeper`, past the network that may be cut."""
        return self._zookeeper.address + self._chroot

    def _prepare(self, settings: Mapping[str, str], links: Links | None) -> None:
        for broker_id in self.ids:
            address = self._zookeeper.address
            if links is not None:
                assert isinstance(self._zookeeper, ZooKeeperNode)
                port = links.between(broker(broker_id), ZOOKEEPER, self._zookeeper.port)
                address = f"127.0.0.1:{port}"
            own = {"broker.id": str(broker_id), "zookeeper.connect": address + self._chroot}
            self._write_settings(broker_id, {**own, **settings})

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except BaseException:
            self._leave_tree()
            raise

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave_tree()
        super().__exit__(error_type, error, trace)

    def _leave_tree(self) -> None:
        self.tree.stop()
        self.tree.close()

    def make_whole(self) -> None:
        """Start the brokers that are down, and let paused ones go on."""
        self.resume(*tuple(self._paused))
        down = [broker_id for broker_id in self.ids if broker_id not in self._running]
        if down:
            self.start(*down)

    # What ZooKeeper has

    def node(self, path: str) -> bytes | None:
        """Return the content of a node; None if it does not exist."""
        try:
            found: bytes = self.tree.get(path)[0]
        except NoNodeError:
            return None
        return found

    def content(self, path: str) -> Any:
        """Return what the JSON of a node says; None if it does not exist."""
        found = self.node(path)
        return None if found is None else json.loads(found)

    def wait_for_node(self, path: str, wanted: bytes | None) -> None:
        """Wait until a node has a content, or is gone."""
        try:
            eventually(lambda: self.node(path) == wanted, f"{path} has {wanted!r}")
        except AssertionError as late:
            raise AssertionError(f"{late}; it has {self.node(path)!r}") from None

    @property
    def registered(self) -> set[int]:
        """The brokers that have a node."""
        return {int(name) for name in self.tree.get_children("/brokers/ids")}

    def wait_for_brokers(self, wanted: Iterable[int]) -> None:
        """Wait until these brokers have nodes, and no others."""
        ids = set(wanted)
        eventually(lambda: self.registered == ids, f"brokers {ids} are registered")

    # The controller

    @property
    def controller_epoch(self) -> int:
        return int(self.node("/controller_epoch") or 0)

    def controller(self) -> int:
        """Wait until there is a controller; return its id."""
        found = eventually(lambda: self.content("/controller"), "there is a controller")
        return int(found["brokerid"])

    def wait_for_controller(self, after: int) -> int:
        """Wait for a controller with a later epoch than this; return its id."""
        eventually(lambda: self.controller_epoch > after, f"a controller after epoch {after}")
        return self.controller()

    def others(self, broker_id: int) -> list[int]:
        """Return all brokers but one."""
        return [one for one in self.ids if one != broker_id]

    # Checks at the end

    def error_lines(self, broker_id: int) -> list[str]:
        lines = super().error_lines(broker_id)
        return [line for line in lines if not any(one in line for one in self.expected_errors)]
