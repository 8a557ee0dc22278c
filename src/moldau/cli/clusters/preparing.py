"""Prepares the folder of a cluster for a start: formats directories and writes settings.

Data that is there stays. Directories get the cluster's id here, because a broker that does not vote
cannot choose one. With ZooKeeper the brokers agree on the id there, and format their directories.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from moldau.base.clock import system_random
from moldau.base.errors import UserError
from moldau.base.files import write_atomically
from moldau.base.ids import random_uuid, uuid_text
from moldau.cli.clusters.layout import (
    FILE_NAME,
    HOST,
    ClusterFolder,
    ClusterShape,
    LocalNode,
    ZooKeeperChoice,
    base_port_max,
    default_controller_count,
    encode,
    find_cluster,
    refuse_other_shape,
)
from moldau.cli.clusters.properties import (
    METRICS,
    environment,
    overrides_of,
    properties_text,
    zookeeper_properties_text,
)
from moldau.cli.frame.failures import reason_of
from moldau.cli.zookeeper.connection import connect_to, require_kazoo
from moldau.cli.zookeeper.installation import find_installation
from moldau.cluster.formatting import identify_directories, is_formatted
from moldau.server.configuration.settings import BrokerSettings
from moldau.storage.disk import Disk

BROKER_COUNT: Final = 3
BASE_PORT: Final = 9092


def claim(
    path: Path,
    broker_count: int | None,
    base_port: int | None,
    zookeeper: ZooKeeperChoice | None = None,
    controller_count: int | None = None,
) -> ClusterFolder:
    """Return the cluster of a folder, or a new one for it; UserError if the folder does not fit.

    Nothing is written, so that after a refused start other ports can still be chosen.
    """
    found = find_cluster(path)
    if found is None:
        shape = _new_shape(broker_count, base_port, zookeeper, controller_count)
        return ClusterFolder(path.absolute(), shape)
    refuse_other_shape(found, broker_count, base_port, zookeeper, controller_count)
    return found


def _new_shape(
    broker_count: int | None,
    base_port: int | None,
    zookeeper: ZooKeeperChoice | None,
    controller_count: int | None,
) -> ClusterShape:
    brokers, port = broker_count or BROKER_COUNT, base_port or BASE_PORT
    if zookeeper is not None:
        controllers, reason = 1, "--zookeeper"
    else:
        controllers = controller_count or default_controller_count(brokers)
        reason = f"{controllers} controllers"
    if port > (most := base_port_max(zookeeper, controllers)):
        raise UserError(f"--base-port {port}: the maximum with {reason} is {most}")
    cluster_id = None if zookeeper else uuid_text(random_uuid(system_random()))
    return ClusterShape(
        cluster_id, port, brokers, zookeeper, controllers, controller_count is not None
    )


def check_zookeeper(cluster: ClusterFolder) -> None:
    """Raise UserError, which says what is missing, if a ZooKeeper cannot be run or reached."""
    if cluster.zookeeper_connect is None:
        return
    require_kazoo()
    if cluster.zookeeper is not None:
        find_installation(os.environ)
    else:
        connect_to(cluster.zookeeper_connect).close()


def refuse_taken_ports(cluster: ClusterFolder, overrides: Mapping[str, str]) -> None:
    """Raise UserError if a port that the cluster needs is in use, or needed twice."""
    needed = {member.port: member.name for member in cluster.members}
    for broker in cluster.brokers:
        if broker.controller_port is not None:
            needed[broker.controller_port] = f"the controller of {broker.name}"
    for node in cluster.nodes:
        address = overrides_of(node, overrides).get(METRICS, "")
        _, _, port_text = address.rpartition(":")
        if port_text.isdecimal() and (other := needed.get(int(port_text))) is not None:
            raise UserError(
                f"{METRICS}: the metrics of {node.name} would be at {address}, the port of {other}"
            )
    for port, user in needed.items():
        with socket.socket() as probe:
            # As brokers do, so that connections that have just ended do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                told = f"{user} cannot listen on {HOST}:{port}: {reason_of(error)}"
                choice = "" if _is_founded(cluster) else "; use other ports with --base-port"
                raise UserError(told + choice) from None


def check_settings(cluster: ClusterFolder, overrides: Mapping[str, str]) -> list[str]:
    """Return the warnings about these settings; ConfigError if a broker cannot start with them."""
    warnings: dict[str, None] = {}
    for node in cluster.nodes:
        settings = BrokerSettings.load(
            properties_text(cluster, node, {}),
            overrides_of(node, overrides),
            environment(os.environ),
            read_file=lambda path: Path(path).read_text(encoding="utf-8"),
        )
        warnings |= dict.fromkeys(settings.warnings)
    return list(warnings)


def prepare(cluster: ClusterFolder, overrides: Mapping[str, str]) -> None:
    """Write down a new cluster, format new directories, and write the settings."""
    if not _is_founded(cluster):
        path = cluster.path / FILE_NAME
        with _writing(path):
            write_atomically(Disk(), str(path), encode(cluster.shape))
    refuse_lost_votes(cluster, cluster.nodes)
    for node in cluster.nodes:
        format_directory(cluster, node)
    for node in cluster.nodes:
        text = properties_text(cluster, node, overrides_of(node, overrides))
        with _writing(node.properties):
            node.properties.write_text(text, encoding="utf-8")
    if (zookeeper := cluster.zookeeper) is not None:
        with _writing(zookeeper.properties):
            zookeeper.folder.mkdir(exist_ok=True)
            text = zookeeper_properties_text(zookeeper)
            zookeeper.properties.write_text(text, encoding="latin-1")


def format_directory(cluster: ClusterFolder, node: LocalNode) -> None:
    """Give a node's directory its identity, unless it has one; ConfigError if it has another."""
    directory = str(node.data)
    with _writing(node.data):
        if cluster.shape.zookeeper is not None:
            node.data.mkdir(parents=True, exist_ok=True)
            return
        identify_directories(
            Disk(),
            [directory],
            directory,
            node.node_id,
            system_random(),
            int(time.time() * 1000),
            cluster.shape.cluster_id,
            founds_cluster=node.is_voter,
        )


