"""A cluster that `moldau cluster up` starts on this machine: ports for it, and its certain end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_harness.ports import free_port
from moldau.cli.clusters.layout import CONTROLLER_OFFSET, ZOOKEEPER_OFFSET, find_cluster
from moldau.cli.clusters.stopping import kill


def free_base_port(broker_count: int) -> int:
    """Return a port that is free, as are those of other brokers, controller and ZooKeeper."""
    offsets = (*range(1, broker_count), CONTROLLER_OFFSET, ZOOKEEPER_OFFSET)
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
