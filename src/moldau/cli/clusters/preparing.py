"""Preparing the folder of a cluster for a start: formatted directories and settings.

What is there is kept. Directories get the cluster's id here, because a broker that does not vote
cannot choose one.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from moldau.base.clock import system_random
from moldau.base.errors import UserError
from moldau.base.files import write_atomically
from moldau.base.ids import random_uuid, uuid_text
from moldau.cli.clusters.layout import (
    FILE_NAME,
    ClusterFolder,
    ClusterShape,
    LocalBroker,
    encode,
    find_cluster,
    refuse_other_shape,
)
from moldau.cli.clusters.properties import properties_text
from moldau.cli.frame.failures import reason_of
from moldau.cluster.formatting import identify_directories
from moldau.storage.disk import Disk

BROKER_COUNT: Final = 3
BASE_PORT: Final = 9092


def claim(path: Path, broker_count: int | None, base_port: int | None) -> ClusterFolder:
    """Take the cluster of a folder, or found one there; UserError if the folder does not fit."""
    found = find_cluster(path)
    if found is None:
        return _found(path.absolute(), broker_count or BROKER_COUNT, base_port or BASE_PORT)
    refuse_other_shape(found, broker_count, base_port)
    return found


def prepare(cluster: ClusterFolder, overrides: Mapping[str, str]) -> None:
    """Format the directories that are new, and write the settings."""
    for broker in cluster.brokers:
        format_directory(cluster, broker)
    try:
        for broker in cluster.brokers:
            text = properties_text(cluster, broker, overrides)
            broker.properties.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {broker.properties}: {reason_of(error)}") from None


def format_directory(cluster: ClusterFolder, broker: LocalBroker) -> None:
    """Give a broker's directory its identity, unless it has one; ConfigError if it has another."""
    directory = str(broker.data)
    identify_directories(
        Disk(),
        [directory],
        directory,
        broker.broker_id,
        system_random(),
        int(time.time() * 1000),
        cluster.shape.cluster_id,
        founds_cluster=broker.is_voter,
    )


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


def _found(path: Path, broker_count: int, base_port: int) -> ClusterFolder:
    """Write down a new cluster, before anything of it is made."""
    shape = ClusterShape(uuid_text(random_uuid(system_random())), base_port, broker_count)
    write_atomically(Disk(), str(path / FILE_NAME), encode(shape))
    return ClusterFolder(path, shape)
