"""Partitions of one broker for tests, with the roles that a test gives them."""

from __future__ import annotations

from moldau.base.ids import PartitionKey, TopicId
from moldau.replication.partition import Partition, Role
from moldau.storage.log import Log

ME, OTHER = 1, 2
ALONE = Role(ME, 0, 0, (ME,), (ME,))
"""Led by this broker, the only replica."""


def make_partition(key: PartitionKey, topic_id: TopicId, log: Log, role: Role = ALONE) -> Partition:
    """Open a partition on this broker and give it a role."""
    partition = Partition(key, topic_id, log, ME)
    give_role(partition, role)
    return partition


def give_role(partition: Partition, role: Role, now_s: float = 0.0) -> None:
    """Do what the broker does when the metadata says this."""
    if role.leader == ME:
        partition.become_leader(role, now_s)
    else:
        partition.become_follower(role)
