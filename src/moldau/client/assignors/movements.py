"""What has been moved between whom, so that nothing is moved to and fro.

Moving one partition of a topic from A to B and another of the same topic from B to A leaves the
counts as they were and costs two members their partition. So when the second is asked for, the
first goes back instead.
"""

from __future__ import annotations

from moldau.client.assignors.hash_order import HashOrderedSet
from moldau.client.records import TopicPartition

_Way = tuple[str, str, str]
"""Topic, from whom, to whom."""


class Movements:
    """Where partitions came from and went to, over all their moves."""

    def __init__(self) -> None:
        self._ways: dict[TopicPartition, _Way] = {}
        self._moved: dict[_Way, HashOrderedSet] = {}

    def record(self, partition: TopicPartition, giver: str, taker: str) -> None:
        """Note a move; one that moved before counts from where it was first."""
        way = self._ways.pop(partition, None)
        if way is not None:
            self._moved[way].remove(partition)
            if not self._moved[way]:
                del self._moved[way]
            giver = way[1]
        if giver != taker:
            way = (partition.topic, giver, taker)
            self._ways[partition] = way
            self._moved.setdefault(way, HashOrderedSet()).add(partition)

    def instead_of(self, partition: TopicPartition, giver: str, taker: str) -> TopicPartition:
        """Return what to move from giver to taker: what came the other way, if anything did."""
        way = self._ways.get(partition)
        if way is not None:
            giver = way[1]
        back = self._moved.get((partition.topic, taker, giver))
        return back.first() if back else partition
