"""One partition that a fetcher copies, and what is known of it (`fetcher`)."""

from __future__ import annotations

from moldau.replication.fetching.plan import FollowedKey, ReplicaPosition
from moldau.replication.partition import Partition


class Followed:
    """One partition of a fetcher."""

    __slots__ = ("failed", "key", "lag", "leader_epoch", "refusals", "replica", "trouble")

    def __init__(self, replica: Partition) -> None:
        self.replica = replica
        self.key: FollowedKey = (replica.topic_id, replica.key.partition)
        self.leader_epoch = replica.role.leader_epoch
        """The epoch that is followed: another one makes another `Followed`."""
        self.lag = 0
        """How many offsets the replica was behind the leader's high watermark at the last answer,
        as Kafka counts it."""
        self.failed = False
        self.refusals = 0
        """How often the leader did not know yet, or any more, what the metadata says of it."""
        self.trouble = ""
        """What was last said to be wrong with it. While it lasts, that is not said again."""

    def position(self) -> ReplicaPosition:
        """Say where the replica goes on now."""
        replica = self.replica
        return ReplicaPosition(
            replica.key,
            self.leader_epoch,
            replica.log_end_offset,
            replica.log.epochs.latest,
            replica.log_start_offset,
        )
