"""`moldau cluster migrate`: moves the metadata of a stopped cluster from ZooKeeper to a quorum.

Of a folder of `moldau cluster up` everything is known, and its own ZooKeeper is started for the
move. `cluster.json` is written last: until then the command can be given again. Of another cluster
the new settings of all nodes have to be given. How the move goes is in `metadata_move`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from moldau.base.clock import SystemClock, system_random
from moldau.base.errors import UserError
from moldau.base.files import write_atomically
from moldau.base.properties import parse_properties
from moldau.cli.clusters import preparing, processes, stopping
from moldau.cli.clusters.layout import (
    FILE_NAME,
    ClusterFolder,
    base_port_max,
    default_controller_count,
    encode,
    open_cluster,
)
from moldau.cli.clusters.properties import FIXED, environment, properties_text
from moldau.cli.clusters.starting import bring_up
from moldau.cli.clusters.stop_signals import Interrupted, StopSignals
from moldau.cli.frame.failures import reason_of
from moldau.cli.zookeeper.connection import require_kazoo
from moldau.cli.zookeeper.elected_controller import read_controller
from moldau.cluster.zookeeper.client.connect_string import parse_connect_string
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.stores import kazoo_zookeeper
from moldau.server.zookeeper.metadata_move import MetadataMove, MovingNode
from moldau.storage.disk import Disk

SESSION_TIMEOUT_S: Final = 10.0
"""As long may a move that was killed keep the next one waiting."""

SIGNALLED: Final = 128
"""Added to the number of a signal: the status a shell shows for it."""

_OF_ZOOKEEPER: Final = "zookeeper."
"""How the settings begin that a quorum does not have."""

Say = Callable[[str], None]


# A folder of `moldau cluster up`


def migrate_folder(data: Path, controllers: int | None, say: Say, *, is_dry_run: bool) -> None:
    """Move the cluster of a folder, whose own ZooKeeper is started for it."""
    with preparing.starting(data):
        cluster = open_cluster(data)
        if cluster.zookeeper_connect is None:
            raise UserError(f"{cluster.path} already has {cluster.shape.metadata_place}")
        processes.refuse_running(cluster.brokers, ": `moldau cluster down` stops all brokers")
        target = _in_quorum(cluster, controllers)
        texts = {one.properties: _new_text(target, one.node_id) for one in target.brokers}
        nodes = [_node_of(text, environment(os.environ)) for text in texts.values()]
        with _running_zookeeper(cluster, say):
            cluster_id = _move(cluster.zookeeper_connect, nodes, say, is_dry_run=is_dry_run)
        if is_dry_run:
            return
        for path, text in texts.items():
            _replace(path, text.encode())
        shape = replace(target.shape, cluster_id=cluster_id)
        _replace(cluster.path / FILE_NAME, encode(shape))
        say(f"`moldau cluster up --data {data}` starts the cluster with {shape.metadata_place}")


def _in_quorum(cluster: ClusterFolder, controllers: int | None) -> ClusterFolder:
    """Return the cluster as it will be, without its id."""
    count = cluster.shape.broker_count
    chosen = controllers or default_controller_count(count)
    if chosen > count:
        raise UserError(f"--controllers {chosen}: the cluster has only {count} brokers")
    if cluster.shape.base_port > base_port_max(None, chosen):
        raise UserError(
            f"--controllers {chosen}: there are too few ports after base port"
            f" {cluster.shape.base_port}"
        )
    shape = replace(cluster.shape, zookeeper=None, controller_count=chosen)
    return ClusterFolder(cluster.path, shape)


def _new_text(target: ClusterFolder, number: int) -> str:
    """Return the new settings of a broker; what `--override` has set stays."""
    broker = target.node(number)
    old = parse_properties(_read(broker.properties)) if broker.properties.exists() else {}
    kept = {
        key: value
        for key, value in old.items()
        if key not in FIXED and not key.startswith(_OF_ZOOKEEPER)
    }
    return properties_text(target, broker, kept)


def _replace(path: Path, content: bytes) -> None:
    try:
        write_atomically(Disk(), str(path), content)
    except OSError as error:
        raise UserError(f"cannot write {path}: {reason_of(error)}") from None


@contextmanager
def _running_zookeeper(cluster: ClusterFolder, say: Say) -> Iterator[None]:
    """Run the folder's own ZooKeeper meanwhile, unless it runs already."""
    own = cluster.zookeeper
    if own is None or processes.running_id(own) is not None:
        yield
        return
    with StopSignals() as signals:
        try:
            bring_up([own], signals, say)
        except Interrupted:
            raise click.exceptions.Exit(SIGNALLED + signals.last) from None
    try:
        yield
    finally:
        stopping.stop([own])


# Any other cluster


def migrate_cluster(connect: str, configs: Sequence[Path], say: Say, *, is_dry_run: bool) -> None:
    """Move a cluster, given the new settings of all its nodes."""
    nodes = [_node_of(_read(path), os.environ) for path in configs]
    _move(connect, nodes, say, is_dry_run=is_dry_run)
    if not is_dry_run:
        say("start each node with its new settings: the metadata is in the quorum")


# Both


def _move(connect: str, nodes: Sequence[MovingNode], say: Say, *, is_dry_run: bool) -> str:
    """Move the metadata, and return the id of the cluster."""
    require_kazoo()
    found = read_controller(connect)
    # A session that can write would create a chroot that is missing.
    if found is None or found.cluster_id is None:
        raise UserError(f"no cluster found in ZooKeeper at {connect}")
    zookeeper = kazoo_zookeeper(parse_connect_string(connect), SESSION_TIMEOUT_S, None)
    move = MetadataMove(zookeeper, Disk(), SystemClock(), system_random(), nodes, say)
    return asyncio.run(move.run(is_dry_run=is_dry_run))


def _node_of(text: str, environ: Mapping[str, str]) -> MovingNode:
    return MovingNode.of(
        BrokerSettings.load(
            text,
            {},
            environ,
            read_file=lambda path: Path(path).read_text(encoding="utf-8"),
            host_name=socket.getfqdn,
        )
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {reason_of(error)}") from None
