"""What the settings of a node say of its part in the quorum, and of its log."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from moldau.base.clock import Random
from moldau.base.errors import ConfigError
from moldau.base.files import Files
from moldau.base.ids import BrokerId
from moldau.cluster.formatting import ClusterIdentity, identify_directories
from moldau.cluster.kept_snapshots import MetadataRetention
from moldau.cluster.raft.voters import VoterEndpoint, VoterSet
from moldau.cluster.snapshotting import SnapshotPace


@dataclass(frozen=True, slots=True)
class OwnNode:
    """Which node this is, as its settings say."""

    id: BrokerId
    log_directories: tuple[str, ...]
    metadata_directory: str
    static_voters: VoterSet | None
    """The voters of the settings; None where the log names them."""
    endpoints: tuple[VoterEndpoint, ...] = ()
    """Where other nodes reach this one; empty on a node that never votes."""
    is_voting: bool = True
    """Whether it may ever vote: then its log has to be durable."""
    has_one_controller: bool = False
    """Whether the settings name one address only: what answers there is all there is."""
    is_sole_voter: bool = False
    """Whether nobody else votes: it founds its cluster then, and formats its folders."""
    joins_voters: bool = False
    """Whether it becomes a voter by itself."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a node keeps its log."""

    pace: SnapshotPace
    retention: MetadataRetention
    min_insync_replicas: int = 1
    """Of a new cluster."""


def identify_node(
    files: Files, own: OwnNode, log_directories: Collection[str], random: Random, now_ms: int
) -> ClusterIdentity:
    """Check whose the folders are, and format those that a node may format by itself."""
    return identify_directories(
        files,
        tuple(log_directories),
        own.metadata_directory,
        own.id,
        random,
        now_ms,
        founds_cluster=own.is_sole_voter,
        # A voter on an empty disk has forgotten its votes: somebody has to say that it may.
        formats_metadata=own.is_sole_voter or not own.is_voting,
    )


def other_cluster_error(own: OwnNode, identity: ClusterIdentity) -> ConfigError:
    """Say that the only controller of the settings is not this node's."""
    return ConfigError(
        f"{own.metadata_directory} belongs to cluster.id={identity.cluster_id}, and the controller"
        " to another cluster"
    )
