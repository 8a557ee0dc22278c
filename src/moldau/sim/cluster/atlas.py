"""Which replicas may have lost records, and of which partitions too many have at one time.

A power cut or a new disk may take back what a broker has acknowledged. So may a disk that failed:
nobody knows what of it is there when it works again, and the controller counts its replicas as
incomplete. It does so too after the kill of a broker whose disk was so full that it could not mark
its records. Such a replica is damaged until its broker has registered again, and the replica has
been out of the ISR and has come back into it.
What was acknowledged is safe while fewer replicas are damaged than `min.insync.replicas`. Beyond
that nothing is promised for the records of this partition, until the end of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from moldau.base.ids import BrokerId, PartitionKey
from moldau.cluster.image import MetadataImage
from moldau.sim.cluster.nodes import Nodes


@dataclass
class _Damage:
    """One replica that may lack records."""

    life: int
    """In which life of the broker it happened."""
    has_left: bool = False
    """Whether the replica was out of the ISR, in a later life."""


class Atlas:
    """The damage of one run."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._damaged: dict[PartitionKey, dict[int, _Damage]] = {}
        self.exceeded: set[PartitionKey] = set()
        """Partitions whose records may be lost."""
        self.limits: dict[str, int] = {}
        """By topic, how many damaged replicas are too many."""
        for node in nodes.all:
            node.disk_lost = partial(self.lost_records, node.id)

    def is_damaged(self, key: PartitionKey, broker_id: int) -> bool:
        return broker_id in self._damaged.get(key, ())

    def lost_records(self, broker_id: int) -> None:
        """Note that a broker may have lost whatever it had not synced, or everything."""
        life = self._nodes.by_id(broker_id).process.life
        for topic, partition in self._nodes.image.replicas_on(BrokerId(broker_id)):
            key = PartitionKey(topic.name, partition.index)
            damaged = self._damaged.setdefault(key, {})
            damaged[broker_id] = _Damage(life)
            if len(damaged) >= self.limits.get(topic.name, 1):
                self.exceeded.add(key)

    def follow(self, image: MetadataImage) -> None:
        """Learn from new metadata which replicas are as good as the others again."""
        for key, damaged in self._damaged.items():
            partition = image.partition(key)
            if partition is None:
                continue
            for broker_id, damage in list(damaged.items()):
                if not self._is_registered_since(broker_id, damage):
                    continue
                if damage.has_left and broker_id in partition.isr:
                    del damaged[broker_id]
                elif broker_id not in (*partition.isr, *partition.eligible_leaders):
                    damage.has_left = True

    def _is_registered_since(self, broker_id: int, damage: _Damage) -> bool:
        process = self._nodes.by_id(broker_id).process
        return (
            process.serving and process.life > damage.life and self._nodes.is_registered(broker_id)
        )
