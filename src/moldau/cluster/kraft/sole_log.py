"""What a voter that is alone learns from its log while it opens it, before it changes anything.

All of that log counts as soon as this node leads, so there is nothing to wait for. Other nodes have
to: what they find may not be committed.
"""

from __future__ import annotations

from moldau.base.ids import BrokerId
from moldau.cluster.batch_files import StoredBatch
from moldau.cluster.cluster_minimum import ClusterMinimum
from moldau.cluster.quorum import Quorum
from moldau.records.record import read_records


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

    def check(self) -> None:
        """Raise ConfigError if other nodes vote as well."""
        self._quorum.check_alone(self._node_id, self._folder)
