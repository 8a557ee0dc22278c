"""The identity of log directories: their cluster, their node, and their own ids.

A directory without `meta.properties` is new and is formatted, as Kafka's format tool would do. It
gets the cluster's id (random if no directory has one yet), the node's id and an id of its own. The
metadata directory also gets `bootstrap.checkpoint`, with the first features of the cluster, and the
voters of its quorum if the log is to name them. A directory of another cluster or node is refused.
All directories are checked before the first one is written.

`meta.properties` has two versions. Kafka on ZooKeeper writes 0 and takes no other; with KRaft it is
1. A broker of ours on ZooKeeper takes both, writes new ones as 0, and never changes a version. So a
folder can go back to the Kafka that it came from.
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
from moldau.cluster.initial_voters import INITIAL_FILES, write_initial_voters
from moldau.cluster.journal import METADATA_FOLDER
from moldau.cluster.raft.voters import VoterSet
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
    formats_metadata: bool = True,
    on_zookeeper: bool = False,
    voters: VoterSet | None = None,
) -> ClusterIdentity:
    """Check all log directories and format the new ones; after ConfigError nothing was changed.

    The metadata may live in a directory that holds no partitions: it is no log directory then.
    A node that does not found a cluster has to be told to which one it belongs. A voter among
    others does not format its metadata directory by itself: with an empty one it would not know
    what it has promised. `on_zookeeper` takes and writes the version of ZooKeeper's age. `voters`
    are the first ones of a quorum whose log names them; None if the settings do.
    """
    every = dict.fromkeys([*directories, metadata_directory])
    found = {path: read_meta_properties(files, path) for path in every}
    if not on_zookeeper:
        _refuse_old_versions(found)
    source = "/cluster/id in ZooKeeper" if on_zookeeper else "the setting"
    known = _agreed_cluster_id(found, node_id, cluster_id, source)
    _refuse_lost_identity(files, found)
    if found[metadata_directory] is None and not formats_metadata:
        raise ConfigError(
            f"{metadata_directory} is not formatted. A voter among others does not do that by"
            " itself, because one that has lost its disk must not vote as if it were new. If it is"
            " new, format it (moldau kafka-storage format --cluster-id ID --config FILE)"
        )
    if known is None and not founds_cluster:
        raise ConfigError(
            f"{metadata_directory} belongs to no cluster yet: format it with the id of the cluster"
            " to join (moldau kafka-storage format --cluster-id ID --config FILE)"
        )
    agreed = known or uuid_text(random_uuid(random))
    ids: dict[str, bytes] = {}
    for path, properties in found.items():
        # Kafka on ZooKeeper wrote no directory.id until 3.7, and no cluster.id until 0.10.1.
        ours = properties or MetaProperties(0 if on_zookeeper else 1)
        directory_id = ours.directory_id
        # `meta.properties` is written last: a directory that has it is formatted completely.
        if properties is None:
            _make_durable_folder(files, path)
            if path == metadata_directory:
                _write_first_records(files, path, now_ms, voters, founds_cluster=founds_cluster)
                directory_id = _voter_directory(voters, node_id)
        ids[path] = directory_id or random_uuid(random)
        whole = replace(ours, cluster_id=agreed, node_id=node_id, directory_id=ids[path])
        if whole != properties:
            write_meta_properties(files, path, whole)
    of_logs = {path: ids[path] for path in directories}
    return ClusterIdentity(agreed, node_id, of_logs, ids[metadata_directory])


def is_formatted(files: Files, directory: str) -> bool:
    """Tell whether a directory says whose it is."""
    return files.exists(f"{directory}/{META_PROPERTIES}")


def _refuse_old_versions(found: Mapping[str, MetaProperties | None]) -> None:
    for path, properties in found.items():
        if properties is not None and (properties.version == 0 or properties.cluster_id is None):
            raise ConfigError(
                f"{path}/{META_PROPERTIES} is from a broker on ZooKeeper. Move the metadata of its"
                " cluster first (moldau cluster migrate), or use another folder"
            )


def _refuse_lost_identity(files: Files, found: Mapping[str, MetaProperties | None]) -> None:
    for path, properties in found.items():
        folder = f"{path}/{METADATA_FOLDER}"
        if properties is not None or not files.exists(folder):
            continue
        # With the first voters alone in it, only its formatting was interrupted.
        if not INITIAL_FILES.issuperset(files.names(folder)):
            raise ConfigError(f"{path} holds a metadata log, but no {META_PROPERTIES} to say whose")


def _voter_directory(voters: VoterSet | None, node_id: int) -> bytes | None:
    """Return the id that the voters know this node's directory by; None if none of them is it."""
    for key in voters.keys if voters is not None else ():
        if key.node == node_id:
            return key.directory
    return None


def _agreed_cluster_id(
    found: Mapping[str, MetaProperties | None], node_id: int, wanted: str | None, source: str
) -> str | None:
    agreed = wanted
    for path, properties in found.items():
        if properties is None:
            continue
        where = f"{path}/{META_PROPERTIES}"
        if properties.node_id not in {None, node_id}:
            key = properties.node_id_key
            raise ConfigError(
                f"{where} belongs to {key}={properties.node_id}, not to {key}={node_id}"
            )
        if properties.cluster_id is None:
            continue
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


def _write_first_records(
    files: Files, path: str, now_ms: int, voters: VoterSet | None, *, founds_cluster: bool
) -> None:
    """Write what a metadata directory has to say before its log does."""
    folder = f"{path}/{METADATA_FOLDER}"
    if files.exists(folder):
        # Formatting was interrupted, and may have been for other voters, or for none.
        for name in files.names(folder):
            files.remove(f"{folder}/{name}")
        files.sync_folder(folder)
    if founds_cluster:
        _write_bootstrap(files, path, now_ms)
    if voters is not None:
        files.make_folder(folder)  # durable with `meta.properties`, which comes next
        write_initial_voters(files, path, voters, now_ms)


def _write_bootstrap(files: Files, path: str, now_ms: int) -> None:
    writer = SnapshotWriter(files, f"{path}/{BOOTSTRAP}", now_ms, 0)
    writer.append(encode_change(feature, METADATA_LEVEL) for feature in FIRST_FEATURES)
    writer.finish()
