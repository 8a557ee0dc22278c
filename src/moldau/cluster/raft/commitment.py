"""What is committed: the records of its own epoch that a leader knows on the disks of a majority.

A record of an earlier epoch on a majority may still be overwritten, by a later leader that never
saw it (Raft, figure 8). It is committed by a record of the leader's own epoch behind it. So the
high watermark stands until it can pass the start of the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.base.ids import NO_OFFSET, Offset
from moldau.cluster.raft.voters import ReplicaKey, VoterSet


def committed_offset(
    voters: VoterSet, durable_ends: Mapping[ReplicaKey, Offset], epoch_start: Offset
) -> Offset:
    """Return the offset before which a majority of voters has everything durable.

    -1 while that does not include a record of the leader's own epoch. Ends of replicas that are no
    voters do not count.
    """
    ends = sorted((durable_ends.get(key, NO_OFFSET) for key in voters.keys), reverse=True)
    reached = ends[voters.majority - 1] if ends else NO_OFFSET
    return reached if reached > epoch_start else NO_OFFSET
