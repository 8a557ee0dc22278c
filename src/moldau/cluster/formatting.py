"""The identity of log directories: their cluster, their node, and their own ids.

A directory without `meta.properties` is new and is formatted, as Kafka's format tool would do. It
gets the cluster's id (random if no directory has one yet), the node's id and an id of its own. The
metadata directory also gets `bootstrap.checkpoint`, with the first features of the cluster. A
directory of another cluster or node is refused. All directories are checked before the first one is
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from moldau.base.clock import Random
from moldau.base.errors import ConfigError
from moldau.base.files import Files
from moldau.base.ids import random_uuid, uuid_text
from moldau.cluster.changes import FeatureLevelSet
from moldau.cluster.configs import ELIGIBLE_LEADERS_FEATURE
from moldau.cluster.journal import METADATA_FOLDER
from moldau.cluster.record_codec import METADATA_VERSION, encode_change
from moldau.cluster.snapshots import BOOTSTRAP, SnapshotWriter
from moldau.storage.checkpoints import (
    META_PROPERTIES,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)

METADATA_LEVEL: Final = 30
"""4.3-IV0, the newest level of Kafka 4.3. We know all of its records."""

FIRST_FEATURES: Final = (
    FeatureLevelSet(METADATA_VERSION, METADATA_LEVEL),
    FeatureLevelSet(ELIGIBLE_LEADERS_FEATURE, 1),
    FeatureLevelSet("group.version", 1),
    FeatureLevelSet("share.version", 1),
    FeatureLevelSet("streams.version", 1),
    FeatureLevelSet("transaction.version", 2),
)
"""The features of a cluster formatted by Kafka 4.3, so that Kafka finds nothing to upgrade."""


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """The cluster and node of the log directories, and their ids."""

    cluster_id: str
    node_id: int
    directory_ids: Mapping[str, bytes]
    """The id of each log directory by its path, for the broker's registration."""
    metadata_directory_id: bytes
    """The id of the directory that holds the metadata log."""


def identify_directories(
    files: Files,
    directories: Sequence[str],
    metadata_directory: str,
    node_id: int,
    random: Random,
    now_ms: int,
    cluster_id: str | None = None,
    *,
    founds_cluster: bool = True,
) -> ClusterIdentity:
    """Check all log directories and format the new ones; after ConfigError nothing was changed.

    The metadata may live in a directory that holds no partitions: it is no log directory then.
    A node that does not found a cluster has to be told to which one it belongs.
    """
    every = dict.fromkeys([*directories, metadata_directory])
    found = {path: read_meta_properties(files, path) for path in every}
    known = _agreed_cluster_id(found, node_id, cluster_id)
    for path, properties in found.items():
        if properties is None and files.exists(f"{path}/{METADATA_FOLDER}"):
            raise ConfigError(f"{path} holds a metadata log, but no {META_PROPERTIES} to say whose")
    if known is None and not founds_cluster:
        raise ConfigError(
            f"{metadata_directory} belongs to no cluster yet: format it with the id of the cluster"
            " to join (moldau kafka-storage format --cluster-id ID --config FILE)"
        )
    agreed = known or uuid_text(random_uuid(random))
    ids: dict[str, bytes] = {}
    for path, properties in found.items():
        # `meta.properties` is written last: a directory that has it is formatted completely.
        if properties is None:
            _make_durable_folder(files, path)
            if path == metadata_directory and founds_cluster:
                _write_bootstrap(files, path, now_ms)
        ours = properties or MetaProperties(cluster_id=agreed, node_id=node_id)
        ids[path] = ours.directory_id or random_uuid(random)
        if ours.directory_id is None:
            write_meta_properties(files, path, replace(ours, directory_id=ids[path]))
    of_logs = {path: ids[path] for path in directories}
    return ClusterIdentity(agreed, node_id, of_logs, ids[metadata_directory])


def _agreed_cluster_id(
    found: Mapping[str, MetaProperties | None], node_id: int, wanted: str | None
) -> str | None:
    agreed, source = wanted, "the setting"
    for path, properties in found.items():
        if properties is None:
            continue
        where = f"{path}/{META_PROPERTIES}"
        if properties.version == 0 or properties.cluster_id is None:
            raise ConfigError(
                f"{where} is of the age of ZooKeeper: its topics are not in a journal"
            )
        if properties.node_id != node_id:
            raise ConfigError(
                f"{where} belongs to node.id={properties.node_id}, not to node.id={node_id}"
            )
        if agreed is not None and properties.cluster_id != agreed:
            raise ConfigError(
                f"{where} belongs to cluster.id={properties.cluster_id}, but {source} says {agreed}"
            )
        agreed, source = properties.cluster_id, where
    return agreed


def _make_durable_folder(files: Files, path: str) -> None:
    """Make a folder and its parents durably: each parent is synced, or a power cut removes it."""
    missing: list[str] = []
    while path and not files.exists(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    for folder in reversed(missing):
        files.make_folder(folder)
        files.sync_folder(folder.rpartition("/")[0] or ("/" if folder.startswith("/") else "."))


def _write_bootstrap(files: Files, path: str, now_ms: int) -> None:
    writer = SnapshotWriter(files, f"{path}/{BOOTSTRAP}", now_ms, 0)
    writer.append(encode_change(feature, METADATA_LEVEL) for feature in FIRST_FEATURES)
    writer.finish()
