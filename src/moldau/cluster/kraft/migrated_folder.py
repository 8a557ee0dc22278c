"""The folders of a node that moves from ZooKeeper to the quorum: written, and read back.

Until the tree is marked, nothing is changed that a broker on ZooKeeper looks at: it ignores the
metadata folder, and its `meta.properties` keeps version 0. So the move can be given up at any
point, and begun again. What an earlier try has left in the metadata folder goes. A folder with a
log in it belongs to a quorum that has run already, and is refused.

A voter gets the snapshot that all begin with, and a `quorum-state` that knows its epoch, a vote for
nobody and no leader. The first leader is elected in the next epoch, and its log begins where the
snapshot ends. Nodes that do not vote fetch the snapshot from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

from moldau.base.clock import Random
from moldau.base.errors import UserError
from moldau.base.files import Files, read_whole
from moldau.base.ids import LeaderEpoch, random_uuid
from moldau.cluster.image import MetadataImage
from moldau.cluster.journal import METADATA_FOLDER
from moldau.cluster.kraft.quorum_file import read_quorum_state, write_quorum_state
from moldau.cluster.opening import open_newest_snapshot, opening_errors
from moldau.cluster.quorum import QUORUM_STATE, Quorum
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.voters import VoterSet
from moldau.cluster.record_codec import encode_change, metadata_level
from moldau.cluster.snapshots import PART_SUFFIX, SnapshotId, SnapshotWriter, batched
from moldau.storage.checkpoints import (
    META_PROPERTIES,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)

_BATCH_BYTES: Final = 16 << 10
_OURS: Final = re.compile(rf"\d{{20}}-\d{{10}}\.checkpoint({re.escape(PART_SUFFIX)})?")
_OUR_NAMES: Final = frozenset((QUORUM_STATE, f"{QUORUM_STATE}.tmp"))
_LOG: Final = re.compile(r"\d{20}\.log")

_ON_ZOOKEEPER: Final = 0
_IN_QUORUM: Final = 1
"""Versions of `meta.properties`."""


@dataclass(frozen=True, slots=True)
class NodeFolders:
    """Where one node keeps its logs and its metadata."""

    node_id: int
    log_directories: tuple[str, ...]
    metadata_directory: str

    @property
    def directories(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.log_directories, self.metadata_directory)))

    @property
    def metadata_folder(self) -> str:
        """The folder of the metadata log."""
        return f"{self.metadata_directory}/{METADATA_FOLDER}"


# Identity


def is_known_node(files: Files, node: NodeFolders, cluster_id: str) -> bool:
    """Tell whether the folders are those of this node; UserError if they are another's."""
    is_known = False
    for path in node.log_directories:
        found = read_meta_properties(files, path)
        if found is None:
            continue
        is_known = True
        if found.node_id not in {None, node.node_id} or found.cluster_id not in {None, cluster_id}:
            raise UserError(
                f"{path}/{META_PROPERTIES} is that of node {found.node_id} in cluster"
                f" {found.cluster_id}, not of node {node.node_id} in {cluster_id}"
            )
    return is_known


def directory_ids(
    files: Files, node: NodeFolders, cluster_id: str, random: Random, *, is_writing: bool
) -> dict[str, bytes]:
    """Return the id of each directory. One that has none gets it, still in the form of ZooKeeper's.

    The snapshot names the ids, so they have to be on the disk before it.
    """
    ids = {}
    for path in node.directories:
        found = read_meta_properties(files, path) or MetaProperties(_ON_ZOOKEEPER)
        ids[path] = found.directory_id or random_uuid(random)
        if found.directory_id is None and is_writing:
            files.make_folder(path)
            whole = replace(
                found, cluster_id=cluster_id, node_id=node.node_id, directory_id=ids[path]
            )
            write_meta_properties(files, path, whole)
    return ids


def belong_to_quorum(files: Files, node: NodeFolders, cluster_id: str) -> None:
    """Write the version of the quorum into each `meta.properties`; ids stay."""
    for path in node.directories:
        found = read_meta_properties(files, path)
        if found is not None and found.version != _IN_QUORUM:
            whole = replace(found, version=_IN_QUORUM, cluster_id=cluster_id, node_id=node.node_id)
            write_meta_properties(files, path, whole)


# Metadata


def has_log(files: Files, node: NodeFolders) -> bool:
    """Tell whether the node has run in a quorum."""
    return any(_LOG.fullmatch(name) for name in _names(files, node.metadata_folder))


def refuse_other_metadata(files: Files, node: NodeFolders) -> None:
    """Raise UserError if the metadata folder holds what no move has written."""
    for name in _names(files, node.metadata_folder):
        if not _OURS.fullmatch(name) and name not in _OUR_NAMES:
            raise UserError(
                f"{node.metadata_folder} holds {name}: it is the metadata of another cluster, or of"
                " a quorum that has run. Use a folder without it"
            )


def write_metadata(
    files: Files,
    node: NodeFolders,
    image: MetadataImage,
    snapshot: SnapshotId,
    voters: VoterSet,
    now_ms: int,
) -> None:
    """Write a voter's metadata in the place of an earlier try's."""
    refuse_other_metadata(files, node)
    folder = node.metadata_folder
    for name in _names(files, folder):
        files.remove(f"{folder}/{name}")
    files.make_folder(folder)
    files.sync_folder(node.metadata_directory)
    promise = QuorumState(LeaderEpoch(snapshot.epoch))
    write_quorum_state(files, folder, promise, voters, kraft_version=0)
    writer = SnapshotWriter(files, f"{folder}/{snapshot.name}", now_ms, now_ms)
    level = metadata_level(image)
    values = (encode_change(change, level) for change in image.as_changes())
    for batch in batched(values, _BATCH_BYTES):
        writer.append(batch)
    writer.finish()


def read_metadata(
    files: Files, node: NodeFolders, cluster_id: str, snapshot: SnapshotId
) -> MetadataImage:
    """Read it back as a start does; UserError or StorageError if it is not all there."""
    folder = node.metadata_folder
    with opening_errors(folder):
        opened = open_newest_snapshot(files, folder, cluster_id, Quorum())
        image = opened.replay.image(opened.id.end_offset)
    promise = QuorumState(LeaderEpoch(snapshot.epoch))
    if opened.id != snapshot or read_quorum_state(files, folder) != promise:
        raise UserError(f"{folder} does not say what was written")
    return image


def checksum_of(files: Files, node: NodeFolders, snapshot: SnapshotId) -> int | None:
    """Return a checksum of a node's snapshot; None if it does not have it."""
    try:
        return crc32(read_whole(files, f"{node.metadata_folder}/{snapshot.name}"))
    except FileNotFoundError:
        return None


def _names(files: Files, folder: str) -> Sequence[str]:
    return files.names(folder) if files.exists(folder) else ()
