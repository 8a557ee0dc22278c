"""What the cluster's metadata says of one partition: its leader, its replicas, and who is in sync.

A role is a value. Another role is another object, so that one comparison tells that nothing has
changed since somebody last looked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moldau.base.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch


@dataclass(slots=True, frozen=True)
class Role:
    """What the cluster's metadata says of a partition."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    """Grows with every change of the partition; a proposal with an older one is refused."""
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    recovering: bool = False
    """Whether the leader was elected uncleanly, and nobody has joined it since (KIP-704)."""


NO_ROLE: Final = Role(BrokerId(-1), NO_LEADER_EPOCH, -1, (), ())
"""Of a partition that was just opened: nobody leads it."""