def refuse_lost_votes(cluster: ClusterFolder, nodes: Iterable[LocalNode]) -> None:
    """Raise UserError if a voter among others had a formatted directory and has it no more.

    It has forgotten its votes, and could give its majority to a second leader of the same epoch.
    Where all votes are lost, nothing is left that they could contradict.
    """
    has_votes = any(_is_formatted(one) for one in cluster.voters)
    # Settings are written once all directories are formatted: without any, this one may be new.
    if not has_votes or not any(one.properties.exists() for one in cluster.nodes):
        return
    for node in nodes:
        if node.is_voter and not _is_formatted(node):
            raise UserError(
                f"{node.data} is not formatted any more: {node.name} has lost its disk, and with it"
                " what it has voted. Bring that disk back; or format another one (moldau"
                f" kafka-storage format -t {cluster.shape.cluster_id} -c {node.properties}), start"
                f" it, and run moldau quorum replace {node.node_id}"
            )


def _is_formatted(node: LocalNode) -> bool:
    return is_formatted(Disk(), str(node.data))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raise UserError with the path where the system refuses to write."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {reason_of(error)}") from None


@contextmanager
def starting(path: Path) -> Iterator[None]:
    """Keep other commands from starting brokers of the same folder meanwhile."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(f"cannot use {path}: {reason_of(error)}") from None
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another command is starting brokers of {path}") from None
        yield
    finally:
        os.close(folder)


def _is_founded(cluster: ClusterFolder) -> bool:
    """Tell whether the cluster was written down, which is the first step of making one."""
    return (cluster.path / FILE_NAME).exists()
