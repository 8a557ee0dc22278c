"""What a voter that is alone learns from its log while it opens it, before it changes anything.

All of that log counts as soon as this node leads, so there is nothing to wait for. Other nodes have
to: what they find may not be committed.
"""

from __future__ import annotations

from moldau.base.errors import ConfigError
from moldau.base.ids import BrokerId, uuid_text
from moldau.cluster.batch_files import StoredBatch
from moldau.cluster.cluster_minimum import ClusterMinimum
from moldau.cluster.quorum import Quorum
from moldau.cluster.raft.voters import NodeId, ReplicaKey, VoterSet
from moldau.records.record import read_records
from moldau.storage.checkpoints import META_PROPERTIES


class SoleLog:
    """The log of one node, as it is read at the start."""

    def __init__(
        self, node_id: BrokerId, folder: str, quorum: Quorum, minimum: ClusterMinimum
    ) -> None:
        self._node_id = node_id
        self._folder = folder
        self._quorum = quorum
        self._minimum = minimum

    def look(self, batch: StoredBatch) -> None:
        """Take the next batch: who votes, and whether an earlier version has set the minimum."""
        base_offset = batch.header.base_offset
        if batch.header.control:
            for record in read_records(batch.data):
                self._quorum.learn(record)
        elif self._minimum.is_watching(base_offset):
            values = [record.value or b"" for record in read_records(batch.data)]
            self._minimum.saw(base_offset, values)

    def check(self, voters: VoterSet, directory: bytes) -> None:
        """Raise ConfigError if other nodes vote as well, or this one with another directory."""
        self._quorum.check_alone(self._node_id, self._folder)
        if voters.find(ReplicaKey(NodeId(self._node_id), directory)) is None:
            # It would never lead: a directory is a voter, and this one has not been added.
            named = " ".join(uuid_text(key.directory) for key in voters.keys)
            raise ConfigError(
                f"{self._folder} names {named} as the directory of its only voter, node"
                f" {self._node_id}, but the directory.id of {META_PROPERTIES} here is"
                f" {uuid_text(directory)}. If it is the same disk, put that id back"
            )
